"""Statistics uploaded once, and the network that follows from them in closed form."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs import ClassStatistics, Payload
from mix2fld.protocols import at_server
from mix2fld.protocols.base import Isolated
from mix2fld.protocols.parts import (
    Inbox,
    Line,
    MakeModel,
    StatisticsUpload,
    StepInfo,
    Stepped,
    of_devices,
    setting,
)
from mix2fld.protocols.updates import Murmur
from mix2fld.protocols.weights import DownloadsWeights
from mix2fld.tasks.features import feature_count, fixed_features
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.tasks.training import Training
from mix2fld.types import Inputs, ServerState, Statistics, Tensors

from_statistics = Training(
    logit_adjustment=1.0, rate_factors=(1.0, 0.1), device_model="mean",
    device_model_of_numbers="received",
)  # fmt: skip
"""Ridge regression has the least error already, from which local steps lead away."""
from_own_statistics = Training(logit_adjustment=2.0)


def own_statistics(
    rng: np.random.Generator, inputs: Inputs, values: NDArray[Any], sizes: Sizes
) -> Statistics:
    """Counts, sums and scatter of fixed features of all samples of a device."""
    learning = cast(Learning, sizes)
    return learning.task.measure_statistics(fixed_features(learning), inputs, values)


def own_closed_form(inputs: Inputs, values: NDArray[Any], learning: Learning) -> Tensors:
    """Fixed features with the head that follows from the device's own statistics."""
    features, task = fixed_features(learning), learning.task
    return task.closed_form(features, [task.measure_statistics(features, inputs, values)])


FEWEST_BITS_OF_NUMBERS = 16
"""Ridge regression takes differences of large sums, of which coarser steps leave little."""


def _payload(sizes: Sizes) -> Payload:
    """Counts, sums and scatter on the link."""
    config = sizes.config.statistics
    bits = config.statistics_bits
    if sizes.dims.target_numbers:
        bits = max(bits, FEWEST_BITS_OF_NUMBERS)
        if config.scatter == "none":
            raise InputError(
                field="scatter", value="none", hint="targets are numbers, whose regression needs it"
            )
    count = feature_count(sizes, config.feature_side)
    return ClassStatistics(count, bits, config.scatter == "sent")


all_samples = StatisticsUpload(own_statistics, _payload)


@dataclass(frozen=True, kw_only=True)
class OneShotStatistics(DownloadsWeights):
    """Statistics uploaded once; the server solves for a network in closed form."""

    needs_closed_form = True
    late_uploads = "replaced"

    title: str = "Statistics"
    colour: str = "#882255"
    training: Training = from_statistics
    statistics: StatisticsUpload | None = all_samples
    first_model: MakeModel | None = own_closed_form
    feature_side: int = setting("statistics.feature_side", 6)
    statistics_bits: int = setting("statistics.statistics_bits", 8)
    directions: int = setting("statistics.directions", 0)
    directions_from: str = setting("statistics.directions_from", "random")
    scatter: str = setting("statistics.scatter", "sent")

    server_words = "The server adds up all statistics and solves for the model."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """A head from all statistics so far, on fixed features, whenever new ones are delivered."""
        server, new = at_server.keep_once(server, inbox)
        if not new:
            return server, StepInfo()
        far = at_server.far_statistics(server.seeds)
        did = suspected(far, new)
        weights = closed_form_head(server.seeds, far, self.learning)
        if weights is None:
            return server, did
        after = replace(server, weights=weights, updates=server.updates + 1)
        return after, did.then(solved_from(server.seeds))


@dataclass(frozen=True, kw_only=True)
class MurmurStat(Murmur):
    """A network in closed form from statistics, then updates of it in few bits."""

    needs_closed_form = True
    downlinks: ClassVar[tuple[str, ...]] = ("weights", "auto", "relay", "coded")
    late_uploads = ""

    title: str = "Murmur-Stat"
    line: Line = ":"
    training: Training = from_statistics
    statistics: StatisticsUpload | None = all_samples
    feature_side: int = setting("statistics.feature_side", 6)
    statistics_bits: int = setting("statistics.statistics_bits", 8)
    directions: int = setting("statistics.directions", 0)
    directions_from: str = setting("statistics.directions_from", "random")
    scatter: str = setting("statistics.scatter", "sent")

    server_words = (
        "The server solves for a model from all statistics, and adds the mean of the updates "
        "that arrived."
    )

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The closed form of all statistics so far, and every update since the first of them.

        Updates that are delivered with the first statistics are not used: they are relative to a
        network without that head. Statistics that come later move the model by what they change in
        the closed form.
        """
        server, new = at_server.keep_once(server, inbox)
        if not new:
            return super().step(server, inbox, round_number)
        far = at_server.far_statistics(server.seeds)
        did = suspected(far, new)
        after = closed_form_head(server.seeds, far, self.learning)
        if after is None:
            moved, updated = super().step(server, inbox, round_number)
            return moved, did.then(updated)
        did = did.then(solved_from(server.seeds))
        known = {d: own for d, own in server.seeds.items() if d not in new}
        before = closed_form_head(known, at_server.far_statistics(known), self.learning)
        if before is None:
            return replace(server, weights=after, updates=server.updates + 1), did
        moved, updated = super().step(server, inbox, round_number)
        assert moved.weights is not None
        parts = zip(moved.weights, after, before, strict=True)
        weights = tuple(now + (later - old) for now, later, old in parts)
        return replace(moved, weights=weights), did.then(updated)


@dataclass(frozen=True, kw_only=True)
class OwnStatistics(Isolated):
    """Devices train alone, from the network that follows from their own statistics."""

    needs_closed_form = True

    title: str = "Own statistics"
    line: Line = "--"
    training: Training = from_own_statistics
    first_model: MakeModel | None = own_closed_form
    feature_side: int = setting("statistics.feature_side", 6)


def suspected(far: Mapping[int, float], new: Collection[int]) -> StepInfo:
    """Of devices whose statistics lie far from the rest, those whose statistics are new."""
    of_new = {device: times for device, times in far.items() if device in new}
    return StepInfo(suspects=at_server.far_from_the_rest("statistics", of_new))


def solved_from(held: Mapping[int, Statistics]) -> StepInfo:
    """What a closed form comes to."""
    return StepInfo(words=f"solved for a model from the statistics of {of_devices(held)}")


def closed_form_head(
    held: Mapping[int, Statistics], far: Collection[int], learning: Learning
) -> Tensors | None:
    """The network that follows from these statistics; None if there are none to trust."""
    trusted = at_server.trusted_statistics(held, far, learning.config.defence) if held else {}
    if not any(own.counts.any() for own in trusted.values()):
        return None
    own = [trusted[d] for d in sorted(trusted)]
    return learning.task.closed_form(fixed_features(learning), own)
