"""The Flower ClientApp: a message starts a process that does one thing and ends.

The node config says where the device's samples are (``data``, an .npz file) and, if need be, where
it keeps its state (``state``, a folder). Which device it is, the server knows from the name that
its key was registered under.
"""

from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from platformdirs import user_state_path

from mix2fld.base.errors import InputError
from mix2fld.data.own_file import read_device_file
from mix2fld.deploy.edge.messages import Answer, Download, Taken, TrainOrder
from mix2fld.deploy.edge.sources import value_format
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.edge.turn import answer, or_refused
from mix2fld.deploy.forms import FORMAT, Received, pack, sample_format, task_in, unpack
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
    return Message(pack(or_refused(work)), reply_to=message)


def _train(content: RecordDict, context: Context) -> Answer:
    received = _read(content, TrainOrder)
    samples, task = sample_format(received.fields), task_in(received.fields)
    config = suited(read_settings(context.run_config).config, task)
    if received.fields["config"] != config_digest(config):
        raise InputError(
            "the settings of this node, with its defaults, are not those of the server: "
            "install the same version of mix2fld on both"
        )

    def learn() -> Learning:
        from mix2fld.deploy.edge.full import full_learning  # brings JAX

        return full_learning(config, samples, task)

    def read_samples() -> Dataset:
        return read_device_file(_data_file(context), samples, value_format(task))

    device, store = received.fields["device"], _store(received, context)
    return answer(device, received.message, store, learn, read_samples)


def _keep(content: RecordDict, context: Context) -> Answer:
    received = _read(content, Download)
    came = received.message
    _store(received, context).keep_download(came.round, came.data)
    return Taken(came.run, came.round)


def _read(content: RecordDict, kind: type[TrainOrder | Download]) -> Received:
    """What is asked; the words of another version are refused, not read as words of this one."""
    for record in content.config_records.values():
        spoken = record.get("format", FORMAT)
        if spoken != FORMAT:
            raise InputError(
                f"the server uses message format {spoken!r}, this node {FORMAT}: "
                "install the same version of mix2fld on both"
            )
    return unpack(content, kind)


def _data_file(context: Context) -> Path:
    named = context.node_config.get("data")
    if not isinstance(named, str) or not named:
        raise InputError('node config has no data: start the node with --node-config data="FILE"')
    return Path(named)


def _store(received: Received, context: Context) -> Store:
    named = context.node_config.get("state")
    root = Path(named) if isinstance(named, str) else user_state_path("mix2fld") / "deployment"
    return Store(root, received.message.run, received.fields["device"])
