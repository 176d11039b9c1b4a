"""Murmur's logit adjustment where labels are missing: python -m benchmarks.missing_labels.

Nothing was tuned on these seeds. Machines: 30 of them, each with 2 of 4 faults. Partitions: those
of the comparison that leave labels out, on MNIST and Fashion-MNIST.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import mix2fld
from mix2fld.data import load_dataset
from mix2fld.extend import PARTITIONS

FAULTS, FEATURES = 4, 24
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
        for seed in (10, 11, 12):
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


def main() -> None:
    """A line for each run, as it is done."""
    parts = {"machines": on_machines, "partitions": on_partitions}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*parts], help="machines, partitions")
    for name in parser.parse_args().parts:
        for row in parts[name]():
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
