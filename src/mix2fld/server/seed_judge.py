"""Seeds are judged before they are used: do models that learned from others' seeds agree?

A device sends its seeds once, and the server's student learns from them to the end of the run. So
each device's seeds are labelled by a judge that learned from seeds of other devices only. Where far
fewer labels agree than is typical, the seeds are left out, and all others are judged once more
without them. The same seeds are always judged alike, so that a resumed run judges as the first did;
when more seeds arrive, all are judged again, and what was accepted may be left out later.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from mix2fld.learning.losses import label_loss
from mix2fld.learning.stepper import Start, draw_samples
from mix2fld.learning.task import Task
from mix2fld.server.seed_sets import as_collected
from mix2fld.streams import stream
from mix2fld.types import Samples, Seeds, Tensors

JUDGES = 5
FEWEST_DEVICES = 3
"""With two, there is no majority."""
LARGEST_GAP = 0.25
"""Honest devices differ by less in the share of labels that agree."""
SMALLEST_PART = 0.5
"""Where judges know little, honest devices still reach this part of what is typical."""
MOST_PASSES = 3


class Judgement(NamedTuple):
    """What was found of the seeds of each device."""

    agreement: Mapping[int, float]
    """Share of its labels that the judge agrees with; empty if nothing was judged."""
    left_out: tuple[int, ...]
    steps: int
    """SGD steps that the judges took."""

    @property
    def typical(self) -> float:
        """The median of the devices that are not left out."""
        return float(
            np.median([self.agreement[d] for d in self.agreement if d not in self.left_out])
        )


NOTHING_JUDGED = Judgement({}, (), 0)


def judge_seeds(seeds: Mapping[int, Seeds], task: Task) -> Judgement:
    """Which devices' seeds are left out, and why."""
    if task.config.defence.seed_check == "none" or len(seeds) < FEWEST_DEVICES:
        return NOTHING_JUDGED
    left_out: tuple[int, ...] = ()
    steps = 0
    for _ in range(MOST_PASSES):
        agreement = _agreement(seeds, left_out, task)
        steps += min(JUDGES, len(seeds)) * task.config.learning.server_steps
        found = Judgement(agreement, _far_below(agreement, left_out), steps)
        if found.left_out == left_out:
            break
        left_out = found.left_out
    return found


def _far_below(agreement: Mapping[int, float], left_out: Collection[int]) -> tuple[int, ...]:
    """Devices far below what is typical of those that learned; never half of them or more."""
    typical = float(np.median([agreement[d] for d in agreement if d not in left_out]))
    least = max(SMALLEST_PART * typical, typical - LARGEST_GAP)
    below = sorted((agreement[d], d) for d in agreement if agreement[d] < least)
    return tuple(sorted(d for _, d in below[: (len(agreement) - 1) // 2]))


def _agreement(
    seeds: Mapping[int, Seeds], left_out: Collection[int], task: Task
) -> dict[int, float]:
    """The share of each device's labels that a judge who never saw its seeds agrees with."""
    devices, agreement = sorted(seeds), {}
    groups = [devices[place::JUDGES] for place in range(min(JUDGES, len(devices)))]
    for number, group in enumerate(groups):
        others = {d: seeds[d] for d in devices if d not in group and d not in left_out}
        judge = _learn(others, task, number)
        for device in group:
            own = as_collected({device: seeds[device]}, task)
            assert own is not None
            labels = own.targets.argmax(axis=1).astype(np.int32)
            held = task.stepper.hold_tests(own.inputs, labels)
            agreement[device] = task.stepper.count_correct(held, [judge])[0] / len(labels)
    return {device: agreement[device] for device in devices}


def _learn(seeds: Mapping[int, Seeds], task: Task, number: int) -> Tensors:
    """A judge: as many steps as a conversion takes, from the labels alone."""
    learning, labels = task.config.learning, task.dims.num_labels
    pooled = as_collected(seeds, task)
    assert pooled is not None
    rng = stream(task.seed, "judge", number)
    draws = draw_samples(rng, len(pooled.targets), learning.server_steps, learning.batch_size)
    start = Start(task.common_weights, np.zeros((labels, labels), np.float32))
    samples = Samples(pooled.inputs, pooled.targets)
    return task.stepper.train_one(label_loss, samples, start, draws)
