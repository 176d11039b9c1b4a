"""The server's step of protocols that upload updates."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mix2fld.learning.task import Task
from mix2fld.server.aggregate import combine_weights
from mix2fld.server.steps import Inbox
from mix2fld.types import Group, SeedSet, ServerState, Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config import Config


def add_mean_update(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """The mean of the delivered updates, or if it is too long a part of it, is added to the model.

    In few bits, noise makes the mean longer than the updates are. A step is at most ``step_limit``
    times as long as they are, by the root mean square of their norms; with a robust aggregation in
    place of the mean, by the median of them. Arrays that were encoded by themselves have a step of
    their own.
    """
    del seeds, round_number
    if not inbox:
        return state
    defence = task.config.defence
    uploads = as_tensors(inbox)
    still = tuple(np.zeros_like(part) for part in uploads[min(uploads)].value)
    mean = combine_weights(uploads, still, defence)
    last = task.common_weights if state.weights is None else state.weights
    weights = list(last)
    for group in zip(*(inbox[device].value.groups for device in sorted(inbox)), strict=True):
        step = _step(mean, group, task.config)
        for place in group[0].arrays:
            weights[place] = last[place] + step * mean[place]
    return replace(state, weights=tuple(weights), updates=state.updates + 1)


def _step(mean: Tensors, group: Sequence[Group], config: "Config") -> np.float32:
    """What the mean of some arrays is shortened to; ``group`` has them as each device sent them."""
    squared = np.mean if config.defence.aggregation == "mean" else np.median
    norm = math.sqrt(squared(np.square([own.norm for own in group])))
    moved = [mean[place] for place in group[0].arrays]
    length = math.sqrt(sum(float(np.sum(part.astype(np.float64) ** 2)) for part in moved))
    return np.float32(min(1.0, config.updates.step_limit * norm / length) if length else 1.0)


def as_tensors(inbox: Inbox) -> dict[int, Upload]:
    """The decoded updates as plain tensors, each weighing by its samples and what it captured.

    The more of an update was captured, the less noise it brings. Where devices differ by as much as
    they move, the mean with these weights is closest to that of all updates.
    """
    return {
        device: Upload(upload.value.tensors, upload.samples, weight=upload.value.captured)
        for device, upload in inbox.items()
    }
