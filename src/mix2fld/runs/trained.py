"""What a run has learned: the weights of its server and of its devices, and what they stand for.

No JAX: ``runs.model`` makes a model of it that can be used.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import DamagedError, InputError
from mix2fld.config.settings import Config
from mix2fld.runs.checkpoint import read_checkpoint
from mix2fld.runs.finetuned import read_finetuned
from mix2fld.runs.layout import RunFiles
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.table import as_record
from mix2fld.types import Dataset, State, Tensors

NamedWeights = dict[str, NDArray[np.float32]]
FORM = "form"
"""In ``made_with`` of a checkpoint: what the weights stand for, as JSON."""


Form = dict[str, Any]
"""What weights stand for: the model, their names, the form of samples, features and labels."""


def form_of(learning: Learning, dataset: Dataset) -> Form:
    """What the weights of a run stand for: its model, data and task."""
    count = learning.dims.num_labels if learning.task.by_label else 0
    part = learning.config.learning.trained
    return {
        "model": learning.model_name,
        **({} if part == "all" else {"trained": part}),
        "names": learning.weight_names,
        "samples": learning.dims.samples.record(),
        "labels": list(dataset.label_names) or [str(label) for label in range(count)],
        "columns": list(dataset.columns),
        **({"task": as_record(learning.task)} if learning.task.numbers else {}),
        **({"series": dataset.series._asdict()} if dataset.series is not None else {}),
    }


@dataclass(frozen=True)
class FinalWeights:
    """The weights of a run after its last round, and what they stand for."""

    config: Config
    form: Form
    server: Tensors | None
    state_of: Callable[[int], State]
    """What a device keeps between rounds."""
    learn: Callable[[], Learning] | None = None
    """The learning of the run; None: as its config names it."""
    finetuned: Callable[[int], Tensors] | None = None
    """The model of a device after its steps that follow the last round; None: it took none."""

    def server_weights(self) -> NamedWeights:
        """The server's model."""
        if self.server is None:
            raise InputError(
                field="protocols",
                value=self.config.protocol,
                hint="its server has no model, or none yet; devices train and keep their own",
            )
        if len(self.server) < len(self.form["names"]):
            raise InputError(
                field="personal",
                value=self.config.learning.personal,
                hint="these weights stay on devices, so the server has no whole model; "
                "choose a device",
            )
        return self._named(self.server)

    def device_weights(self, device: int) -> NamedWeights:
        """The model that a device has now: fine-tuned, the last that it received, or trained."""
        if not 0 <= device < self.config.data.devices:
            raise InputError(
                field="device",
                value=device,
                hint=f"must be from 0 to {self.config.data.devices - 1}",
            )
        if self.finetuned is not None:
            return self._named(self.finetuned(device))
        state = self.state_of(device)
        if "weights" not in state:  # its state is in no file
            raise InputError(field="device", value=device, hint="did not take part in any round")
        return self._named(state["weights"])

    def _named(self, weights: Tensors) -> NamedWeights:
        return dict(zip(self.form["names"], weights, strict=True))


def read_trained(folder: Path, config: Config) -> FinalWeights:
    """What the run in a folder has learned, after its last finished round."""
    path = RunFiles(folder).checkpoint
    if not path.is_file():
        raise InputError(
            field="run", value=folder, hint="has no checkpoint, so no round was finished"
        )
    try:
        tree, made_with = read_checkpoint(path)
    except DamagedError as error:
        raise InputError(field="run", value=folder, hint=f"{path.name} {error}") from None
    if FORM not in made_with:
        raise InputError(
            field="run",
            value=folder,
            hint="was written by a version that kept no names of weights; run it again",
        )
    form = {"columns": [], **json.loads(made_with[FORM])}  # older ones do not name columns

    def state_of(device: int) -> State:
        states = tree["devices"]
        if RunFiles(folder).identity.exists():
            raise InputError(
                field="run",
                value=folder,
                hint="is of a deployment, whose devices keep their own models: "
                "mix2fld-device predict uses them",
            )
        if isinstance(states, list):
            return dict(states[device])
        from mix2fld.runs.state_files import StatesInFiles

        return StatesInFiles(folder).read(states, [device])[device]

    file, arrays = RunFiles(folder).finetuned, len(form["names"])
    tuned = partial(read_finetuned, file, arrays=arrays) if file.is_file() else None
    return FinalWeights(config, form, tree["server"]["weights"], state_of, finetuned=tuned)
