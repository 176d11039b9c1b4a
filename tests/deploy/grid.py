"""Flower without its processes: messages go straight from the server app to the client app."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

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
    poison: int = 0
    """Pulls that take an answer along with a message that cannot be read."""

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
        if found and self.poison:
            self.poison -= 1
            raise ValueError("no such record")
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
