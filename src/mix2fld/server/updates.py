"""The server's step of protocols that upload updates."""

import math
from dataclasses import replace

import numpy as np

from mix2fld.learning.task import Task
from mix2fld.server.aggregate import combine_weights
from mix2fld.server.steps import Inbox
from mix2fld.types import SeedSet, ServerState, Upload


def add_mean_update(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """The mean of the delivered updates, or if it is too long a part of it, is added to the model.

    In few bits, noise makes the mean longer than the updates are. A step is at most ``step_limit``
    times as long as they are, by the root mean square of their norms; with a robust aggregation in
    place of the mean, by the median of them.
    """
    del seeds, round_number
    if not inbox:
        return state
    defence = task.config.defence
    uploads = as_tensors(inbox)
    still = tuple(np.zeros_like(part) for part in uploads[min(uploads)].value)
    mean = combine_weights(uploads, still, defence)
    norms = [inbox[device].value.norm for device in sorted(inbox)]
    squared = np.mean if defence.aggregation == "mean" else np.median
    longest = task.config.updates.step_limit * math.sqrt(squared(np.square(norms)))
    length = math.sqrt(sum(float(np.sum(part.astype(np.float64) ** 2)) for part in mean))
    step = np.float32(min(1.0, longest / length) if length else 1.0)
    last = task.common_weights if state.weights is None else state.weights
    weights = tuple(old + step * part for old, part in zip(last, mean, strict=True))
    return replace(state, weights=weights, updates=state.updates + 1)


def as_tensors(inbox: Inbox) -> dict[int, Upload]:
    """The decoded updates as plain tensors, each weighing by its samples and what it captured.

    The more of an update was captured, the less noise it brings. Where devices differ by as much as
    they move, the mean with these weights is closest to that of all updates.
    """
    return {
        device: Upload(upload.value.tensors, upload.samples, weight=upload.value.captured)
        for device, upload in inbox.items()
    }
