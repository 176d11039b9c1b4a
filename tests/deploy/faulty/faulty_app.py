"""The real app, but a device whose node config has a ``fault`` misbehaves in the rounds it names.

``fault="1:nan 3:late"`` spoils the upload of round 1 and answers late in round 3; round 0 is every
round. The server is the real one, with a guard that ends it if anything is unpickled.
"""

import pickle
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_object import no_object_id_recompute

from mix2fld.deploy import client_app, server_app
from mix2fld.deploy.edge.messages import Trained, TrainOrder
from mix2fld.deploy.forms import from_record, to_record

client = ClientApp()
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    def no_pickles(event: str, _arguments: object) -> None:
        if event == "pickle.find_class":
            raise RuntimeError("something was unpickled")

    sys.addaudithook(no_pickles)
    server_app.app(grid, context)


@client.query("download")
def download(message: Message, context: Context) -> Message:
    return client_app.download(message, context)


@client.train()
def train(message: Message, context: Context) -> Message:
    order: TrainOrder = from_record(message.content, TrainOrder)[0]
    faults = dict(part.split(":") for part in str(context.node_config.get("fault", "")).split())
    fault = faults.get(str(order.round)) or faults.get("0")
    if fault == "hang":
        mark(context, order)
        time.sleep(3600)
    reply = client_app.train(message, context)
    if fault is None:
        return reply
    trained: Trained = from_record(reply.content, Trained)[0]
    if fault == "late":
        time.sleep(float(str(context.node_config["late_s"])))
    elif fault == "fails":
        raise RuntimeError("out of coffee")
    elif fault == "stranger":
        stranger = RecordDict({"Stranger": ConfigRecord({"upload": trained.upload})})
        return Message(stranger, reply_to=message)
    elif fault == "speaks":
        for number in range(40):
            push_order_of_its_own(message, context, spoilt(trained, "zeros"), number)
        mark(context, order)
    elif fault == "twice":
        push_another(message, context, spoilt(trained, "old-round"))
        mark(context, order)
    else:
        trained = spoilt(trained, fault)
    return Message(to_record(trained), reply_to=message)


def spoilt(trained: Trained, fault: str) -> Trained:
    """What a hostile device would send instead."""
    upload = trained.upload
    outputs = np.frombuffer(upload[:64], "<f4").copy()  # 4 labels: 4 rows of 4
    rest = upload[64:]  # none, unless these are weights
    uploads = {
        "nan": np.full_like(outputs, np.nan).tobytes() + rest,
        "infinite": np.full_like(outputs, np.inf).tobytes() + rest,
        "negative": np.array([-1, 2, 0, 0] * 4, "<f4").tobytes() + rest,
        "not-one": (outputs / 2).tobytes() + rest,
        "wrong-labels": np.full((5, 5), 0.2, "<f4").tobytes() + rest,
        "wrong-shape": outputs[:12].tobytes(),
        "oversized": upload + bytes(100_000),
        "truncated": upload[:-3],
        "nothing": b"",
        "pickle": pickle.dumps(Evil()),
    }
    seeds = trained.seeds or bytes(100)
    weights = np.frombuffer(upload[: len(upload) // 4 * 4], "<f4")
    others = {
        "flipped": {"upload": (-10 * weights).astype("<f4").tobytes()},
        "enlarged": {"upload": (1e5 * weights).astype("<f4").tobytes()},
        "equal": {"upload": np.full_like(weights, 9e5).tobytes()},
        "zeros": {"upload": bytes(len(upload)), "samples": 1 << 31},
        "fewer-bits": {"padding": 5},
        "oversized-bits": {"upload": bytes(100_000), "padding": 0},
        "no-seeds": {"seeds": None},
        "seeds": {"seeds": seeds},
        "long-seeds": {"seeds": seeds + b"0"},
        "short-seeds": {"seeds": seeds[:-1]},
        "pickled-seeds": {"seeds": pickle.dumps(Evil())},
    }
    if fault in others:
        return trained._replace(**others[fault])
    if fault in uploads:
        return trained._replace(upload=uploads[fault])
    changes = {
        "old-round": {"round": trained.round - 1},
        "boast": {"scores": [7.0] * len(trained.scores)},
        "slow": {"seconds": 1e6},
        "rich": {"samples": (1 << 32) - 1},
        "chatter": {"scores": [0.5] * 1000},
    }
    return trained._replace(**changes[fault])


class Evil:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("open('/tmp/mix2fld-was-here', 'w')",)


def mark(context: Context, order: TrainOrder) -> None:
    """Leave a sign that the fault has happened."""
    Path(str(context.node_config["mark"])).write_text(str(order.round))


def push_another(message: Message, context: Context, trained: Trained) -> None:
    """Push a second answer to an order."""
    reply = Message(to_record(trained), reply_to=message)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    push(message, context, reply)


def push_order_of_its_own(
    message: Message, context: Context, trained: Trained, number: int
) -> None:
    """Push an upload that answers nothing, or what cannot be read, as if the SuperLink sent it."""
    order = Message(to_record(trained), dst_node_id=1, message_type=f"train.n{number}")
    order.metadata.__dict__["_src_node_id"] = 1
    if number % 2:
        order.deflate = partial(unreadable, bytes(order.deflate()))  # type: ignore[method-assign]
    with no_object_id_recompute():
        order.metadata.__dict__["_message_id"] = order.object_id
        push(message, context, order)


def unreadable(content: bytes) -> bytes:
    """An object with a body that nobody can read."""
    head, body = content.split(b"\0", 1)
    return head + b"\0" + bytes(len(body))


def push(message: Message, context: Context, reply: Message) -> None:
    """Push a message of one's own over the Fleet API, past the SuperNode."""
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.message_pb2 import PushObjectRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
    )
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    config = {name: str(value) for name, value in context.node_config.items()}
    private = load_ssh_private_key(Path(config["key"]).read_bytes(), None)
    node = Node(node_id=context.node_id)
    with FleetHttpClient.from_server_address(
        config["superlink"],
        insecure=False,
        root_certificates=config["ca"],
        interceptors=[NodeAuthHttpInterceptor(private, private.public_key())],
    ) as fleet:
        answer = fleet.PushMessages(
            PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
                clientapp_runtime_list=[0.0],
            )
        )
        objects = get_all_nested_objects(reply)
        for number in answer.objects_to_push:
            fleet.PushObject(
                PushObjectRequest(
                    node=node,
                    run_id=message.metadata.run_id,
                    object_id=number,
                    object_content=objects[number].deflate(),
                    session_id=answer.session_id,
                )
            )
