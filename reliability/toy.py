"""A dataset and settings with which a run takes a second."""

from pathlib import Path
from typing import Any

import numpy as np

from mix2fld.config import Config

LABELS, SIDE = 4, 8
SMALL: dict[str, Any] = {
    "devices": 4,
    "samples_per_device": 40,
    "partition": "iid",
    "model": "mlp",
    "learning_rate": 0.1,
    "local_steps": 20,
    "server_steps": 10,
    "seed_samples": 10,
    "inverse_samples": 16,
    "rounds": 3,
    "curve_points": 1,
}


def small_config(dataset: str, **fields: Any) -> Config:
    return Config.of(**{**SMALL, "dataset": dataset, **fields})


def small_flags(dataset: str, **fields: Any) -> list[str]:
    """The same as flags of ``mix2fld run``."""
    named = {**SMALL, "dataset": dataset, **fields}
    return [
        word
        for name, value in named.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def write_dataset(path: Path) -> Path:
    """Noisy copies of one random picture for each label, as a .npz file."""
    rng = np.random.default_rng(7)
    pictures = rng.integers(0, 256, (LABELS, SIDE, SIDE))
    arrays = {}
    for name, count in (("train", 240), ("test", 120)):
        labels = rng.permutation(np.arange(count) % LABELS)
        noisy = 0.6 * pictures[labels] + rng.normal(50, 40, (count, SIDE, SIDE))
        arrays[f"{name}_images"] = np.clip(noisy, 0, 255).astype(np.uint8)
        arrays[f"{name}_labels"] = labels
    np.savez(path, **arrays)
    return path
