"""Seeds are judged before they are used: do models that learned from others' seeds agree?

A device sends its seeds once, and the server's student learns from them to the end of the run. So
some devices are drawn as judges: a model that learned from the seeds of one device alone labels the
seeds of all others, as far as it knows their labels, and the median judge decides, which a minority
that works together cannot sway. Where fewer labels agree than honest ones would scatter to, the
seeds are left out, and all are judged once more without these judges. The same seeds are always
judged alike, so that a resumed run judges as the first did; when more seeds arrive, all are judged
again, and what was accepted may be left out later.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.protocols.seed_samples import as_collected
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.stepper import Start, draw_samples
from mix2fld.types import Samples, Seeds, SeedSet, Tensors, Upload

MOST_JUDGES = 15
FEWEST_VOTES = 2
FEWEST_SAMPLES = 5
"""A judge that knows the labels of fewer samples abstains."""
SMALLEST_PART = 0.5
"""Seeds of honest devices reach this part of what is typical."""
MOST_DEVIATIONS = 3.0
"""And lie at most so many standard deviations below it (decision 33)."""
NORMAL = 1.4826
"""The standard deviation of normal values, as a multiple of their median distance."""
MOST_PASSES = 3
NO_LABEL = -1


class Judgement(NamedTuple):
    """What was found of the seeds of each device."""

    agreement: Mapping[int, float]
    """Share of its labels that the median judge agrees with; not of devices with too few votes."""
    left_out: tuple[int, ...]
    steps: int
    """SGD steps that the judges took."""

    @property
    def typical(self) -> float:
        """The median of the devices that are not left out."""
        return _typical(self.agreement, self.left_out)


NO_VERDICT = Judgement({}, (), 0)


class Judge(NamedTuple):
    """A model that learned from the seeds of one device."""

    device: int
    weights: Tensors
    knows: NDArray[np.bool_]  # [N_L], labels that it has seen


def judge_seeds(seeds: Mapping[int, Seeds], learning: Learning) -> Judgement:
    """Which devices' seeds are left out, and why."""
    if learning.config.defence.seed_check == "none":
        return NO_VERDICT
    collected = {device: _collected(seeds[device], learning) for device in sorted(seeds)}
    found = NO_VERDICT
    for _ in range(MOST_PASSES):
        judges = _judges(collected, found.left_out, learning)
        agreement = {
            device: share
            for device, own in collected.items()
            if (share := _median_vote(device, own, judges, learning)) is not None
        }
        steps = found.steps + len(judges) * learning.config.learning.server_steps
        least = least_agreement(agreement, found.left_out, learning.config.seeding.seed_samples)
        last, found = found, Judgement(agreement, below(agreement, least), steps)
        if found.left_out == last.left_out:
            break
    return found


def _judges(
    collected: Mapping[int, SeedSet], left_out: Collection[int], learning: Learning
) -> list[Judge]:
    """Some of the devices that are trusted so far, each with a model of its own."""
    order = stream(learning.seed, "judges").permutation(sorted(collected)).tolist()
    drawn = [device for device in order if device not in left_out][:MOST_JUDGES]
    return [_learn(device, collected[device], learning) for device in drawn]


def _learn(device: int, own: SeedSet, learning: Learning) -> Judge:
    """As many steps as a conversion takes, from the labels alone."""
    settings, labels = learning.config.learning, learning.dims.num_labels
    rng = stream(learning.seed, "judge", device)
    draws = draw_samples(rng, len(own.targets), settings.server_steps, settings.batch_size)
    start = Start(learning.common_weights, np.zeros((labels, labels), np.float32))
    weights = learning.stepper.train_one(label_loss, Samples(own.inputs, own.targets), start, draws)
    knows = np.isin(np.arange(labels), own.targets.argmax(axis=1))
    return Judge(device, weights, knows)


def _median_vote(
    device: int, own: SeedSet, judges: Collection[Judge], learning: Learning
) -> float | None:
    """The share of labels that the median of all other judges agrees with, the lower one of two."""
    labels = own.targets.argmax(axis=1).astype(np.int32)
    votes = []
    for judge in judges:
        known = judge.knows[labels]
        if judge.device != device and known.sum() >= min(FEWEST_SAMPLES, len(labels)):
            held = learning.stepper.hold_tests(
                own.inputs, np.where(known, labels, NO_LABEL).astype(np.int32)
            )
            agreed = learning.stepper.count_correct(held, [judge.weights])[0]
            votes.append(agreed / int(known.sum()))
    return sorted(votes)[(len(votes) - 1) // 2] if len(votes) >= FEWEST_VOTES else None


def judge_labels(inbox: Mapping[int, Upload], own: Mapping[int, NDArray[np.float32]]) -> Judgement:
    """Which devices label the seeds of others far worse than is typical.

    The rule is that of seeds (decision 33); the labels that they came with are ``own``.
    """
    agreement = {}
    for device in sorted(inbox):
        given = inbox[device].value
        agreed = [
            given[owner].argmax(axis=1) == labels.argmax(axis=1)
            for owner, labels in own.items()
            if owner in given and owner != device
        ]
        if agreed:
            agreement[device] = float(np.mean(np.concatenate(agreed)))
    samples = max((len(labels) for labels in own.values()), default=1)
    return Judgement(agreement, below(agreement, least_agreement(agreement, (), samples)), 0)


def least_agreement(
    agreement: Mapping[int, float], left_out: Collection[int], samples: int
) -> float:
    """The smallest agreement that is still believed, by those of devices that are trusted so far.

    Their deviation is taken by the median, or as the largest that a share of so many labels has.
    """
    typical = _typical(agreement, left_out)
    apart = [abs(share - typical) for d, share in agreement.items() if d not in left_out]
    deviation = max(NORMAL * float(np.median(apart or [0.0])), 0.5 / np.sqrt(samples))
    return max(SMALLEST_PART * typical, typical - MOST_DEVIATIONS * deviation)


def below(agreement: Mapping[int, float], least: float) -> tuple[int, ...]:
    """Devices below the least, the lowest first to go; never half of all or more."""
    below = sorted((agreement[d], d) for d in agreement if agreement[d] < least)
    return tuple(sorted(d for _, d in below[: max(0, (len(agreement) - 1) // 2)]))


def _typical(agreement: Mapping[int, float], left_out: Collection[int]) -> float:
    trusted = [share for device, share in agreement.items() if device not in left_out]
    return float(np.median(trusted)) if trusted else 0.0


def _collected(seeds: Seeds, learning: Learning) -> SeedSet:
    collected = as_collected({0: seeds}, learning)
    if collected is None:
        raise ValueError("a device without seeds cannot be judged")
    return collected
