"""The table of protocols. Read this first: a protocol is a row, and everything reads the rows.

To add one, write the functions that differ and put a row here, or into ``PROTOCOLS`` from your own
code before a run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import SeedingConfig
from mix2fld.device.seeds import mixed_samples, raw_samples
from mix2fld.errors import InputError, did_you_mean
from mix2fld.learning.steps import Loss, distillation_loss, label_loss
from mix2fld.learning.task import Task
from mix2fld.link.payload import Nothing, Outputs, Payload, SeedSamples, Weights
from mix2fld.server.seed_sets import as_collected, inversely_mixed
from mix2fld.server.steps import (
    Inbox,
    convert_mean_outputs,
    keep_state,
    take_mean_outputs,
    take_mean_weights,
)
from mix2fld.types import Seeds, SeedSet, ServerState

CollectSeeds = Callable[
    [np.random.Generator, NDArray[np.uint8], NDArray[np.int32], SeedingConfig], Seeds
]
PrepareSeeds = Callable[[Mapping[int, Seeds], Task], SeedSet | None]
ServerStep = Callable[[ServerState, Inbox, SeedSet | None, Task, int], ServerState]


@dataclass(frozen=True)
class Protocol:
    """What each side computes and sends."""

    title: str
    local_loss: Loss
    uplink: Payload
    collect_seeds: CollectSeeds | None
    seed_payload: Callable[[SeedingConfig], Payload]
    prepare_seeds: PrepareSeeds | None
    server_step: ServerStep
    downlink: Payload


def no_seeds(config: SeedingConfig) -> Payload:
    """No seeds are sent."""
    del config
    return Nothing()


def raw_seeds(config: SeedingConfig) -> Payload:
    """Samples with one label each."""
    del config
    return SeedSamples(mix_size=1)


def mixed_seeds(config: SeedingConfig) -> Payload:
    """Samples with the N labels that they mix."""
    return SeedSamples(mix_size=len(config.ratios))


PROTOCOLS: dict[str, Protocol] = {
    #                    title       local loss         uplink      seeds: on the device, on the link, at the server  server step           downlink
    "isolated": Protocol("isolated", label_loss,        Nothing(),  None,          no_seeds,    None,            keep_state,           Nothing()),
    "fl":       Protocol("FL",       label_loss,        Weights(),  None,          no_seeds,    None,            take_mean_weights,    Weights()),
    "fl8":      Protocol("FL 8-bit", label_loss,        Weights(8), None,          no_seeds,    None,            take_mean_weights,    Weights()),
    "fl4":      Protocol("FL 4-bit", label_loss,        Weights(4), None,          no_seeds,    None,            take_mean_weights,    Weights()),
    "fd":       Protocol("FD",       distillation_loss, Outputs(),  None,          no_seeds,    None,            take_mean_outputs,    Outputs(partial_rows=True)),
    "fld":      Protocol("FLD",      label_loss,        Outputs(),  raw_samples,   raw_seeds,   as_collected,    convert_mean_outputs, Weights()),
    "mixfld":   Protocol("MixFLD",   label_loss,        Outputs(),  mixed_samples, mixed_seeds, as_collected,    convert_mean_outputs, Weights()),
    "mix2fld":  Protocol("Mix2FLD",  label_loss,        Outputs(),  mixed_samples, mixed_seeds, inversely_mixed, convert_mean_outputs, Weights()),
}  # fmt: skip


def get_protocol(name: str) -> Protocol:
    """The row of that name."""
    if name not in PROTOCOLS:
        raise InputError(f"protocols = {name!r}: no such protocol; {did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name]
