"""The table of protocols. Read this first: a protocol is a row, and everything reads the rows.

To add one, write the parts that differ and put a row here, or into ``PROTOCOLS`` from your own
code before a run. This module needs no JAX: what is trained, and how, is data to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.accounting import Guarantee
from mix2fld.device.private_statistics import PrivateStatistics
from mix2fld.device.seed_labels import LabelsOfSeeds
from mix2fld.device.seeds import mixed_samples, raw_samples
from mix2fld.device.statistics import own_closed_form, own_statistics
from mix2fld.device.updates import (
    NoisyUpdates,
    Updates,
    largest_entries,
    picked_coordinates,
    rotated_levels,
    rotated_signs,
    sparse_ternary,
)
from mix2fld.device.uplinks import MeanOutputs, NoUplink, TrainedWeights, Uplink
from mix2fld.errors import InputError, did_you_mean
from mix2fld.learning.features import feature_count
from mix2fld.learning.losses import Loss, distillation_loss, label_loss
from mix2fld.learning.task import Sizes, Task
from mix2fld.learning.training import Training
from mix2fld.link.payloads import ClassStatistics, Payload, SeedSamples
from mix2fld.privacy.guarantees import Promise, of_local_noise, of_trusted_sum, of_updates
from mix2fld.server.downlinks import (
    Downlink,
    GlobalOutputs,
    GlobalWeights,
    NoDownlink,
    WeightsAndMeans,
)
from mix2fld.server.private_statistics import (
    take_private_seeds,
    take_private_statistics,
    take_summed_seeds,
    take_trusted_sums,
)
from mix2fld.server.seed_sets import as_collected, inversely_mixed
from mix2fld.server.statistics import add_updates_to_closed_form, take_closed_form
from mix2fld.server.steps import (
    Inbox,
    convert_mean_outputs,
    convert_seed_labels,
    keep_state,
    take_mean_outputs,
    take_mean_weights,
)
from mix2fld.server.updates import add_mean_update
from mix2fld.types import Inputs, Seeds, SeedSet, ServerState, Tensors

if TYPE_CHECKING:
    from mix2fld.config import Config

CollectSeeds = Callable[[np.random.Generator, Inputs, NDArray[np.int32], Sizes], Any]
MakeModel = Callable[[Inputs, NDArray[np.int32], Task], Tensors]
PrepareSeeds = Callable[[Mapping[int, Seeds], Sizes], SeedSet | None]
ServerStep = Callable[[ServerState, Inbox, SeedSet | None, Task, int], ServerState]


@dataclass(frozen=True)
class Seeding:
    """Samples that devices upload once: how they are made, carried and prepared for training."""

    collect: CollectSeeds
    prepare: PrepareSeeds
    mixed: bool
    """Whether a seed mixes several samples, or is one."""
    unmixed: bool = False
    """Whether the server trains on samples that it unmixed from the seeds."""

    def payload(self, sizes: Sizes) -> Payload:
        """The seeds on the link, each with the labels that it mixes."""
        return SeedSamples(mix_size=len(sizes.config.seeding.ratios) if self.mixed else 1)


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


raw = Seeding(raw_samples, as_collected, mixed=False)
mixed = Seeding(mixed_samples, as_collected, mixed=True)
unmixed = Seeding(mixed_samples, inversely_mixed, mixed=True, unmixed=True)
summary = Summary(own_statistics, no_samples, mixed=False)

plain = Training()
adjusted = Training(logit_adjustment=2.0, rate_factors=(2.0, 0.5), device_model="mean")
from_statistics = Training(logit_adjustment=1.0, rate_factors=(1.0, 0.1), device_model="mean")
from_private_statistics = replace(from_statistics, logit_adjustment=1.5)
from_own_statistics = Training(logit_adjustment=2.0)
labelling = Training(logit_adjustment=1.0, replay=0.3)
replaying = Training(logit_adjustment=1.0, rate_factors=(2.0, 0.5), device_model="mean", replay=0.3)


@dataclass(frozen=True)
class Protocol:
    """What each side computes and sends."""

    title: str
    local_loss: Loss
    uplink: Uplink
    seeds: Seeding | None
    server_step: ServerStep
    downlink: Downlink
    training: Training = plain
    """How devices train unless the config says otherwise."""
    first_model: MakeModel | None = None
    """What a device begins with of its own samples, until a download comes; None: untrained."""
    promise: Promise | None = None
    """What its uploads guarantee about the samples of a device; None: nothing."""


PROTOCOLS: dict[str, Protocol] = {
    #                    title       local loss         uplink                                  seeds    server step           downlink
    "isolated": Protocol("isolated", label_loss,        NoUplink(),                             None,    keep_state,           NoDownlink()),
    "own-statistics": Protocol("Own statistics", label_loss, NoUplink(),                        None,    keep_state,           NoDownlink(), from_own_statistics, own_closed_form),
    "statistics": Protocol("Statistics", label_loss,    NoUplink(),                             summary, take_closed_form,     GlobalWeights(), from_statistics, own_closed_form),
    "dp-statistics": Protocol("DP statistics", label_loss, PrivateStatistics(),                 None,    take_private_statistics, WeightsAndMeans(), from_private_statistics, own_closed_form, of_local_noise),
    "dp-sum":   Protocol("DP sum",   label_loss,        PrivateStatistics(summed=True),         None,    take_trusted_sums,    WeightsAndMeans(), from_private_statistics, own_closed_form, of_trusted_sum),
    "dp-seeds": Protocol("DP seeds", label_loss,        PrivateStatistics(kind="samples"),      None,    take_private_seeds,   WeightsAndMeans(kind="samples"), from_private_statistics, promise=of_local_noise),
    "dp-seeds-sum": Protocol("DP seeds, summed", label_loss, PrivateStatistics(summed=True, kind="samples"), None, take_summed_seeds, WeightsAndMeans(kind="samples"), from_private_statistics, promise=of_trusted_sum),
    "fl":       Protocol("FL",       label_loss,        TrainedWeights(),                       None,    take_mean_weights,    GlobalWeights()),
    "fl8":      Protocol("FL 8-bit", label_loss,        TrainedWeights(8),                      None,    take_mean_weights,    GlobalWeights()),
    "fl4":      Protocol("FL 4-bit", label_loss,        TrainedWeights(4),                      None,    take_mean_weights,    GlobalWeights()),
    "topk":     Protocol("Top-k",    label_loss,        Updates(largest_entries, feedback=True), None,   add_mean_update,      GlobalWeights()),
    "stc":      Protocol("STC",      label_loss,        Updates(sparse_ternary, feedback=True), None,    add_mean_update,      GlobalWeights()),
    "sign":     Protocol("Sign",     label_loss,        Updates(rotated_signs, feedback=True),  None,    add_mean_update,      GlobalWeights()),
    "eden":     Protocol("EDEN",     label_loss,        Updates(rotated_levels),                None,    add_mean_update,      GlobalWeights()),
    "murmur":   Protocol("Murmur",   label_loss,        Updates(picked_coordinates),            None,    add_mean_update,      GlobalWeights(), adjusted),
    "murmur-mix": Protocol("Murmur-Mix", label_loss,    Updates(picked_coordinates),            mixed,   add_mean_update,      GlobalWeights(), replaying),
    "murmur-stat": Protocol("Murmur-Stat", label_loss,  Updates(picked_coordinates),            summary, add_updates_to_closed_form, GlobalWeights(), from_statistics),
    "dp-fl":    Protocol("DP-FL",    label_loss,        NoisyUpdates(rotated_levels),           None,    add_mean_update,      GlobalWeights(), adjusted, promise=of_updates),
    "dp-murmur": Protocol("DP-Murmur", label_loss,      NoisyUpdates(picked_coordinates),       None,    add_mean_update,      GlobalWeights(), adjusted, promise=of_updates),
    "fd":       Protocol("FD",       distillation_loss, MeanOutputs(),                          None,    take_mean_outputs,    GlobalOutputs()),
    "cfd":      Protocol("CFD",      label_loss,        LabelsOfSeeds(),                        mixed,   convert_seed_labels,  GlobalWeights(), labelling),
    "fld":      Protocol("FLD",      label_loss,        MeanOutputs(),                          raw,     convert_mean_outputs, GlobalWeights()),
    "mixfld":   Protocol("MixFLD",   label_loss,        MeanOutputs(),                          mixed,   convert_mean_outputs, GlobalWeights()),
    "mix2fld":  Protocol("Mix2FLD",  label_loss,        MeanOutputs(),                          unmixed, convert_mean_outputs, GlobalWeights()),
}  # fmt: skip


def get_protocol(name: str) -> Protocol:
    """The row of that name."""
    if name not in PROTOCOLS:
        raise InputError(f"protocols = {name!r}: no such protocol; {did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name]


def guarantee_of(config: "Config") -> Guarantee | None:
    """What the uploads of a single run guarantee; None: nothing, or a row that is not known."""
    row = PROTOCOLS.get(config.protocols[0])
    return None if row is None or row.promise is None else row.promise(config)
