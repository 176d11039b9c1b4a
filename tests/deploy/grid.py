"""Flower without its processes: messages go straight from the server app to the client app."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from mix2fld.deploy.client_app import app

Client = Callable[[Message, Context], Message]


@dataclass
class InProcessGrid:
    """As much of Flower's ``Grid`` as the server uses; every device answers at once."""

    node_configs: dict[int, dict[str, str]]
    run_config: dict[str, object]
    client: Client = app
    replies: dict[str, Message] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    hanging: set[int] = field(default_factory=set)
    """Devices whose answers begin to come in and then never end."""
    is_away: Callable[[int], bool] = lambda device: False
    superlink_is_away: Callable[[], bool] = lambda: False
    """Flower's calls are repeated until it is back."""
    refuses: Callable[[int], bool] = lambda device: False
    """Devices whose orders the SuperLink does not take."""

    strays: list[Message] = field(default_factory=list)
    """Messages of nodes that answer nothing, which come with whatever is asked for first."""
    stuck: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

    def get_nodes(self) -> Iterable[SimpleNamespace]:
        self._reach()
        for device in self.node_configs:
            if not self.is_away(device):
                name = self.names.get(device, f"device-{device}")
                yield SimpleNamespace(node_id=100 + device, name=name)

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        self._reach()
        return [
            None if self.refuses(message.metadata.dst_node_id - 100) else self._deliver(message)
            for message in messages
        ]

    def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
        self._reach()
        numbers = list(numbers)
        if self.stuck.intersection(numbers):
            Event().wait()
        found = [self.replies.pop(number) for number in numbers if number in self.replies]
        strays, self.strays[:] = list(self.strays), []
        return [*strays, *found]

    def _reach(self) -> None:
        while self.superlink_is_away():
            time.sleep(0.05)

    def _deliver(self, message: Message) -> str:
        number = uuid4().hex
        message.metadata.__dict__["_message_id"] = number
        node = message.metadata.dst_node_id
        if node - 100 in self.hanging:
            self.stuck.add(number)
        context = Context(
            run_id=1,
            node_id=node,
            node_config=self.node_configs[node - 100],
            state=RecordDict(),
            run_config=self.run_config,
        )
        try:
            self.replies[number] = self.client(message, context)
        except RuntimeError as error:
            self.replies[number] = Message(Error(0, str(error)), reply_to=message)
        return number


class SpokenGrid(HttpGrid):
    """Flower's own grid, which speaks to a SuperLink that is an ``InProcessGrid``."""

    def __init__(self, grid: InProcessGrid, unreadable: int) -> None:
        """With each pull come so many messages that cannot be read."""
        super().__init__(token="none")
        self.grid, self.unreadable, self.objects = grid, unreadable, {}
        self.confirmed: list[str] = []
        self.set_run(Run.create_empty(run_id=1))
        self._client = self
        self.get_nodes, self.push_messages = grid.get_nodes, grid.push_messages

    def PullMessages(self, request) -> PullAppMessagesResponse:  # noqa: N802
        messages = self.grid.pull_messages(request.message_ids)
        response = PullAppMessagesResponse()
        for index, message in enumerate([*messages, *map(self._junk, range(self.unreadable))]):
            message.metadata.__dict__["_message_id"] = number = message.object_id
            for name, part in get_all_nested_objects(message).items():
                self.objects[name] = part.deflate() if index < len(messages) else b"?"
            sent = message_to_proto(remove_content_from_message(message))
            assert sent.metadata.message_id == number
            response.messages_list.append(sent)
            response.message_object_trees.append(get_object_tree(message))
        return response

    def PullObject(self, request) -> PullObjectResponse:  # noqa: N802
        content = self.objects[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request) -> None:  # noqa: N802
        self.confirmed.append(request.message_object_id)

    @staticmethod
    def _junk(index: int) -> Message:
        junk = Message(RecordDict(), dst_node_id=1, message_type=f"train.n{index}")
        junk.metadata.__dict__["_src_node_id"] = 103
        return junk
