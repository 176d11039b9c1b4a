"""The ClientApp: a device of mix2fld, which finds its samples by the partition of its node."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from mix2fld.deploy import client_app as device
from mix2fld_flower.dataset import client_folder, samples_of
from mix2fld_flower.settings import settings_of

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Local steps, then the upload: mean outputs, at first with mixed-up seed samples."""
    return device.train(message, _placed(context))


@app.query("download")
def download(message: Message, context: Context) -> Message:
    """Keep the global weights for the next round."""
    return device.download(message, _placed(context))


@app.query("partition")
def partition(message: Message, context: Context) -> Message:
    """Tell the server which part of the data this node has."""
    record = ConfigRecord({"partition": int(context.node_config["partition-id"])})
    return Message(RecordDict({"partition": record}), reply_to=message)


def _placed(context: Context) -> Context:
    """The context as mix2fld's own ClientApp reads it: where samples and state are."""
    settings = settings_of(context.run_config)
    number = int(context.node_config["partition-id"])
    split = settings.config, number, str(context.run_config["partitioner"])
    places = {"data": str(samples_of(*split)), "state": str(client_folder(*split) / "state")}
    return Context(
        run_id=context.run_id,
        node_id=context.node_id,
        node_config={**context.node_config, **places},
        state=context.state,
        run_config=settings.as_run_config(),
    )
