"""The server's step of protocols that upload private statistics in two parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.edges import Floats
from mix2fld.learning.features import fixed_features
from mix2fld.learning.private_statistics import (
    GRID,
    MEANS,
    Deviations,
    bounds_of,
    deviations,
    means_of,
    network_of,
    noisy_covariance,
)
from mix2fld.learning.task import Task
from mix2fld.server.steps import Inbox
from mix2fld.streams import stream
from mix2fld.types import SeedSet, ServerState, State, Upload

PARTS = ("sums", "scatter")


def take_private_statistics(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """A head from all noisy parts so far, on fixed features, whenever new ones are delivered."""
    del seeds, round_number
    memory = state.memory
    for name, arrived in _by_part(inbox):
        values = [upload.value.values for upload in arrived]
        memory = {**memory, **_added(memory, name, np.sum(values, axis=0), arrived, len(arrived))}
    return _with_network(state, memory, task, deviations(task))


def take_trusted_sums(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """The same where devices add no noise and trust whoever sums what they send.

    This simulates that party: the server keeps of each round only the noisy sum of what arrived,
    and no device is in two sums of the same part.
    """
    del seeds
    memory, noise = state.memory, deviations(task, on_grid=True)
    for name, arrived in _by_part(inbox):
        rng = stream(task.seed, f"privacy-{name}", round_number)
        values = [upload.value.values for upload in arrived]
        total = trusted_sum(values, getattr(noise, name), rng)
        memory = {**memory, **_added(memory, name, total, arrived, 1)}
    return _with_network(state, memory, task, noise)


def trusted_sum(
    values: Sequence[NDArray[np.int32]], deviation: float, rng: np.random.Generator
) -> Floats:
    """The exact sum of whole numbers with noise, in units of the grid.

    Noise that is rounded before it is added to whole numbers is noise that is rounded after.
    """
    total = np.sum(np.asarray(values, np.int64), axis=0)
    return np.asarray(GRID * (total + np.rint(deviation / GRID * rng.normal(size=total.shape))))


def _by_part(inbox: Inbox) -> Iterator[tuple[str, list[Upload]]]:
    """The uploads of each part that arrived, in the order of devices."""
    for stage, name in enumerate(PARTS):
        arrived = [inbox[device] for device in sorted(inbox) if inbox[device].value.stage == stage]
        if arrived:
            yield name, arrived


def _added(memory: State, name: str, total: Floats, arrived: Sequence[Upload], draws: int) -> State:
    """The sum of one part with what is new: of how many samples, and how often noise is in it."""
    counts = np.array([sum(upload.samples for upload in arrived), draws])
    return {
        name: memory.get(name, 0.0) + total.astype(np.float64),
        f"{name}_counts": memory.get(f"{name}_counts", 0) + counts,
    }


def _with_network(state: ServerState, memory: State, task: Task, noise: Deviations) -> ServerState:
    """The server with the network that follows from all parts, if there are new ones."""
    if memory is state.memory or "sums" not in memory:
        return replace(state, memory=memory)
    bounds, features = bounds_of(task), fixed_features(task)
    means = means_of(memory["sums"], int(memory["sums_counts"][0]), bounds)
    covariance = np.eye(means.shape[1]) * bounds.residual**2 / means.shape[1]
    if "scatter" in memory:
        samples, draws = memory["scatter_counts"].tolist()
        deviation = noise.scatter * math.sqrt(draws)
        covariance = noisy_covariance(memory["scatter"], samples, deviation)
    weights = network_of(features, means, covariance)
    known = {**memory, MEANS: means.astype(np.float32)}
    return replace(state, memory=known, weights=weights, updates=state.updates + 1)
