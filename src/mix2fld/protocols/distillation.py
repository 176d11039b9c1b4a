"""FD, FLD, MixFLD and Mix2FLD: mean outputs up; outputs down, or the weights that they become."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.codecs import Outputs, Payload, WithBins
from mix2fld.protocols import at_server
from mix2fld.protocols.aggregation.aggregate import combine_outputs
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import (
    Device,
    Inbox,
    Line,
    Seeding,
    StepInfo,
    Stepped,
    of_devices,
    setting,
)
from mix2fld.protocols.seed_samples import SeedParameters, mixed, raw, unmixed
from mix2fld.protocols.weights import DownloadsWeights, no_outputs
from mix2fld.tasks.base import Task
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import Loss, distillation_loss
from mix2fld.tasks.stepper import Draws, Start, draw_samples
from mix2fld.types import Local, Samples, SeedSet, ServerState, State, Tensors


@dataclass(frozen=True, kw_only=True)
class UploadsOutputs(Protocol):
    """Devices upload the average output vectors of Eq. 2; the server averages them by label.

    Where targets are numbers, bins take the place of labels: each download announces them.
    """

    needs_groups = True
    upload_kind = "outputs"
    late_uploads = "replaced"
    distillation_weight: float = setting("learning.distillation_weight", 0.01)  # beta
    unseen_labels: str = setting("learning.unseen_labels", "skip")

    @property
    def upload_codec(self) -> Outputs:
        return Outputs()

    def upload(self, device: Device, local: Local) -> Any:
        """The outputs that the device saw in its local phase."""
        return local.outputs

    def announced(self, codec: Payload) -> Payload:
        """A download with the bins of the target ahead of it, if there are such."""
        if self.sizes is None or not self.dims.target_numbers:
            return codec
        return WithBins(self.task.announces, codec)

    def averaged(self, server: ServerState, inbox: Inbox) -> NDArray[np.float32]:
        """The mean of the delivered outputs, label by label; the last where none was delivered."""
        last = no_outputs(self) if server.outputs is None else server.outputs
        any_numbers = self.dims.target_numbers > 0
        defence = self.config.defence
        return combine_outputs(inbox, last, self.unseen_labels, defence, any_numbers)

    def as_row(self, value: Any, server: ServerState) -> NDArray[np.float64]:
        row: NDArray[np.float64] = value.ravel().astype(np.float64)
        return row

    def last_row(self, server: ServerState) -> NDArray[np.float64]:
        """The global outputs; before the first, even ones."""
        if server.outputs is not None:
            return self.as_row(server.outputs, server)
        if self.dims.target_numbers:
            return self.as_row(no_outputs(self), server)
        return np.full(math.prod(self.dims.teacher_shape), 1.0 / self.dims.width)

    def from_row(self, row: NDArray[np.float64], server: ServerState) -> Local:
        outputs = row.reshape(self.dims.teacher_shape)
        if not self.dims.target_numbers:
            outputs = _as_distributions(outputs)
        return Local(self.learning.common_weights, outputs.astype(np.float32))


@dataclass(frozen=True, kw_only=True)
class FD(UploadsOutputs):
    """Federated distillation: the global outputs teach devices in their next local phase."""

    title: str = "FD"
    colour: str = "#e69f00"
    line: Line = "-."
    local_loss: Loss = distillation_loss  # Eq. 3

    @property
    def download_codec(self) -> Payload:
        """A vector for each label that a device drew."""
        return self.announced(Outputs(partial_rows=True))

    def start(self, weights: Tensors) -> State:
        """No outputs are known: zero rows."""
        return {"teacher": no_outputs(self)}

    def begin(self, state: State, start: Start) -> Start:
        return start._replace(teacher=state["teacher"])

    server_words = "The server averages the outputs that arrived, label by label."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The global outputs are the mean of the delivered ones, label by label."""
        if not inbox:
            return server, StepInfo()
        outputs = self.averaged(server, inbox)
        did = StepInfo(words=f"averaged the outputs of {of_devices(inbox)}")
        return replace(server, outputs=outputs, updates=server.updates + 1), did

    def download(self, server: ServerState) -> Any:
        return server.outputs

    def received(self, value: Any) -> State:
        return {"teacher": value}


@dataclass(frozen=True, kw_only=True)
class FLD(SeedParameters, UploadsOutputs, DownloadsWeights):
    """Outputs become weights: the server trains a model on seed samples, taught by the outputs."""

    title: str = "FLD"
    colour: str = "#009e73"
    line: Line = "--"
    seeds: Seeding | None = raw  # as they are
    server_steps: int = setting("learning.server_steps", 3200)  # K_s
    student_start: str = setting("learning.student_start", "continue")

    @property
    def download_codec(self) -> Payload:
        return self.announced(super().download_codec)

    server_words = (
        "The server averages the outputs and trains a model on the samples it has collected, "
        "with these outputs as a teacher: outputs become weights."
    )

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """Algorithm 1 at the server: from seed samples and mean outputs to a global model.

        New seed samples are judged and prepared: those of Mix2FLD are unmixed (Eqs. 7 and 8). The
        mean outputs are those of FD. Eq. 5 converts both into weights.
        """
        server, did = at_server.take_in_seeds(self, server, inbox)
        if not inbox:
            return server, did
        teacher, samples = self.averaged(server, inbox), server.seed_set
        server = replace(server, outputs=teacher)
        did = did.then(StepInfo(words=f"averaged the outputs of {of_devices(inbox)}"))
        if samples is None:
            return server, did
        weights = convert(server.weights, teacher, samples, self.learning, round_number)
        after = replace(server, weights=weights, updates=server.updates + 1)
        return after, did.then(trained_on(samples, self.server_steps))


@dataclass(frozen=True, kw_only=True)
class MixFLD(FLD):
    """FLD on samples that devices mixed up before they uploaded them (Eq. 6)."""

    title: str = "MixFLD"
    colour: str = "#cc79a7"
    line: Line = (0, (5, 1))
    seeds: Seeding | None = mixed  # Eq. 6 on devices
    mixed_labels: str = setting("seeding.mixed_labels", "soft")


@dataclass(frozen=True, kw_only=True)
class Mix2FLD(FLD):
    """Algorithm 1: mean outputs up, weights down, mixed-up seeds unmixed across devices.

    A device uploads its mean outputs (Eq. 2), and once ``seed_samples`` mixes of two samples with
    different labels (Eq. 6). The server unmixes mixes of different devices into ``inverse_samples``
    samples of one label (Eqs. 7 and 8), averages the outputs, and converts them into a model by
    ``server_steps`` steps of Eq. 5, which is multicast: ``FLD.step``.
    """

    title: str = "Mix2FLD"
    colour: str = "#d55e00"
    line: Line = "-"
    seeds: Seeding | None = unmixed  # Eq. 6 on devices; Eqs. 7 and 8 at the server
    inverse_samples: int = setting("seeding.inverse_samples", 100)  # N_I
    inverse_count: str = setting("seeding.inverse_count", "per-device")
    inverse_clip: bool = setting("seeding.inverse_clip", False)


def trained_on(samples: SeedSet, steps: int) -> StepInfo:
    """What to record of a conversion: its steps and samples."""
    return StepInfo(steps, words=f"took {steps:,} steps on {len(samples.targets):,} samples")


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
    samples, draws = _needed(seeds, draws, learning.task)
    randomness = partial(integer, learning.seed, "student model", round_number)
    start = Start(weights, outputs, randomness=randomness)
    loss = learning.task.local_loss(distillation_loss)
    return learning.stepper.train_one(loss, samples, start, draws)


def _needed(seeds: SeedSet, draws: Draws, task: Task) -> tuple[Samples, Draws]:
    """All samples; or one for each draw, where these are fewer, and the draws that name them."""
    if draws.size >= len(seeds.targets):
        return task.set_of(seeds.inputs, seeds.targets), draws
    rows = draws.ravel()
    numbers = np.arange(len(rows), dtype=np.int32).reshape(draws.shape)
    return task.set_of(seeds.make(rows), seeds.targets[rows]), numbers


def _as_distributions(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that the codec carries: no value below zero, each row with sum one."""
    shifted = values - values.min(axis=1, keepdims=True)
    totals = shifted.sum(axis=1, keepdims=True)
    even = np.full_like(values, 1.0 / values.shape[1])
    return np.divide(shifted, totals, out=even, where=totals > 0)
