"""Every protocol on real sensors: smartwatch, where a person is a device.

All rows train alike; protocols that recommend a training of their own are run with that, too.
``python -m benchmarks.sensors`` (``make sensors``) runs it and writes the record and the page after
every seed; runs that exist in ``runs/sensors`` are not run again. With ``page`` it runs nothing and
writes the page from the record.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import mix2fld
from benchmarks import usage
from benchmarks.sensors_page import OWN, PAGE, draw, render
from mix2fld.data import device_parts, load_dataset
from mix2fld.data.catalogue import DATASETS
from mix2fld.data.packages import from_pip
from mix2fld.data.samples import standardised
from mix2fld.data.watch import WATCH_FILE, Recordings, read_recordings, windows_of, worn_arm
from mix2fld.protocols.table import PROTOCOLS, single_runs
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld_lab.made_with import made_with
from mix2fld_lab.trainings import plain

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "sensors.json"
RUNS = ROOT / "runs" / "sensors"
SETTINGS: dict[str, Any] = {
    "dataset": "smartwatch",
    "partition": "by-source",
    "local_steps": 640,
    "server_steps": 320,
}
SEEDS = (0, 1, 2)
SPLITS = {
    "odd persons right, even ones left": "dataset",
    "odd persons left, even ones right": "other-arm",
    "everyone left": "left",
    "everyone right": "right",
}
"""The arm that wears the watch, and the folder of its runs; the first is that of the dataset."""
COMPARED = ("isolated", "fl", "mix2fld")
SPLIT_SEEDS = 3


def main(arguments: list[str]) -> None:
    """Run everything, or only write the page."""
    if arguments != ["page"]:
        measure_all()
    record = json.loads(RECORD.read_text())
    draw(record)
    PAGE.write_text(render(record))


def measure_all() -> None:
    """Run every row of the protocol table with one seed after another, then the other splits."""
    config = mix2fld.Config.of(**SETTINGS, curve_points=1)
    dataset = load_dataset(config.data)
    record = {**describe(config, dataset), "rows": {}, "splits": {}}
    for number in range(1, len(SEEDS) + 1):
        record["seeds"] = number
        for name, row in PROTOCOLS.items():
            if row.promise is not None:
                continue
            alike = measure(name, number, dataset, RUNS / "dataset")
            record["rows"][name] = {"title": row.title, **alike}
            if not plain(row.training):
                own = measure(name, number, dataset, RUNS / "own", same_training=False)
                record["rows"][f"{name}{OWN}"] = {"title": row.title, **own}
            print(f"seeds: {number}, {name}: {alike}", flush=True)
        write(record)
    recordings = fetch()
    for split, folder in SPLITS.items():
        data = split_dataset(recordings, split)
        record["splits"][split] = {
            name: measure(name, SPLIT_SEEDS, data, RUNS / folder) for name in COMPARED
        }
        print(split, record["splits"][split], flush=True)
        write(record)


def describe(config: mix2fld.Config, dataset: mix2fld.Dataset) -> dict[str, Any]:
    """What is run."""
    learning = make_learning(
        single_runs(config)[0], dataset.samples, Classification(dataset.num_labels)
    )
    return {
        "made_with": made_with(),
        "settings": SETTINGS,
        "rounds": config.rounds,
        "split_seeds": SPLIT_SEEDS,
        "samples": str(dataset.samples),
        "weights": learning.dims.num_weights,
        "seed_samples": config.seeding.seed_samples,
        "held": sorted(len(part) for part in device_parts(dataset, config)),
        "tests": len(dataset.test_labels),
        "labels": dataset.num_labels,
    }


def measure(
    name: str, seeds: int, dataset: mix2fld.Dataset, out: Path, same_training: bool = True
) -> dict[str, Any]:
    """Accuracies and traffic of one protocol over the first seeds."""
    changes = {**SETTINGS, "curve_points": 1, "same_training": same_training}
    chosen = mix2fld.Grid.of(**changes, protocols=name, seed=SEEDS[:seeds])
    return numbers([one.summary for one in mix2fld.run(chosen, out, dataset=dataset)])


def numbers(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Over seeds: mean and standard deviation of accuracies, and what went over the link."""
    accuracies = [one["scores"] for one in summaries]
    models = [one["global"] for one in accuracies if one["global"] is not None]
    attempted = sum(one["uploads"]["attempted"] for one in summaries)
    return {
        "devices": mean_and_spread([one["mean"] for one in accuracies]),
        "worst": mean_and_spread([one["min"] for one in accuracies]),
        "model": mean_and_spread(models) if models else None,
        "bits": sum(one["bits"]["up"] for one in summaries) / attempted if attempted else 0,
        "delivered": delivered_share([one["uploads"] for one in summaries]),
        "downloads": delivered_share([one["downloads"] for one in summaries]),
        "seconds": float(np.mean([one["seconds"]["communication"] for one in summaries])),
    }


def delivered_share(transfers: list[dict[str, int]]) -> float | None:
    """Of all attempted transfers; None where there were none."""
    attempted = sum(one["attempted"] for one in transfers)
    return sum(one["delivered"] for one in transfers) / attempted if attempted else None


def mean_and_spread(values: list[float]) -> list[float]:
    """Mean, and standard deviation where there are several values."""
    return [float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0]


def fetch() -> Recordings:
    """The recordings themselves, which the dataset's windows are cut from."""
    (place,) = DATASETS["smartwatch"].places
    member = f"{place.inside}{WATCH_FILE}"
    return read_recordings(from_pip(place.address, {member: 1 << 25})[member])


def split_dataset(recordings: Recordings, split: str) -> mix2fld.Dataset:
    """Windows of one arm of each person to train with, of the other arm to test with."""
    info, worn = DATASETS["smartwatch"], worn_arm(recordings)
    arms = (worn, ~worn, ~recordings.right, recordings.right)
    trained = dict(zip(SPLITS, arms, strict=True))[split]
    train, test = (windows_of(recordings, arm, info.sample_shape[0]) for arm in (trained, ~trained))
    data = mix2fld.Dataset(
        *(info.name, train.inputs, train.labels, test.inputs, test.labels, info.num_labels),
        train_sources=train.sources,
        label_names=info.label_names,
        source_names=info.source_names,
    )
    return standardised(data)


def write(record: dict[str, Any]) -> None:
    """The record as far as it has come, and the page made from it."""
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main(usage.arguments(__doc__, "[page]"))
