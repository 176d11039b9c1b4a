"""The Flower ClientApp: a message starts a process that does one thing and ends.

The node config says where the device's samples are (``data``, an .npz file) and, if need be, where
it keeps its state (``state``, a folder). Which device it is, the server knows from the name that
its key was registered under.
"""

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from platformdirs import user_state_path

from mix2fld.deploy.messages import FORMAT, Download, MessageError, Refused, Taken, TrainOrder, Wire
from mix2fld.deploy.settings import read_settings
from mix2fld.deploy.store import Store
from mix2fld.errors import InputError

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a local phase and answer with the upload."""
    from mix2fld.link.payload import PayloadError  # brings JAX, which a download does without

    try:
        answer = _train(TrainOrder.unpack(message.content), context)
    except (InputError, MessageError, PayloadError) as error:
        answer = Refused(reason=str(error))
    return Message(answer.pack(), reply_to=message)


@app.query("download")
def download(message: Message, context: Context) -> Message:
    """Keep what came down; it is used in the next local phase."""
    try:
        answer = _keep(Download.unpack(message.content), context)
    except (InputError, MessageError) as error:
        answer = Refused(reason=str(error))
    return Message(answer.pack(), reply_to=message)


def _train(order: TrainOrder, context: Context) -> Wire:
    from mix2fld.deploy.device import train as local_train

    _check_format(order.format)
    config = read_settings(context.run_config).config
    return local_train(order, config, _data_file(context), _store(order, context))


def _keep(came: Download, context: Context) -> Wire:
    _check_format(came.format)
    _store(came, context).keep_download(came.round, came.data)
    return Taken(round=came.round)


def _check_format(spoken: int) -> None:
    if spoken != FORMAT:
        raise InputError(
            f"the server speaks message format {spoken}, this node {FORMAT}: "
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
