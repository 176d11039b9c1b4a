"""The reply to one order, taken apart from whatever else nodes send to the server.

Any registered node may address a message to the server, and Flower hands it over with whatever is
pulled next; if one of them cannot be read, Flower drops them all. Here only the reply is read.
"""

from collections.abc import Callable

from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree
from flwr.proto.message_pb2 import Message as SentMessage
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.superlink.grid.http_grid import HttpGrid

Stray = Callable[[int], None]
"""Told the node that a message which answers no order names as its sender."""


def pull_reply(grid: Grid, order: str, stray: Stray) -> Message | None:
    """The reply to the order of this number; None if there is none yet.

    The SuperLink takes a reply only for the node that the order went to; nobody else knows its
    number. What a message says of itself counts only as far as the SuperLink has checked it.
    """
    if not isinstance(grid, HttpGrid):
        return _only_reply(list(grid.pull_messages([order])), order, stray)
    client = grid._runtime_client
    answer = client.PullMessages(PullAppMessagesRequest(message_ids=[order]))
    found: tuple[SentMessage, ObjectTree] | None = None
    for sent, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
        if sent.metadata.reply_to_message_id == order:
            found = sent, tree
        else:
            stray(sent.metadata.src_node_id)
            _confirm(grid, sent)
    return None if found is None else _read(grid, *found)


def _read(grid: HttpGrid, sent: SentMessage, tree: ObjectTree) -> Message:
    number = sent.metadata.message_id
    pull = make_pull_object_fn_protobuf(
        pull_object_protobuf=grid._runtime_client.PullObject,
        node=grid.node,
        run_id=grid.run.run_id,
    )
    contents = pull_objects([part.object_id for part in iterate_object_tree(tree)], pull)
    _confirm(grid, sent)
    read = inflate_object_from_contents(number, contents)
    if not isinstance(read, Message):
        raise TypeError(f"a {type(read).__name__}; must be a message")
    return read


def _confirm(grid: HttpGrid, sent: SentMessage) -> None:
    """Have the SuperLink forget it."""
    grid._runtime_client.ConfirmMessageReceived(
        ConfirmMessageReceivedRequest(
            node=grid.node, run_id=grid.run.run_id, message_object_id=sent.metadata.message_id
        )
    )


def _only_reply(messages: list[Message], order: str, stray: Stray) -> Message | None:
    found: Message | None = None
    for message in messages:
        if message.metadata.reply_to_message_id == order:
            found = message
        else:
            stray(message.metadata.src_node_id)
    return found
