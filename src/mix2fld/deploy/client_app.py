"""The Flower ClientApp: a message starts a process that does one thing and ends.

The node config says where the device's samples are (``data``, an .npz file) and, if need be, where
it keeps its state (``state``, a folder). Which device it is, the server knows from the name that
its key was registered under.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from platformdirs import user_state_path

from mix2fld.base.errors import InputError
from mix2fld.data.own_file import read_device_file
from mix2fld.deploy.edge.messages import Answer, Download, MessageError, Taken, TrainOrder
from mix2fld.deploy.edge.run_settings import DeviceRun, unpack_run
from mix2fld.deploy.edge.sources import value_format
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.edge.turn import answer, or_refused
from mix2fld.deploy.forms import from_record, to_record
from mix2fld.deploy.settings import config_digest, read_settings
from mix2fld.engine.checks import suited
from mix2fld.tasks.learning import Learning
from mix2fld.types import Dataset

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a local phase and answer with the upload."""
    return _reply(message, lambda: _train(message.content, context))


@app.query("download")
def download(message: Message, context: Context) -> Message:
    """Keep the download; it is used in the next local phase."""
    return _reply(message, lambda: _keep(message.content, context))


def _reply(message: Message, work: Callable[[], Answer]) -> Message:
    return Message(to_record(or_refused(work)), reply_to=message)


class Told(NamedTuple):
    """A message to a device, which device it is, and the run."""

    message: Any
    device: int
    run: DeviceRun


def _train(content: RecordDict, context: Context) -> Answer:
    told = _read(content, TrainOrder)
    run, order = told.run, told.message
    config = suited(read_settings(context.run_config).config, run.task)
    if run.digest != config_digest(config):
        raise InputError(
            "the settings of this node, with its defaults, are not those of the server: "
            "install the same version of mix2fld on both"
        )

    def learn() -> Learning:
        from mix2fld.deploy.edge.full import full_learning  # brings JAX

        return full_learning(config, run.samples, run.task)

    def read_samples() -> Dataset:
        return read_device_file(_data_file(context), run.samples, value_format(run.task))

    return answer(told.device, order, _store(told, context), learn, read_samples)


def _keep(content: RecordDict, context: Context) -> Answer:
    told = _read(content, Download)
    came = told.message
    _store(told, context).keep_download(came.round, came.data)
    return Taken(came.run, came.round)


def _read(content: RecordDict, kind: type[TrainOrder | Download]) -> Told:
    message, fields = from_record(content, kind)
    device, settings = fields.get("device"), fields.get("settings")
    if not isinstance(device, int) or device < 0 or not isinstance(settings, bytes):
        raise MessageError("a message that does not name its device and its run")
    return Told(message, device, unpack_run(settings))


def _data_file(context: Context) -> Path:
    named = context.node_config.get("data")
    if not isinstance(named, str) or not named:
        raise InputError('node config has no data: start the node with --node-config data="FILE"')
    return Path(named)


def _store(told: Told, context: Context) -> Store:
    named = context.node_config.get("state")
    root = Path(named) if isinstance(named, str) else user_state_path("mix2fld") / "deployment"
    return Store(root, told.message.run, told.device)
