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

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.deploy.edge.messages import MessageError
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.messages import FORMAT, Download, Refused, Taken, TrainOrder, Wire
from mix2fld.deploy.settings import config_digest, read_settings
from mix2fld.engine.checks import DivergedError

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a local phase and answer with the upload."""
    return _answer(message, lambda: _train(message.content, context))


@app.query("download")
def download(message: Message, context: Context) -> Message:
    """Keep what came down; it is used in the next local phase."""
    return _answer(message, lambda: _keep(message.content, context))


def _answer(message: Message, work: Callable[[], Wire]) -> Message:
    """What a device answers; if it cannot do what it was asked, why."""
    try:
        answer = work()
    except (Mix2fldError, MessageError) as error:
        answer = Refused(reason=str(error), diverged=isinstance(error, DivergedError))
    except OSError as error:
        answer = Refused(reason=f"a file cannot be used: {error}")
    return Message(answer.pack(), reply_to=message)


def _train(content: RecordDict, context: Context) -> Wire:
    from mix2fld.codecs import PayloadError
    from mix2fld.deploy.device import train as local_train  # brings JAX

    _check_format(content)
    order = TrainOrder.unpack(content)
    config = read_settings(context.run_config).config
    if order.config != config_digest(config):
        raise InputError(
            "the settings of this node, with its defaults, are not those of the server: "
            "install the same version of mix2fld on both"
        )
    try:
        return local_train(order, config, _data_file(context), _store(order, context))
    except PayloadError as error:
        raise MessageError(str(error)) from None


def _keep(content: RecordDict, context: Context) -> Wire:
    _check_format(content)
    came = Download.unpack(content)
    _store(came, context).keep_download(came.round, came.data)
    return Taken(round=came.round)


def _check_format(content: RecordDict) -> None:
    """Refuse the words of another version before they are read as words of this one."""
    for record in content.config_records.values():
        spoken = record.get("format", FORMAT)
        if spoken != FORMAT:
            raise InputError(
                f"the server uses message format {spoken!r}, this node {FORMAT}: "
                "install the same version of mix2fld on both"
            )


def _data_file(context: Context) -> Path:
    named = context.node_config.get("data")
    if not isinstance(named, str) or not named:
        raise InputError('node config has no data: start the node with --node-config data="FILE"')
    return Path(named)


def _store(order: TrainOrder | Download, context: Context) -> Store:
    named = context.node_config.get("state")
    root = Path(named) if isinstance(named, str) else user_state_path("mix2fld") / "deployment"
    return Store(root, order.run, order.device)
