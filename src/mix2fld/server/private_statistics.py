"""The server's step of protocols that upload private statistics in two parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.edges import Floats, edge_network, has_edges
from mix2fld.learning.features import Features
from mix2fld.learning.losses import label_loss, one_hot
from mix2fld.learning.private_statistics import (
    GRID,
    MEANS,
    Bounds,
    Deviations,
    bounds_of,
    clean_covariance,
    deviations,
    means_of,
    network_of,
    noisy_covariance,
    shrunk_means,
)
from mix2fld.learning.sample_features import FEATURE_KINDS, samples_of
from mix2fld.learning.stepper import Start, draw_samples
from mix2fld.learning.task import Task
from mix2fld.server.steps import Inbox
from mix2fld.streams import integer, stream
from mix2fld.types import Inputs, Samples, SeedSet, ServerState, State, Tensors, Upload

GENERATED = 300
"""Samples of each label that are generated."""
PARTS = ("sums", "scatter")


@dataclass(frozen=True)
class TakeStatistics:
    """A model from all noisy parts so far, whenever new ones are delivered.

    With ``summed`` devices add no noise and trust whoever sums what they send. This simulates that
    party: the server keeps of each round only the noisy sum of what arrived, and no device is in
    two sums of the same part.
    """

    summed: bool = False
    kind: str = "model"
    """What statistics are of: a head on features of the model follows, or samples to train on."""

    def __call__(
        self, state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
    ) -> ServerState:
        """The server's step."""
        del seeds
        memory, noise = state.memory, deviations(task, self.kind, on_grid=self.summed)
        for name, arrived in _by_part(inbox):
            values = [upload.value.values for upload in arrived]
            total, draws = np.sum(values, axis=0), len(arrived)
            if self.summed:
                rng = stream(task.seed, f"privacy-{name}", round_number)
                total, draws = trusted_sum(values, getattr(noise, name), rng), 1
            memory = {**memory, **_added(memory, name, total, arrived, draws)}
        if memory is state.memory or "sums" not in memory:
            return replace(state, memory=memory)
        means, weights = self._model(memory, task, noise, round_number)
        known = {**memory, MEANS: means.astype(np.float32)}
        return replace(state, memory=known, weights=weights, updates=state.updates + 1)

    def _model(
        self, memory: State, task: Task, noise: Deviations, round_number: int
    ) -> tuple[Floats, Tensors]:
        """Class means, and the model that follows from all parts."""
        bounds, features = bounds_of(task, self.kind), FEATURE_KINDS[self.kind].make(task)
        means = self._means(memory, noise, bounds)
        covariance = np.eye(means.shape[1]) * bounds.residual**2 / means.shape[1]
        if "scatter" in memory:
            samples, draws = memory["scatter_counts"].tolist()
            clean = clean_covariance if self.kind == "samples" else noisy_covariance
            covariance = clean(memory["scatter"], samples, noise.scatter * math.sqrt(draws))
        if self.kind == "samples":
            return means, train_on_generated(features, means, covariance, task, round_number)
        return means, network_of(features, means, covariance)

    def _means(self, memory: State, noise: Deviations, bounds: Bounds) -> Floats:
        """Class means; those that seeds are generated from know how much of them is noise."""
        samples, draws = memory["sums_counts"].tolist()
        if self.kind == "samples":
            deviation = noise.sums * math.sqrt(draws)
            return shrunk_means(memory["sums"], samples, bounds, deviation)
        return means_of(memory["sums"], samples, bounds)


take_private_statistics = TakeStatistics()
take_trusted_sums = TakeStatistics(summed=True)
take_private_seeds = TakeStatistics(kind="samples")
take_summed_seeds = TakeStatistics(summed=True, kind="samples")


def train_on_generated(
    features: Features, means: Floats, covariance: Floats, task: Task, round_number: int
) -> Tensors:
    """A model after K_s steps on samples drawn from a Gaussian for each label.

    The student begins with edges where the model has them, which need no data.
    """
    labels = np.arange(len(means)).repeat(GENERATED)
    rng = stream(task.seed, "generated", round_number)
    drawn = means[labels] + rng.normal(size=(len(labels), means.shape[1])) @ root_of(covariance)
    inputs = samples_of(features, drawn, task.dims)
    begun = edge_network(task.dims) if has_edges(task.dims) else task.common_weights
    return train_student(begun, inputs, labels, task, rng, round_number)


def root_of(covariance: Floats) -> Floats:
    """The symmetric root of a covariance, by which draws of unit variance become its own."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def train_student(
    begun: Tensors,
    inputs: Inputs,
    labels: NDArray[np.integer[Any]],
    task: Task,
    rng: np.random.Generator,
    round_number: int,
) -> Tensors:
    """What is begun with, after K_s steps on samples that the server generated."""
    learning, count = task.config.learning, task.dims.num_labels
    samples = Samples(inputs, one_hot(labels.astype(np.int32), count))
    draws = draw_samples(rng, len(labels), learning.server_steps, learning.batch_size)
    no_teacher = np.zeros((count, count), np.float32)
    start = Start(
        begun,
        no_teacher,
        randomness=partial(integer, task.seed, "student model", round_number),
    )
    return task.stepper.train_one(label_loss, samples, start, draws)


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
