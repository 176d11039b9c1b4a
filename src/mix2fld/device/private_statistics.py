"""Uploads of statistics that keep a privacy budget: class sums first, then the scatter.

Noise is drawn once for each of both: an upload that is lost and sent again has the same noise, and
a scatter is counted from the same means, so that whoever hears both learns nothing more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mix2fld.device.noise import NO_KEY, NOISE_KEY, noise_stream
from mix2fld.device.uplinks import Turn, Uplink
from mix2fld.learning.private_statistics import (
    GRID,
    MEANS,
    Measured,
    class_scatter,
    class_sums,
)
from mix2fld.learning.sample_features import FEATURE_KINDS
from mix2fld.link.payloads import PartOfStatistics
from mix2fld.link.payloads.statistics import LARGEST_WHOLE
from mix2fld.types import Dimensions, Local, State, StatisticsPart, Tensors

if TYPE_CHECKING:
    from mix2fld.config import Config

STAGE = "stage"
SUMS, SCATTER, DONE = (np.array(stage) for stage in range(3))


@dataclass(frozen=True)
class PrivateStatistics(Uplink):
    """Class sums and counts, then the scatter about the means that the server makes of them.

    With ``summed`` a device adds no noise: whoever sums what devices send is trusted to do so, and
    to show nothing but the noisy sum.
    """

    summed: bool = False
    kind: str = "model"
    """What statistics are taken of: features of the model, or low frequencies of samples."""
    payload: PartOfStatistics = field(default_factory=lambda: PartOfStatistics(1))

    @property
    def measures_samples(self) -> bool:
        """Always."""
        return True

    def measures_now(self, state: State) -> bool:
        """Until all is sent."""
        return bool(state[STAGE] != DONE)

    @property
    def needs_trusted_sum(self) -> bool:
        """Where the device adds no noise."""
        return self.summed

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the number of features, and the bits of a value."""
        features = FEATURE_KINDS[self.kind].features(dims, config.statistics.feature_side)
        bits = config.statistics.statistics_bits
        return replace(self, payload=PartOfStatistics(features, bits, self.summed))

    def start(self, weights: Tensors) -> State:
        """Sums are due."""
        del weights
        return {STAGE: SUMS, NOISE_KEY: NO_KEY}

    def value(self, state: State, local: Local, turn: Turn) -> StatisticsPart | None:
        """What is due, if it can be made."""
        stage, own, means = int(state[STAGE]), local.measured, state[MEANS]
        if stage == DONE or (stage == SCATTER and not means.any()):
            return None  # all is sent, or no means have come down
        if not isinstance(own, Measured):
            raise TypeError("statistics need the features of the device's samples")
        exact = class_scatter(own, means) if stage == SCATTER else class_sums(own, len(means))
        if self.summed:
            codes = np.rint(exact / GRID)
            whole = np.clip(codes, -LARGEST_WHOLE, LARGEST_WHOLE).astype(np.int32)
            return StatisticsPart(stage, whole)
        rng = noise_stream(turn, state[NOISE_KEY], stage)
        noisy = exact + own.noise[stage] * rng.normal(size=exact.shape)
        return StatisticsPart(stage, noisy.astype(np.float32))

    def delivered(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The next one is due."""
        del local
        return {} if read() is None else {STAGE: (SCATTER, DONE, DONE)[int(state[STAGE])]}

    def replaced(self, state: State, weights: Tensors) -> State:
        """Means from which a scatter may have been counted stay."""
        del weights
        keep = state[STAGE] != SUMS and state[MEANS].any()
        return {MEANS: state[MEANS]} if keep else {}

    def forgotten(self, state: State) -> State:
        """The budget may be spent: nothing is sent any more."""
        del state
        return {STAGE: DONE}
