"""Statistics uploaded once, and the network that follows from them in closed form."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import ClassStatistics, Payload
from mix2fld.protocols.aggregation.statistics_filter import trusted_statistics
from mix2fld.protocols.base import (
    Inbox,
    NoDownlink,
    NoUplink,
    Protocol,
    Seeding,
    StepInfo,
    keep_state,
    named,
    server_step,
)
from mix2fld.protocols.updates import OF_MURMUR, Updates, add_mean_update, picked_coordinates
from mix2fld.protocols.weights import GlobalWeights
from mix2fld.tasks.class_statistics import closed_form_network, measure_statistics
from mix2fld.tasks.features import feature_count, fixed_features
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.training import Training
from mix2fld.types import Inputs, SeedSet, ServerState, Statistics, Tensors

if TYPE_CHECKING:
    pass


def own_statistics(
    rng: np.random.Generator, inputs: Inputs, labels: NDArray[np.int32], sizes: Sizes
) -> Statistics:
    """Counts, sums and scatter of fixed features of all samples of a device."""
    del rng
    if not isinstance(sizes, Learning):
        raise TypeError("statistics need the model of a run, not its sizes alone")
    return measure_statistics(fixed_features(sizes), inputs, labels, sizes.dims.num_labels)


def own_closed_form(inputs: Inputs, labels: NDArray[np.int32], learning: Learning) -> Tensors:
    """Fixed features with the head that follows from the device's own statistics."""
    features = fixed_features(learning)
    own = measure_statistics(features, inputs, labels, learning.dims.num_labels)
    return closed_form_network(features, [own])


@server_step("The server adds up all statistics and solves for the model.")
def closed_form_head(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """A head from all statistics so far, on fixed features, whenever new ones are delivered."""
    del seeds, round_number
    weights = _closed_form(state.seeds, learning) if _brings_statistics(inbox) else None
    if weights is None:
        return state, StepInfo()
    return replace(state, weights=weights, updates=state.updates + 1), StepInfo()


@server_step(
    "The server solves for a model from all statistics, and adds the mean of the updates that "
    "arrived."
)
def add_updates_to_closed_form(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """The closed form of all statistics so far, and every update since the first of them.

    Updates that are delivered with the first statistics are not used: they are counted from a
    network without that head. Statistics that come later move the model by what they change in the
    closed form.
    """
    new = _brings_statistics(inbox)
    after = _closed_form(state.seeds, learning) if new else None
    if after is None:
        return add_mean_update(state, inbox, seeds, learning, round_number)
    before = _closed_form({d: own for d, own in state.seeds.items() if d not in new}, learning)
    if before is None:
        return replace(state, weights=after, updates=state.updates + 1), StepInfo()
    moved, info = add_mean_update(state, inbox, seeds, learning, round_number)
    assert moved.weights is not None
    parts = zip(moved.weights, after, before, strict=True)
    return replace(moved, weights=tuple(now + (later - old) for now, later, old in parts)), info


def _brings_statistics(inbox: Inbox) -> set[int]:
    """The devices whose statistics were delivered in this round."""
    return {d for d, upload in inbox.items() if isinstance(upload.seeds, Statistics)}


def _closed_form(seeds: Mapping[int, Any], learning: Learning) -> Tensors | None:
    """The network that follows from these statistics; None if there are none to trust."""
    held = {d: own for d, own in seeds.items() if isinstance(own, Statistics)}
    trusted = trusted_statistics(held, learning.config.defence) if held else {}
    if not any(own.counts.any() for own in trusted.values()):
        return None
    return closed_form_network(fixed_features(learning), [trusted[d] for d in sorted(trusted)])


@dataclass(frozen=True)
class Summary(Seeding):
    """Statistics in place of samples: uploaded once as seeds are, but nothing to train on."""

    def payload(self, sizes: Sizes) -> Payload:
        """Counts, sums and scatter on the link."""
        config = sizes.config.statistics
        features = feature_count(sizes.dims, config.feature_side)
        return ClassStatistics(features, config.statistics_bits)


def no_samples(seeds: Mapping[int, Any], sizes: Sizes) -> None:
    """Statistics are nothing to train on."""
    del seeds, sizes


summary = Summary(own_statistics, no_samples, mixed=False)


from_statistics = Training(logit_adjustment=1.0, rate_factors=(1.0, 0.1), device_model="mean")
OF_STATISTICS = named("feature_side", "statistics_bits", "downlink_bits")

OWN_STATISTICS = Protocol(
    "Own statistics", label_loss, NoUplink(), None, keep_state, NoDownlink(),
    Training(logit_adjustment=2.0), own_closed_form, parameters=named("feature_side"),
    colour="#7f7f7f", line="--",
)  # fmt: skip
STATISTICS = Protocol(
    "Statistics", label_loss, NoUplink(), summary, closed_form_head, GlobalWeights(),
    from_statistics, own_closed_form, parameters=OF_STATISTICS, colour="#882255",
)  # fmt: skip
MURMUR_STAT = Protocol(
    "Murmur-Stat", label_loss, Updates(picked_coordinates), summary, add_updates_to_closed_form,
    GlobalWeights(), from_statistics, parameters={**OF_MURMUR, **OF_STATISTICS},
    colour="#aa4499", line=":",
)  # fmt: skip
