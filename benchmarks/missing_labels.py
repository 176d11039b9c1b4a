"""Murmur's logit adjustment where labels are missing: python -m benchmarks.missing_labels.

Nothing was tuned on these seeds. Machines: 30 of them, each with 2 of 4 faults. Partitions: those
of the comparison that leave labels out, on MNIST and Fashion-MNIST.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

import mix2fld
from mix2fld.base.spread import spread
from mix2fld.data import load_dataset
from mix2fld.extend import PARTITIONS

FAULTS, FEATURES = 4, 24
SEEDS = range(10, 20)
NAMES = {
    ("fl8", "auto"): "FL 8-bit",
    ("murmur", 0.0): "Murmur, τ = 0",
    ("murmur", 2.0): "Murmur, τ = 2",
    ("murmur", "auto"): "Murmur, by the labels held",
}
"""By protocol and tau."""
RULES: tuple[dict[str, Any], ...] = ({}, {"logit_adjustment": 2.0}, {"logit_adjustment": 0.0})


def two_of_four(
    by_label: Sequence[Any], data: Any, rng: np.random.Generator
) -> list[np.ndarray[Any, Any]]:
    """Half of the samples of each device are of one fault, half of another."""
    piles = [list(rng.permutation(rows)) for rows in by_label]
    half, parts = data.samples_per_device // 2, []
    for _ in range(data.devices):
        own: list[int] = []
        for label in rng.choice(FAULTS, 2, replace=False):
            own += piles[label][:half]
            piles[label] = piles[label][half:]
        parts.append(np.array(own))
    return parts


def machines(noise: float, seed: int) -> mix2fld.Dataset:
    """Three clusters of each fault; the more noise, the more they overlap."""
    rng = np.random.default_rng(1000 + seed)
    centres = rng.normal(size=(FAULTS, 3, FEATURES))

    def samples(count: int) -> tuple[Any, Any]:
        labels, clusters = rng.integers(0, FAULTS, count), rng.integers(0, 3, count)
        inputs = centres[labels, clusters] + noise * rng.normal(size=(count, FEATURES))
        return inputs.astype(np.float32), labels

    return mix2fld.Dataset("machines", *samples(12_000), *samples(2_000), FAULTS)


def on_machines() -> Iterator[dict[str, Any]]:
    """Every rule, and FL 8-bit, at two levels of noise."""
    PARTITIONS["two-of-four"] = two_of_four
    common: dict[str, Any] = {
        "model": "mlp", "devices": 30, "samples_per_device": 60, "partition": "two-of-four",
        "rounds": 5, "local_steps": 600, "link": "ideal", "update_bits": 200,
    }  # fmt: skip
    for noise in (0.6, 1.0):
        for seed in SEEDS:
            data = machines(noise, seed)
            for protocol, rule in (("fl8", {}), *(("murmur", rule) for rule in RULES)):
                config = mix2fld.Config.of(protocol=protocol, seed=seed, **common, **rule)
                yield {"data": f"machines, noise {noise}", **measured(config, data)}


def on_partitions() -> Iterator[dict[str, Any]]:
    """The rule and tau = 2, on partitions that leave labels out."""
    for dataset, seed in (("mnist", 101), ("fashion-mnist", 20)):
        data = load_dataset(mix2fld.Config.of(dataset=dataset).data)
        for name, partition in (
            ("shards", {"partition": "shards"}),
            ("Dirichlet 0.1", {"partition": "dirichlet", "dirichlet_alpha": 0.1}),
            ("Dirichlet 0.3", {"partition": "dirichlet", "dirichlet_alpha": 0.3}),
        ):
            for rule in RULES[:2]:
                config = mix2fld.Config.of(
                    protocol="murmur", seed=seed, rounds=5, link="ideal", update_bits=500,
                    test_samples=5000, local_steps=3200, **partition, **rule,
                )  # fmt: skip
                yield {"data": f"{dataset}, {name}", **measured(config, data)}


def measured(config: mix2fld.Config, data: mix2fld.Dataset) -> dict[str, Any]:
    """What the devices and the server reach."""
    (result,) = mix2fld.run(config, dataset=data, progress=False)
    scores, tau = result.summary["scores"], config.learning.logit_adjustment
    reached = {"devices": round(scores["mean"], 4), "server": round(scores["global"], 4)}
    return {"seed": config.seed, "protocol": config.protocol, "tau": tau, **reached}


def rows(path: Path) -> list[dict[str, Any]]:
    """The runs in a file of records."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def machines_table(runs: Sequence[dict[str, Any]]) -> str:
    """The first table of decision 35: means over seeds, and their deviation."""
    data = list(dict.fromkeys(run["data"] for run in runs if run["data"].startswith("machines")))
    headings = [f"{name.removeprefix('machines, ')}: devices | server" for name in data]
    lines = [f"| | {' | '.join(headings)} |", "|---|" + "---|---|" * len(data)]
    for contender, name in NAMES.items():
        cells = []
        for each in data:
            own = [r for r in runs if (r["data"], r["protocol"], r["tau"]) == (each, *contender)]
            cells += [_cell([run[kind] for run in own]) for kind in ("devices", "server")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def over_fl8(runs: Sequence[dict[str, Any]]) -> list[str]:
    """By how many points Murmur's rule is above FL 8-bit on the machines, paired over seeds."""
    lines = []
    for data in dict.fromkeys(run["data"] for run in runs if run["data"].startswith("machines")):
        own, fl8 = (
            {r["seed"]: r for r in runs if (r["data"], r["protocol"], r["tau"]) == (data, *key)}
            for key in (("murmur", "auto"), ("fl8", "auto"))
        )
        for kind in ("devices", "server"):
            lead = spread([100 * (own[seed][kind] - fl8[seed][kind]) for seed in own])
            half = (lead.high - lead.low) / 2
            lines.append(f"{data}, {kind}: {lead.mean:+.1f} ± {half:.1f} points")
    return lines


def partitions_table(runs: Sequence[dict[str, Any]]) -> str:
    """The second: one seed, devices / server."""
    lines = ["| | τ = 2 | by the labels held |", "|---|---|---|"]
    for data in dict.fromkeys(run["data"] for run in runs if "machines" not in run["data"]):
        found = {run["tau"]: run for run in runs if run["data"] == data}
        cells = [
            f"{100 * found[tau]['devices']:.1f} / {100 * found[tau]['server']:.1f}"
            for tau in (2.0, "auto")
        ]
        name = data.replace("fashion-mnist", "Fashion-MNIST").replace("mnist", "MNIST")
        lines.append(f"| {name.replace('shards', 'two shards')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    return f"{100 * fmean(values):.1f} ± {100 * stdev(values):.1f}"


def main() -> None:
    """A line for each run, as it is done."""
    parts = {"machines": on_machines, "partitions": on_partitions}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*parts], help="machines, partitions")
    parser.add_argument("--out", type=Path, default=Path("missing_labels.jsonl"))
    parser.add_argument("--tables", type=Path, help="print the tables of such a file instead")
    given = parser.parse_args()
    if given.tables:
        runs = rows(given.tables)
        print(machines_table(runs), *over_fl8(runs), partitions_table(runs), sep="\n")
        return
    with given.out.open("a") as file:
        for name in given.parts:
            for row in parts[name]():
                line = json.dumps(row)
                print(line, flush=True)
                file.write(line + "\n")


if __name__ == "__main__":
    main()
