"""CFD: devices label seed samples that all of them share, and the server learns the mean labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import SeedLabels
from mix2fld.protocols.aggregation.aggregate import combine_labels
from mix2fld.protocols.base import Inbox, Protocol, StepInfo, Turn, Uplink, named, server_step
from mix2fld.protocols.distillation import convert
from mix2fld.protocols.seed_samples import OF_SEEDS, mixed
from mix2fld.protocols.seed_screening import Judgement, below, least_agreement
from mix2fld.protocols.weights import GlobalWeights
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.training import Training
from mix2fld.types import Dimensions, Local, SeedSet, ServerState, State, Upload

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


@dataclass(frozen=True)
class LabelsOfSeeds(Uplink):
    """What the trained model says of each seed that all devices share."""

    devices: int = 1
    bits: int = 1
    num_labels: int = 1

    @property
    def labels_seeds(self) -> bool:
        """It does."""
        return True

    @property
    def payload(self) -> SeedLabels:  # type: ignore[override]
        """Labels of the seeds that the device holds."""
        return SeedLabels(self.devices, self.bits)

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the bits of a label, and for so many devices."""
        bits = config.seeding.label_bits
        return replace(self, devices=config.data.devices, bits=bits, num_labels=dims.num_labels)

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The codes of the labels, by the device whose seeds they are for."""
        del state, turn
        return {d: self.payload.codes(outputs) for d, outputs in local.on_seeds.items()}

    def read(self, value: Any, turn: Turn) -> Any:
        """The label distributions that the codes stand for."""
        del turn
        return {d: self.payload.labels(codes, self.num_labels) for d, codes in value.items()}


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


def labels_of_seeds(server: ServerState, seeds: SeedSet) -> dict[int, NDArray[np.float32]]:
    """The labels that the seeds in use came with, by device [N_S, N_L]."""
    used = [device for device in sorted(server.seeds) if device not in seeds.left_out]
    return dict(zip(used, np.split(seeds.targets, len(used)), strict=True))


@server_step(
    "The server averages the labels that devices assign to shared samples and trains a model on "
    "them.",
    trains=True,
)
def convert_seed_labels(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """CFD: a global model learns the mean of the labels that devices give to the seeds.

    A seed that nobody has labelled, as in the first round, keeps the label that it came with.
    Where seeds are checked, so are labels: those of devices that contradict the seeds do not count.
    """
    if seeds is None:
        return state, StepInfo()
    came_with, defence = labels_of_seeds(state, seeds), learning.config.defence
    judged = judge_labels(inbox, came_with)
    info = StepInfo(judged=judged)
    if not inbox:
        return state, info
    trusted = dict(inbox)
    if defence.seed_check == "agreement":
        trusted = {d: upload for d, upload in inbox.items() if d not in judged.left_out}
    labels = []
    for device, own in came_with.items():
        given = [trusted[d].value[device] for d in sorted(trusted) if device in trusted[d].value]
        labels.append(combine_labels(given, defence) if given else own)
    labelled = replace(seeds, targets=np.concatenate(labels).astype(np.float32))
    no_teacher = np.zeros((learning.dims.num_labels,) * 2, np.float32)
    weights = convert(state.weights, no_teacher, labelled, learning, round_number)
    info = info._replace(steps=learning.config.learning.server_steps)
    return replace(state, weights=weights, updates=state.updates + 1), info


CFD = Protocol(
    "CFD", label_loss, LabelsOfSeeds(), mixed, convert_seed_labels, GlobalWeights(),
    Training(logit_adjustment=1.0, replay=0.3),
    parameters={**OF_SEEDS, **named("label_bits", "server_steps", "downlink_bits")},
    colour="#e69f00", line=":",
)  # fmt: skip
