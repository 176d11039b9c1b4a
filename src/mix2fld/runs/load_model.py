"""Trained models from run folders and from files that ``TrainedModel.save`` wrote."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from mix2fld.base.errors import InputError, some_of
from mix2fld.config.settings import Config
from mix2fld.runs.model import ABOUT, TrainedModel, learning_of
from mix2fld.runs.reader import find_run_folders, read_run
from mix2fld.runs.trained import read_trained


def load_model(path: Path | str, model: Any = None, device: int | None = None) -> TrainedModel:
    """The trained model of a run folder, or of a file that ``save`` wrote (.safetensors).

    ``device`` is one whose own model is wanted. ``model`` is the one that the run was given, if its
    config does not name it.
    """
    path = Path(path)
    if path.is_file():
        if device is not None:
            raise InputError(field="device", value=device, hint="a file holds one model")
        return _of_file(path, model)
    path = _only_run(path)
    run = read_run(path)
    if run is None:
        raise InputError(field="run", value=path, hint="there is no such run folder or model file")
    trained = read_trained(path, run.config)
    if model is not None:
        learn = learning_of(run.config, trained.form, model)
        trained = replace(trained, learn=lambda: learn)
    if device is not None:
        return TrainedModel.of(trained, trained.device_weights(device))
    return TrainedModel.of(trained, trained.server_weights(), run.summary if run.finished else None)


def _only_run(path: Path) -> Path:
    """The run folder, or the only one below the folder."""
    found = find_run_folders([path])
    if len(found) > 1 and path not in found:
        names = some_of([str(folder.relative_to(path)) for folder in found])
        raise InputError(
            field="run", value=path, hint=f"holds {len(found)} runs, name one: {names}"
        )
    return found[0] if found and path not in found else path


def _of_file(path: Path, model: Any) -> TrainedModel:
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})[ABOUT])
            weights = {name: file.get_tensor(name) for name in about["names"]}
            samples = {
                "shape": about["sample_shape"],
                "dtype": about["dtype"],
                "low": about["value_range"][0],
                "high": about["value_range"][1],
                **about["standardisation"],
                "network": about.get("network"),
            }
            form = {**about, "samples": samples}
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            field="run", value=path, hint=f"is no model file of mix2fld ({error})"
        ) from None
    config = Config.of(model=about["model"], trained=about.get("trained", "all"))
    return TrainedModel(weights, form, cache(lambda: learning_of(config, form, model)))
