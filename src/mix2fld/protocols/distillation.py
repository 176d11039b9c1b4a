"""FD, FLD, MixFLD and Mix2FLD: mean outputs up; outputs down, or the weights that they become."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.codecs import Outputs
from mix2fld.protocols.aggregation.aggregate import combine_outputs
from mix2fld.protocols.base import (
    Downlink,
    Inbox,
    Protocol,
    StepInfo,
    Turn,
    Uplink,
    named,
    server_step,
)
from mix2fld.protocols.seed_samples import OF_SEEDS, mixed, raw, unmixed
from mix2fld.protocols.weights import GlobalWeights
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import distillation_loss, label_loss
from mix2fld.tasks.stepper import Draws, Start, draw_samples
from mix2fld.types import Dimensions, Local, Samples, SeedSet, ServerState, State, Tensors

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class MeanOutputs(Uplink):
    """The average output vectors of Eq. 2."""

    payload: Outputs = field(default_factory=Outputs)

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The outputs that the device saw in its local phase."""
        del state, turn
        return local.outputs


@dataclass(frozen=True)
class GlobalOutputs(Downlink):
    """The global outputs, which teach the device in its next local phase."""

    payload: Outputs = field(default_factory=lambda: Outputs(partial_rows=True))

    def start(self, dims: Dimensions) -> State:
        """No outputs are known: zero rows."""
        return {"teacher": np.zeros((dims.num_labels, dims.num_labels), np.float32)}

    def value(self, server: ServerState) -> Any:
        """The mean outputs."""
        return server.outputs

    def received(self, value: Any) -> State:
        """A new teacher."""
        return {"teacher": value}


@server_step("The server averages the outputs that arrived, label by label.")
def take_mean_outputs(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """FD: the global outputs are the mean of the delivered ones, label by label."""
    del seeds, round_number
    if not inbox:
        return state, StepInfo()
    last = np.zeros((learning.dims.num_labels,) * 2, np.float32)
    outputs = combine_outputs(
        inbox,
        last if state.outputs is None else state.outputs,
        learning.config.learning.unseen_labels,
        learning.config.defence,
    )
    return replace(state, outputs=outputs, updates=state.updates + 1), StepInfo()


@server_step(
    "The server averages the outputs and trains a model on the samples it has collected, with "
    "these outputs as a teacher: outputs become weights.",
    trains=True,
)
def convert_mean_outputs(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """FLD and its kin: mean outputs as in FD, then converted to a global model on the seeds."""
    if not inbox:
        return state, StepInfo()
    averaged, info = take_mean_outputs(state, inbox, seeds, learning, round_number)
    if seeds is None or averaged.outputs is None:
        return replace(averaged, updates=state.updates), info
    weights = convert(averaged.weights, averaged.outputs, seeds, learning, round_number)
    return replace(averaged, weights=weights), StepInfo(learning.config.learning.server_steps)


def convert(
    weights: Tensors | None,
    outputs: NDArray[np.float32],
    seeds: SeedSet,
    learning: Learning,
    round_number: int,
) -> Tensors:
    """K_s steps of Eq. 5 from the last global model, or from an untrained one (decision 6)."""
    settings = learning.config.learning
    if settings.student_start == "fresh":
        weights = learning.untrained_student(round_number)
    elif weights is None:
        weights = learning.common_weights
    draws = draw_samples(
        stream(learning.seed, "conversion", round_number),
        len(seeds.targets),
        settings.server_steps,
        settings.batch_size,
    )
    samples, draws = _needed(seeds, draws)
    randomness = partial(integer, learning.seed, "student model", round_number)
    start = Start(weights, outputs, randomness=randomness)
    return learning.stepper.train_one(distillation_loss, samples, start, draws)


def _needed(seeds: SeedSet, draws: Draws) -> tuple[Samples, Draws]:
    """All samples; or one for each draw, where these are fewer, and the draws that name them."""
    if draws.size >= len(seeds.targets):
        return Samples(seeds.inputs, seeds.targets), draws
    rows = draws.ravel()
    numbers = np.arange(len(rows), dtype=np.int32).reshape(draws.shape)
    return Samples(seeds.make(rows), seeds.targets[rows]), numbers


OF_STUDENT = named("server_steps", "distillation_weight", "student_start", "downlink_bits")

FD = Protocol(
    "FD", distillation_loss, MeanOutputs(), None, take_mean_outputs, GlobalOutputs(),
    parameters=named("distillation_weight", "unseen_labels"), colour="#e69f00", line="-.",
)  # fmt: skip
FLD = Protocol(
    "FLD", label_loss, MeanOutputs(), raw, convert_mean_outputs, GlobalWeights(),
    parameters={**OF_SEEDS, **OF_STUDENT}, colour="#009e73", line="--",
)  # fmt: skip
MIX_FLD = replace(
    FLD, title="MixFLD", seeds=mixed, parameters={**FLD.parameters, **named("mixed_labels")},
    colour="#cc79a7", line=(0, (5, 1)),
)  # fmt: skip
MIX_2_FLD = replace(
    FLD, title="Mix2FLD", seeds=unmixed,
    parameters={**FLD.parameters, **named("inverse_samples", "inverse_count", "inverse_clip")},
    colour="#d55e00", line="-",
)  # fmt: skip
