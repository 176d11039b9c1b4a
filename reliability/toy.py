"""A dataset and settings small enough for runs of a second: for the harnesses and the tests."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.native import kernel_of
from mix2fld.types import Dataset

LABELS, SIDE = 4, 8
TINY: dict[str, Any] = {
    "devices": 4,
    "samples_per_device": 40,
    "partition": "iid",
    "model": "mlp",
    "learning_rate": 0.1,
    "seed_samples": 10,
    "inverse_samples": 16,
}
FOR_TESTS: dict[str, Any] = {
    **TINY,
    "rounds": 2,
    "local_steps": 30,
    "server_steps": 20,
    "curve_points": 3,
    "link": "ideal",
}
FOR_HARNESSES: dict[str, Any] = {
    **TINY,
    "rounds": 3,
    "local_steps": 20,
    "server_steps": 10,
    "curve_points": 1,
}


@cache
def toy_dataset(train: int = 240, test: int = 120) -> Dataset:
    """Noisy copies of one random picture for each label."""
    rng = np.random.default_rng(7)
    pictures = rng.integers(0, 256, (LABELS, SIDE, SIDE, 1))

    def samples(count: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        labels = rng.permutation(np.arange(count) % LABELS).astype(np.int32)
        noisy = 0.6 * pictures[labels] + rng.normal(50, 40, (count, SIDE, SIDE, 1))
        return np.clip(noisy, 0, 255).astype(np.uint8), labels

    return Dataset("toy", *samples(train), *samples(test), LABELS)


def toy_config(**fields: object) -> Config:
    """Two short rounds of four devices on an ideal link."""
    return Config.of(**{"protocol": "fl", **FOR_TESTS, **_kernel(fields), **fields})


def toy_grid(**fields: object) -> Grid:
    """The same for several runs: ``protocols`` and ``seed`` may be tuples."""
    return Grid.of(**{"protocols": "fl", **FOR_TESTS, **_kernel(fields), **fields})


def _kernel(fields: dict[str, Any]) -> dict[str, Any]:
    """Machine code for the toy's own network: XLA would compile every shape of every test anew."""
    other = fields.keys() & {"model", "optimizer", "soft_label_teacher", "preset"}
    there = kernel_of("mlp", (SIDE, SIDE, 1), LABELS) is not None
    return {"kernel": "native"} if there and not other else {}


def small_config(dataset: str, **fields: Any) -> Config:
    """Three shorter rounds on the link of the paper, with the dataset of a file."""
    return Config.of(**{**FOR_HARNESSES, "dataset": dataset, **fields})


def small_grid(dataset: str, **fields: Any) -> Grid:
    """The same for several runs."""
    return Grid.of(**{**FOR_HARNESSES, "dataset": dataset, **fields})


def small_flags(dataset: str, **fields: Any) -> list[str]:
    """The same as flags of ``mix2fld run``."""
    named = {**FOR_HARNESSES, "dataset": dataset, **fields}
    return [
        word
        for name, value in named.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def write_dataset(path: Path) -> Path:
    """The toy dataset as a .npz file."""
    data = toy_dataset()
    names = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    np.savez(path, **{name: getattr(data, name) for name in names})
    return path
