"""The toy dataset and config of ``reliability.toy``, toy signals, and links that rarely work."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from reliability.toy import LABELS, SIDE, toy_config, toy_dataset, toy_grid

from mix2fld.links import Direction, Link, Memoryless
from mix2fld.runs.simulation import Simulation, make_simulation
from mix2fld.types import Dataset, Delivery

__all__ = [
    "LABELS",
    "REPRESENTATIVES",
    "SIDE",
    "CoinLink",
    "DeadLink",
    "examples",
    "many_labels",
    "representatives",
    "save_dataset",
    "simulation_of",
    "toy_config",
    "toy_dataset",
    "toy_grid",
    "toy_signals",
]


def toy_signals(count: int = 400, **fields) -> Dataset:
    """Windows [12, 2] of a sine whose frequency is the label, in units far from 0 to 1."""
    rng = np.random.default_rng(5)
    labels = np.arange(count) % 4
    times = np.arange(12) + rng.uniform(0, 12, (count, 1))
    wave = np.sin(times * (0.3 + 0.5 * labels[:, None]))
    inputs = np.stack([40 + 9 * wave, 0.02 * wave], axis=-1)
    inputs += rng.normal(size=inputs.shape) * np.array([1, 0.002])
    tests = count // 4
    parts = (inputs[tests:], labels[tests:], inputs[:tests], labels[:tests])
    return Dataset("signals", *parts, num_labels=4, **fields)


def many_labels(labels: int = 128) -> Dataset:
    """Noisy copies [4, 4, 1] of a random picture for each of as many labels as ``mlp`` is wide."""
    rng = np.random.default_rng(1)
    pictures = rng.integers(0, 256, (labels, 4, 4, 1))

    def samples(count: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        own = (np.arange(count) % labels).astype(np.int32)
        noisy = 0.7 * pictures[own] + rng.normal(40, 20, (count, 4, 4, 1))
        return np.clip(noisy, 0, 255).astype(np.uint8), own

    return Dataset("many", *samples(8 * labels), *samples(2 * labels), labels)


def toy_numbers() -> Dataset:
    """The toy images, whose mean brightness in the four quarters makes a number."""
    toy, weights = toy_dataset(), np.array([3.0, -1.0, 2.0, 0.5])

    def numbers(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        quarters = np.stack(
            [part.mean(axis=(1, 2, 3)) for half in np.array_split(images, 2, axis=1)
             for part in np.array_split(half, 2, axis=2)], axis=1,
        )  # fmt: skip
        return (quarters @ weights).astype(np.float32)

    return Dataset(
        "numbers", toy.train_inputs, test_inputs=toy.test_inputs,
        train_targets=numbers(toy.train_inputs), test_targets=numbers(toy.test_inputs),
    )  # fmt: skip


def save_dataset(path: Path, data: Dataset) -> Path:
    """A dataset as a file that a config can name."""
    kind = "labels" if data.train_targets is None else "targets"
    names = ["train_inputs", f"train_{kind}", "test_inputs", f"test_{kind}"]
    if data.value_range is not None:
        names += ["value_range", *(["mean", "std"] if data.mean else [])]
    if data.train_sources is not None:
        names.append("train_sources")
    np.savez(path, **{name: getattr(data, name) for name in names})
    return path


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


class DeadDownlink(DeadLink):
    """Uploads arrive at once, downloads never."""

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        if direction == "downlink":
            return super().deliver(direction, bits, rng)
        return Delivery(np.ones(len(bits), np.bool_), np.zeros(len(bits), np.int64))


class CoinLink(DeadLink):
    """Every transfer arrives or not by the toss of a coin."""

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = (rng.random(len(bits)) < 0.6) | (bits == 0)
        slots = np.where(delivered, rng.integers(1, self.max_slots, len(bits)), self.max_slots)
        return Delivery(delivered, np.where(bits == 0, 0, slots))


@dataclass
class RoomyDownlink(DeadLink):
    """Uploads arrive at once, downloads if they have at most so many bits."""

    room: int

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = (bits <= self.room) | (direction == "uplink")
        return Delivery(delivered, np.where(delivered, 0, self.max_slots))


BARS, PER_LABEL = 4, 200


def bars() -> Dataset:
    """A bright row or column is the label: easy, and more varied than the usual toy."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(BARS), PER_LABEL).astype(np.int32)
    images = rng.integers(0, 90, (len(labels), 8, 8, 1))
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 120
    order = rng.permutation(len(labels))
    images, labels = images[order].astype(np.uint8), labels[order]
    cut = 3 * len(labels) // 4
    return Dataset("bars", images[:cut], labels[:cut], images[cut:], labels[cut:], BARS)


def simulation_of(protocol: str, over: Link | None = None, **fields: Any) -> Simulation:
    """A simulation of the toy config on the toy dataset, over this link."""
    return make_simulation(toy_config(protocol=protocol, **fields), toy_dataset(), link=over)


REPRESENTATIVES = {"isolated", "fl", "sign", "murmur", "statistics", "cfd", "fd", "mix2fld"}
"""One protocol of each family."""


def representatives(names: Iterable[str]) -> list[Any]:
    """These protocols as parameters of a test: those that represent no family are ``long``.

    For what depends little on the protocol; what a protocol promises is tested with each.
    """
    marks = {name: [] if name in REPRESENTATIVES else pytest.mark.long for name in names}
    return [pytest.param(name, marks=marks[name]) for name in names]


def examples(count: int) -> settings:
    """So many examples of a property, and ten times as many by ``make search``."""
    return settings(max_examples=count * settings.default.max_examples // 100)
