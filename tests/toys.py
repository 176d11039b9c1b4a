"""A dataset and configs small enough for many short runs, and links that never or always work."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config
from mix2fld.link import Direction, Memoryless
from mix2fld.types import Dataset, Delivery

LABELS = 4
SIDE = 8


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
    small = {
        "protocols": "fl",
        "rounds": 2,
        "devices": 4,
        "samples_per_device": 40,
        "partition": "iid",
        "model": "mlp",
        "learning_rate": 0.1,
        "local_steps": 30,
        "server_steps": 20,
        "seed_samples": 10,
        "inverse_samples": 16,
        "curve_points": 3,
        "link": "ideal",
    }
    return Config.of(**{**small, **fields})


class DeadLink(Memoryless):
    """Every transfer is an outage."""

    slot_seconds = 1e-3
    max_slots = 5

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Nothing arrives; a device with nothing to send has no outage."""
        idle = bits == 0
        return Delivery(delivered=idle, slots=np.where(idle, 0, self.max_slots))


class CoinLink(DeadLink):
    """Every transfer arrives or not by the toss of a coin."""

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = (rng.random(len(bits)) < 0.6) | (bits == 0)
        slots = np.where(delivered, rng.integers(1, self.max_slots, len(bits)), self.max_slots)
        return Delivery(delivered, np.where(bits == 0, 0, slots))
