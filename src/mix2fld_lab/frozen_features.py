"""What a pre-trained network is worth on a narrow uplink: every contender on the same features.

    python -m mix2fld_lab.frozen_features

runs what is missing of ``results/records/frozen_features.jsonl`` and writes
``docs/frozen_features.md`` from it. How devices train was chosen on a validation split of other
seeds, and is the same for all contenders.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mix2fld import run
from mix2fld.advice.measured import MeasuredPoint, MeasuredSetting, label_skew
from mix2fld.base.errors import InputError
from mix2fld.base.files import append_atomic, write_atomic
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, label_counts, load_dataset
from mix2fld.dataset import Dataset
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.link_plan import sizes_of
from mix2fld_lab.frozen_settings import CIFAR, COMMON, SETTINGS, settings_of
from mix2fld_lab.made_with import made_with, said_of
from mix2fld_lab.pages import render
from mix2fld_lab.reproduction.frontier.make_measured import dump_measured

RECORDS = Path("results/records/frozen_features.jsonl")
PAGE = Path("docs/frozen_features.md")
TABLE = Path("src/mix2fld/advice/measured_features.json")
TEMPLATE = Path(__file__).parent / "templates" / "frozen_features.md.j2"
SEEDS = (0, 1, 2)


class FeaturePoint(NamedTuple):
    """One run: where, what, and with which seed."""

    split: str
    protocol: str
    rounds: int
    seed: int


def wanted(splits: Sequence[str] = tuple(SETTINGS)) -> Iterator[tuple[FeaturePoint, Config]]:
    """Every run of these settings."""
    for split in splits:
        for seed in SEEDS:
            for protocol, changes in SETTINGS[split].contenders:
                config = Config.of(
                    protocol=protocol, seed=seed, **{**settings_of(split), **changes}
                )
                yield FeaturePoint(split, protocol, config.rounds, seed), config


def measure(records: Path, splits: Sequence[str]) -> None:
    """Run what is missing, one after the other."""
    known = {point for point, _ in read(records)}
    dataset: dict[str, Dataset] = {}
    absent = set[str]()
    records.parent.mkdir(parents=True, exist_ok=True)
    for point, config in wanted(splits):
        if point in known:
            continue
        kind = "cifar" if point.split in CIFAR else point.split
        if kind in absent:
            continue
        if kind not in dataset:
            try:
                dataset = {kind: SETTINGS[point.split].load(config)}
            except InputError as error:  # such as files that no registry has
                print(f"{point.split}: skipped: {error}")
                absent.add(kind)
                continue
        try:
            (result,) = run(config, dataset=dataset[kind])
        except InputError as error:  # such as mixing two labels where a device holds one
            print(f"{point}: {error}")
            continue
        bits = sum(info["bits"]["up"] for info in result.rounds) / config.data.devices
        scores = result.rounds[-1]["scores"]
        record = {**point._asdict(), "bits_up": bits, "server": scores["global"]}
        record["accuracy"] = float(np.mean(scores["devices"]))
        record["made_with"] = made_with()
        append_atomic(records, (json.dumps(record) + "\n").encode())


def read(records: Path) -> list[tuple[FeaturePoint, dict[str, Any]]]:
    """The runs that are recorded."""
    if not records.exists():
        return []
    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    return [(FeaturePoint(*(row[field] for field in FeaturePoint._fields)), row) for row in rows]


def measured(records: Path) -> dict[str, MeasuredSetting]:
    """What the adviser knows of it: contenders of as many rounds as the common settings have."""
    dataset = None
    found = {}
    for split in CIFAR:
        rows = [row for point, row in read(records) if point.split == split]
        if not {"isolated", "fl"} <= {row["protocol"] for row in rows}:
            continue
        config = Config.of(**settings_of(split))
        dataset = dataset or load_dataset(config.data)
        labels, count = dataset.train_labels, dataset.num_labels
        skews = [
            label_skew(label_counts(labels, device_parts(dataset, config.replace(seed=s)), count))
            for s in SEEDS
        ]
        key = f"cifar10-features-{split}"
        found[key] = MeasuredSetting(
            key=key,
            title=f"{SETTINGS[split].title}, features of {config.data.features}",
            dataset=config.data.dataset,
            ideal_link=True,
            kind="labels",
            skew=round(float(np.mean(skews)), 4),
            devices=config.data.devices,
            taking_part=config.participants_per_round,
            samples=config.data.samples_per_device,
            weights=sizes_of(config).dims.num_weights,
            rounds=config.rounds,
            points=tuple(_points(split, rows)),
            features=config.data.features,
        )
    return found


def _points(split: str, rows: list[dict[str, Any]]) -> Iterator[MeasuredPoint]:
    """Contenders whose rounds are those of the common settings, in the order of their list."""
    names = ("batch_size", "learning_rate", "final_learning_rate", "logit_adjustment")
    for spelled, changed in SETTINGS[split].contenders:
        if "rounds" in changed:
            continue
        own = [r for r in rows if (r["protocol"], r["rounds"]) == (spelled, COMMON["rounds"])]
        if own:
            settings = {**COMMON, **changed}
            changes = {name: settings[name] for name in (*names, "device_model", "local_steps")}
            title = get_protocol(spelled).title
            bits = float(np.mean([row["bits_up"] for row in own]))
            scores = [round(row["accuracy"], 5) for row in own]
            yield MeasuredPoint(spelled, title, spelled, changes, round(bits, 1), scores, None)


def page(records: Path = RECORDS) -> str:
    """The page, from the records alone."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for point, row in read(records):
        found[point[:3]].append(row)
    splits = []
    for split, setting in SETTINGS.items():
        keys = [key for key in found if key[0] == split]
        keys.sort(key=lambda key: np.mean([row["bits_up"] for row in found[key]]))
        rows = []
        for key in keys:
            scores = [100 * row["accuracy"] for row in found[key]]
            bits = np.mean([row["bits_up"] for row in found[key]])
            spread = f"{min(scores):.1f} to {max(scores):.1f}"
            shown = (key[1], str(key[2]), f"{bits:,.0f}", f"{np.mean(scores):.1f}", spread)
            rows.append((*shown, str(len(scores))))
        if rows:
            splits.append((setting.title, setting.sentence, rows))
    made = said_of(*(row for _, row in read(records)))
    return render(TEMPLATE, splits=splits, made_with=made, **COMMON)


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=Path, default=RECORDS, help="a line for each run")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that is written")
    parser.add_argument("--table", type=Path, default=TABLE, help="what the adviser reads")
    parser.add_argument("--from-records", action="store_true", help="run nothing")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    chosen = parser.parse_args()
    if not chosen.from_records:
        measure(chosen.records, chosen.settings)
    write_atomic(chosen.table, dump_measured(measured(chosen.records)).encode())
    write_atomic(chosen.page, page(chosen.records).encode())


if __name__ == "__main__":
    main()
