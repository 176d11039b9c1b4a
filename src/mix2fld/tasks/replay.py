"""Replay: devices take some of their local steps on the seeds of all devices.

A device keeps the seeds that came down as a stock: for every device of the run whether its seeds
are held, and the seeds, zeros where they are not. Its form never changes.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import coding_of
from mix2fld.types import Dimensions, Seeds, State

REPLAY = "replay"
"""The entry of a device's state with its stock."""


@lru_cache(maxsize=4)
def empty_stock(dims: Dimensions, devices: int, mix_size: int) -> State:
    """No seeds: one object, which all devices share."""
    count = (devices, dims.seed_samples)
    return {
        "held": np.zeros(devices, np.bool_),
        "inputs": np.zeros((*count, *dims.seed_shape), coding_of(dims).dtype),
        "labels": np.zeros((*count, mix_size), np.int32),
    }


def add_to_stock(stock: State, seeds: Mapping[int, Seeds]) -> State:
    """The device's stock of seed samples with these added."""
    if not seeds:
        return stock
    more = {name: array.copy() for name, array in stock.items()}
    for device, own in seeds.items():
        more["held"][device] = True
        more["inputs"][device], more["labels"][device] = own.inputs, own.labels
    return more


def merge_stocks(old: State, new: State) -> State:
    """All that either holds; one that has everything is taken as it is, so that many share it."""
    if not np.any(old["held"] & ~new["held"]):
        return new
    return add_to_stock(old, seeds_in(new))


def seeds_in(stock: State) -> dict[int, Seeds]:
    """The seeds that are held, by device."""
    held = np.flatnonzero(stock["held"]).tolist()
    return {device: Seeds(stock["inputs"][device], stock["labels"][device]) for device in held}


class Extra(NamedTuple):
    """Samples that a device replays: where they stand behind its own, and their labels."""

    first: int
    targets: NDArray[np.float32]  # [n, N_L]


def with_replay(
    rng: np.random.Generator, draws: NDArray[Any], extra: Extra, probability: float
) -> NDArray[Any]:
    """The draws [K, B], each with that probability replaced by one from the extra samples."""
    replaced = rng.random(draws.shape) < probability
    others = extra.first + rng.integers(len(extra.targets), size=draws.shape)
    return np.where(replaced, others, draws)


def mixture_prior(
    own: NDArray[np.float64], extra: Extra, probability: float
) -> NDArray[np.float64]:
    """The frequency of each label among what is drawn [N_L]."""
    return (1 - probability) * own + probability * extra.targets.mean(axis=0, dtype=np.float64)
