"""``mix2fld-device predict``: what the device's current model says of new samples."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.npz import MissingArrayError, read_npz
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.samples import as_measured, standardise
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.learning import make_learning
from mix2fld.deploy.edge.messages import MessageError
from mix2fld.deploy.edge.run_settings import unpack_run
from mix2fld.deploy.edge.store import Store, newest_run
from mix2fld.engine.device_turn import receive, settle
from mix2fld.engine.wire import Wire
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.learning import Learning
from mix2fld.types import Tensors


def predict(arguments: list[str]) -> None:
    """A line for each sample: its number, its label, and the probability of that label."""
    parser = argparse.ArgumentParser(
        prog="mix2fld-device predict", description="Label samples with the device's current model."
    )
    add = parser.add_argument
    add("--device", type=int, required=True, metavar="N", help="number of this device")
    words = "folder in which the device stores its weights between rounds"
    add("--state", type=Path, required=True, metavar="FOLDER", help=words)
    words = ".npz file with inputs, as they were measured"
    add("--data", type=Path, required=True, metavar="FILE", help=words)
    chosen = parser.parse_args(arguments)
    store = newest_run(chosen.state, chosen.device)
    if store is None:
        raise InputError(
            field="state",
            value=chosen.state,
            hint=f"holds no model of device {chosen.device}: it has not trained yet",
        )
    learning, weights = current_model(store)
    samples = read_samples(chosen.data, learning.dims.samples)
    logits = learning.stepper.logits(weights, samples)
    if not learning.task.by_label:
        rows = learning.task.in_units(logits)
        lines = [f"{n} {' '.join(f'{x:.6g}' for x in row)}\n" for n, row in enumerate(rows)]
        sys.stdout.writelines(lines)
        return
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances = raised / raised.sum(axis=1, keepdims=True)
    lines = [f"{number} {row.argmax()} {row.max():.4f}\n" for number, row in enumerate(chances)]
    sys.stdout.writelines(lines)


def current_model(store: Store) -> tuple[Learning, Tensors]:
    """What a device has now: the last download that came, or what it trained itself."""
    own, settings = store.up_to(sys.maxsize), store.settings()
    if own is None or settings is None:
        raise InputError(field="state", value=store.path, hint="holds no intact model")
    try:
        run = unpack_run(settings)
    except MessageError as error:
        raise InputError(field="state", value=store.path, hint=f"{error}") from None
    learning = make_learning(run.config, run.samples, run.task)
    wire = Wire(get_protocol(learning.config.protocol), learning)
    state = settle(own.state, delivered=own.download is not None)
    if own.download is not None:
        state = receive(wire, state, wire.decode_download(own.download, [state]))
    return learning, state["weights"]


def read_samples(path: Path, samples: SampleFormat) -> NDArray[Any]:
    """The inputs in a file, as the model was trained on them."""
    try:
        inputs = as_measured(read_npz(path, "inputs"), samples)
    except FileNotFoundError:
        raise InputError(field="data", value=path, hint="there is no such file") from None
    except (MissingArrayError, PlaceError, InputError, OSError) as error:
        raise InputError(field="data", value=path, hint=f"{error}") from None
    return standardise(inputs, samples.mean, samples.std) if samples.mean else inputs
