"""The trained model of a run: its weights by name, and what is needed to use them elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from mix2fld.base.errors import DamagedError, InputError
from mix2fld.config.settings import Config
from mix2fld.runs.checkpoint import read_checkpoint
from mix2fld.runs.layout import RunFiles
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.metric import metric_of
from mix2fld.types import Tensors

NamedWeights = dict[str, NDArray[np.float32]]
FORM = "form"
"""In ``made_with`` of a checkpoint: what the weights stand for, as JSON."""
FILE_FORMAT = 1


def form_of(learning: Learning, label_names: Sequence[str]) -> dict[str, str]:
    """For ``made_with``: the names of the weights, the form of samples and the labels."""
    count = learning.dims.num_labels if learning.task.by_label else 0
    labels = list(label_names) or [str(label) for label in range(count)]
    known = {
        "model": learning.model_name,
        "names": learning.weight_names,
        "samples": asdict(learning.dims.samples),
        "labels": labels,
    }
    return {FORM: json.dumps(known)}


def by_name(weights: Tensors | None, names: Sequence[str], config: Config) -> NamedWeights:
    """The server's model, with the names that the model gives to its weights."""
    if weights is None:
        raise InputError(
            field="protocols",
            value=config.protocol,
            hint="its server has no model, or none yet; devices train and keep their own",
        )
    return dict(zip(names, weights, strict=True))


def stored_weights(folder: Path, config: Config) -> NamedWeights:
    """The weights of the run in a folder, after its last finished round."""
    weights, form = _stored(folder)
    return by_name(weights, form["names"], config)


def model_file(folder: Path, config: Config, summary: dict[str, Any] | None) -> bytes:
    """The trained model as a safetensors file, with what is needed to use it as its metadata.

    ``summary`` is that of a finished run.
    """
    weights, form = _stored(folder)
    named = by_name(weights, form["names"], config)
    samples = form["samples"]
    about = {
        "format": FILE_FORMAT,
        "run": config.run_name,
        "model": form["model"],
        "labels": form["labels"],
        "sample_shape": samples["shape"],
        "dtype": samples["dtype"],
        "fed_as": "x / 255" if samples["dtype"] == "uint8" else "x",
        "standardisation": {"mean": samples["mean"], "std": samples["std"]},
        **_reached(summary),
    }
    return bytes(save(named, metadata={"mix2fld": json.dumps(about)}))


def _reached(summary: dict[str, Any] | None) -> dict[str, float | None]:
    """What the model scores, under the name of the metric."""
    if summary is None:
        return {}
    return {metric_of(summary["scores"]).name: summary["scores"]["global"]}


def _stored(folder: Path) -> tuple[Tensors | None, dict[str, Any]]:
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
    return tree["server"]["weights"], json.loads(made_with[FORM])
