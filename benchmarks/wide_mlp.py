"""Murmur on a wide model: `mlp` on 1,280 features, few bits, beside training alone.

python -m benchmarks.wide_mlp: a line for each run that the file lacks, as it is done. 3,000 images
of CIFAR-10 behind efficientnet-lite0, ten devices with 200 each, 165,258 weights. Nothing is tuned.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import mix2fld
from mix2fld.data import load_dataset
from mix2fld_lab.made_with import made_with

TRAINING, TESTS, SEED = 3000, 1000, 0
PARTITIONS: dict[str, dict[str, Any]] = {
    "the paper's non-IID split": {"partition": "non-iid"},
    "Dirichlet 0.1": {"partition": "dirichlet", "dirichlet_alpha": 0.1},
    "two shards": {"partition": "shards"},
}
CONTENDERS: dict[str, dict[str, Any]] = {
    "training alone": {"protocol": "isolated"},
    "Murmur, 200 bits": {"protocol": "murmur", "update_bits": 200},
    "Murmur, 200 bits, τ = 2": {
        "protocol": "murmur", "update_bits": 200, "logit_adjustment": 2.0
    },
    "Murmur, 2,000 bits": {"protocol": "murmur", "update_bits": 2000},
}  # fmt: skip


def cases() -> Iterator[dict[str, Any]]:
    """Few steps first: these are the shorter ones."""
    for steps in (800, 3200):
        for partition in PARTITIONS:
            for contender in CONTENDERS:
                yield {"partition": partition, "steps": steps, "contender": contender}


def some_images(folder: Path) -> Path:
    """A part of CIFAR-10 as a file, so that not all 60,000 go through the network."""
    whole = load_dataset(mix2fld.Config.of(dataset="cifar10").data)
    rng, path = np.random.default_rng(SEED), folder / "images.npz"
    train = rng.choice(len(whole.train_inputs), TRAINING, replace=False)
    test = rng.choice(len(whole.test_inputs), TESTS, replace=False)
    np.savez(
        path,
        train_inputs=whole.train_inputs[train],
        train_labels=whole.train_labels[train],
        test_inputs=whole.test_inputs[test],
        test_labels=whole.test_labels[test],
    )
    return path


def measured(case: dict[str, Any], images: Path) -> dict[str, Any]:
    """What devices reach in each round."""
    config = mix2fld.Config.of(
        dataset=str(images), features="efficientnet-lite0", model="mlp", devices=10,
        samples_per_device=200, rounds=5, local_steps=case["steps"], link="ideal", seed=SEED,
        **PARTITIONS[case["partition"]], **CONTENDERS[case["contender"]],
    )  # fmt: skip
    (result,) = mix2fld.run(config, progress=False)
    rounds = result.frame()
    return {
        **case,
        "devices": rounds["accuracy/mean"].round(4).tolist(),
    }


def table(path: Path) -> str:
    """Devices after the last round."""
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    names = [name for name in CONTENDERS if any(run["contender"] == name for run in runs)]
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for steps, partition in dict.fromkeys((run["steps"], run["partition"]) for run in runs):
        own = {
            r["contender"]: r for r in runs if (r["steps"], r["partition"]) == (steps, partition)
        }
        cells = [f"{100 * own[name]['devices'][-1]:.1f}" if name in own else "-" for name in names]
        lines.append(f"| {partition}, 5 × {steps:,} steps | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("wide_mlp.jsonl"))
    parser.add_argument("--table", type=Path, help="print the table of such a file instead")
    given = parser.parse_args()
    if given.table:
        print(table(given.table))
        return
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = [json.loads(line) for line in lines]
    with TemporaryDirectory() as folder:
        images = some_images(Path(folder))
        for case in cases():
            if any(case.items() <= run.items() for run in done):
                continue
            line = json.dumps({**measured(case, images), "made_with": made_with()})
            print(line, flush=True)
            with given.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
