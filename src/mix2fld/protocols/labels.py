"""CFD: devices label seed samples that all of them share, and the server learns the mean labels."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import SeedLabels
from mix2fld.protocols import at_server
from mix2fld.protocols.aggregation.aggregate import combine_labels
from mix2fld.protocols.distillation import convert, trained_on
from mix2fld.protocols.parts import (
    Device,
    Inbox,
    Line,
    Seeding,
    StepInfo,
    Stepped,
    Turn,
    of_devices,
    setting,
)
from mix2fld.protocols.seed_samples import SeedParameters, mixed
from mix2fld.protocols.weights import DownloadsWeights, no_outputs
from mix2fld.tasks.replay import REPLAY
from mix2fld.tasks.training import Training
from mix2fld.types import Local, SeedSet, ServerState, Tensors

replaying = Training(logit_adjustment=1.0, replay=0.3)


@dataclass(frozen=True, kw_only=True)
class CFD(SeedParameters, DownloadsWeights):
    """Devices upload what their models say of each seed sample that all devices share."""

    needs_labels = True
    needs_replay = True
    title: str = "CFD"
    colour: str = "#e69f00"
    line: Line = ":"
    training: Training = replaying
    seeds: Seeding | None = mixed
    label_bits: int = setting("seeding.label_bits", 1)
    server_steps: int = setting("learning.server_steps", 3200)  # K_s

    @property
    def upload_codec(self) -> SeedLabels:
        """Labels of the seed samples that the device holds."""
        devices = 1 if self.sizes is None else self.sizes.config.data.devices
        return SeedLabels(devices, self.label_bits)

    def upload(self, device: Device, local: Local) -> Any:
        """The codes of the labels, by the device whose seed samples they are for."""
        codec = self.upload_codec
        outputs = self._outputs_for(device, local.weights)
        return {owner: codec.codes(own) for owner, own in outputs.items()}

    def _outputs_for(self, device: Device, weights: Tensors) -> dict[int, NDArray[np.float32]]:
        """What a model says of the seed samples that the device holds, by their owners."""
        samples = device.replayed()
        if samples is None:
            return {}
        logits = self.learning.stepper.logits(weights, samples.inputs)
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        held = device.state[REPLAY]["held"]
        outputs = np.split(likely / likely.sum(axis=1, keepdims=True), int(held.sum()))
        return dict(zip(np.flatnonzero(held).tolist(), outputs, strict=True))

    def read(self, value: Any, turn: Turn) -> Any:
        labels, codec = self.dims.num_labels, self.upload_codec
        return {owner: codec.labels(codes, labels) for owner, codes in value.items()}

    server_words = (
        "The server averages the labels that devices assign to shared samples and trains a "
        "model on them."
    )

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """A global model learns the mean of the labels that devices give to the seed samples.

        One that nobody has labelled, as in the first round, keeps the label that it came with.
        Where seed samples are checked, so are labels: those of devices that contradict the seed
        samples do not count.
        """
        server, did = at_server.take_in_seeds(self, server, inbox)
        seeds, defence = server.seed_set, self.config.defence
        if seeds is None or not inbox:
            return server, did
        came_with = labels_of_seeds(server, seeds)
        judged = at_server.judge_labels(inbox, came_with)
        words = f"averaged the labels of {of_devices(inbox)}"
        did = did.then(StepInfo(suspects=at_server.contradicted("labels", judged), words=words))
        trusted = dict(inbox)
        if defence.seed_check == "agreement":
            trusted = {d: upload for d, upload in inbox.items() if d not in judged.left_out}
        labels = []
        for owner, own in came_with.items():
            given = [trusted[d].value[owner] for d in sorted(trusted) if owner in trusted[d].value]
            labels.append(combine_labels(given, defence) if given else own)
        labelled = replace(seeds, targets=np.concatenate(labels).astype(np.float32))
        weights = convert(server.weights, no_outputs(self), labelled, self.learning, round_number)
        after = replace(server, weights=weights, updates=server.updates + 1)
        return after, did.then(trained_on(labelled, self.server_steps))


def labels_of_seeds(server: ServerState, seeds: SeedSet) -> dict[int, NDArray[np.float32]]:
    """The labels that the seeds in use came with, by device [N_S, N_L]."""
    used = [device for device in sorted(server.seeds) if device not in seeds.left_out]
    return dict(zip(used, np.split(seeds.targets, len(used)), strict=True))
