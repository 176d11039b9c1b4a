"""The worst case of private statistics: the attacker knows all samples of a device but one.

It knows both samples of which one is the device's, everything that the budget calls public, and
the exact statistics that either would give; only the noise is left. The likelihood ratio of what
arrives, from the bytes that cross the link, is the best test that there is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from mix2fld.base.accounting import noise_multiplier
from mix2fld.engine.device_turn import start_device
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import NOISE_KEY, Turn
from mix2fld.protocols.private import STAGE, PrivateStatistics
from mix2fld.tasks.edges import Floats
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.private_statistics import (
    MEANS,
    MeasuredFeatures,
    class_scatter,
    class_sums,
    means_of,
)
from mix2fld.types import State
from mix2fld_lab.attacks.empirical import (
    epsilon_at_least,
    gaussian_epsilon_at_least,
    most_true_positives,
)
from mix2fld_lab.attacks.rates import (
    FALSE_POSITIVES,
    Scores,
    check_candidates,
    share_above,
    threshold,
)


class Neighbours(NamedTuple):
    """Two data sets of a device that differ in one sample, as features."""

    one: MeasuredFeatures
    other: MeasuredFeatures


class KnownPart(NamedTuple):
    """What the attacker knows of one upload."""

    state: State  # of the device that makes it
    apart: Floats  # what the two samples move it by
    middle: Floats  # what lies halfway between both
    deviation: float  # of its noise


def far_neighbours(own: MeasuredFeatures, num_labels: int) -> Neighbours:
    """A device's samples, and the same with its longest one under the next label.

    Both are as long as a sample can be, so class sums move by all that the bound allows.
    """
    lengths = np.linalg.norm(own.values, axis=1)
    place = int(lengths.argmax())
    one, other = own.values.copy(), own.labels.copy()
    one[place] *= own.bounds.longest / lengths[place]
    other[place] = (other[place] + 1) % num_labels
    return Neighbours(own._replace(values=one), own._replace(values=one, labels=other))


def attack_statistics(
    learning: Learning, wire: Wire, sides: Neighbours, trials: int
) -> dict[str, Any]:
    """True-positive rates of the attack, what the budget allows, and lower bounds of ε.

    Thresholds, false positives and true positives are those of different trials.
    """
    check_candidates(trials, min(FALSE_POSITIVES))
    parts = _known(learning, wire, sides)
    seen = [
        _scores(wire, side, parts, (learning.seed, range(number * trials, (number + 1) * trials)))
        for number, side in enumerate((sides.other, sides.other, sides.one))
    ]
    config = learning.config.privacy
    multiplier = noise_multiplier(config.epsilon, config.delta)
    found: dict[str, Any] = {"trials": trials, "part_of_bound": _length(parts) * multiplier}
    for rate in FALSE_POSITIVES:
        limit = threshold(seen[0], rate)
        true, false = share_above(seen[2], limit), share_above(seen[1], limit)
        found[f"{rate:g}"] = {
            "true": true.as_record(),
            "false": false.as_record(),
            "allowed": most_true_positives(rate, config.epsilon, config.delta),
            "epsilon": epsilon_at_least(true, false, config.delta),
            "gaussian_epsilon": gaussian_epsilon_at_least(true, false, config.delta),
        }
    return found


def _known(learning: Learning, wire: Wire, sides: Neighbours) -> list[KnownPart]:
    """What the attacker knows of both uploads; the means for the second are public."""
    one, other = (class_sums(side, learning.dims.num_labels) for side in sides)
    noise, bounds = sides.one.noise, sides.one.bounds
    means = means_of((one + other) / 2, len(sides.one.labels), bounds).astype(np.float32)
    state = {**start_device(wire, learning, 0), MEANS: means}
    pairs = [(one, other), tuple(class_scatter(side, means) for side in sides)]
    return [
        KnownPart({**state, STAGE: np.array(stage)}, a - b, (a + b) / 2, noise[stage])
        for stage, (a, b) in enumerate(pairs)
    ]


def _length(parts: Sequence[KnownPart]) -> float:
    """How many deviations of the noise the two samples are apart, over both uploads."""
    return float(np.sqrt(sum(np.sum((part.apart / part.deviation) ** 2) for part in parts)))


def _scores(
    wire: Wire, side: MeasuredFeatures, parts: Sequence[KnownPart], trials: tuple[int, range]
) -> Scores:
    """Log likelihood ratios of what arrives in each trial, whose noise has a key of its own."""
    seed, numbers = trials
    protocol, codec = private_of(wire), wire.protocol.upload_codec
    turn, scores = Turn(seed, 1, device=0), np.zeros(len(numbers))
    for place, number in enumerate(numbers):
        key = np.array([number, 1, 0, 0], np.uint32)
        for part in parts:
            sent = protocol.part_of(side, {**part.state, NOISE_KEY: key}, turn)
            carried = codec.encode(sent, protocol.dims)
            seen = wire.decode_body(carried.data, turn).values
            off = (seen - part.middle) * part.apart
            scores[place] += float(off.sum()) / part.deviation**2
    return scores


def private_of(wire: Wire) -> PrivateStatistics:
    """The protocol of a run that uploads statistics with noise."""
    return cast(PrivateStatistics, wire.protocol)
