"""The devices as the server sees them: Flower nodes whose keys are registered as ``device-<n>``."""

import re
import time
from collections.abc import Callable, Mapping

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from mix2fld.deploy.messages import Wire

POLL_S = 0.2
GRACE_S = 5.0  # an order must not expire while somebody waits for its answer
NAME = re.compile(r"device-(\d+)")

Hear = Callable[[int, RecordDict], Wire | None]
"""(device, what it answered) -> what it is asked next in this round, if anything."""
Say = Callable[[str], None]


class Fleet:
    """Asks devices and hears their answers, each once and in time."""

    def __init__(self, grid: Grid, devices: int, timeout_s: float, say: Say) -> None:
        self._grid, self._devices = grid, devices
        self.timeout_s, self._say = timeout_s, say
        self._unknown: set[int] = set()

    def online(self) -> dict[int, int]:
        """The node of every device that is connected."""
        found: dict[int, int] = {}
        for node in sorted(self._grid.get_nodes(), key=lambda node: node.node_id):
            match = NAME.fullmatch(node.name)
            device = int(match.group(1)) if match else -1
            if 0 <= device < self._devices and device not in found:
                found[device] = node.node_id
            elif node.node_id not in self._unknown:
                self._unknown.add(node.node_id)
                self._say(
                    f"node {node.node_id} is left out: registered as {node.name!r}; must be "
                    f"device-0 to device-{self._devices - 1}, each once"
                )
        return found

    def wait_for(self, devices: int, seconds: float) -> dict[int, int]:
        """The devices that are connected as soon as there are that many, or after that time."""
        deadline = time.monotonic() + seconds
        while len(found := self.online()) < devices and time.monotonic() < deadline:
            time.sleep(POLL_S * 5)
        return found

    def ask(
        self, kind: str, round_number: int, orders: Mapping[int, tuple[int, Wire]], hear: Hear
    ) -> None:
        """Send each device its order and hear who answers before the time is over.

        ``orders`` has node and order of every device. A late answer, a second one, or one to
        another round's order finds nobody waiting for it.
        """
        deadline = time.monotonic() + self.timeout_s
        waiting: dict[str, tuple[int, int]] = {}

        def send(device: int, node: int, order: Wire) -> None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            ttl = left + GRACE_S
            message = Message(order.pack(), node, kind, ttl=ttl, group_id=str(round_number))
            numbers = list(self._grid.push_messages([message]))
            if numbers and numbers[0]:
                waiting[numbers[0]] = device, node
            else:
                self._say(f"round {round_number}: device {device} failed: it cannot be reached")

        for device, (node, order) in orders.items():
            send(device, node, order)
        while waiting and time.monotonic() < deadline:
            for number in list(waiting):
                if (answer := self._answer_to(number)) is None:
                    continue
                device, node = waiting.pop(number)
                if isinstance(answer, str):
                    self._say(f"round {round_number}: device {device} failed: {answer}")
                elif (more := hear(device, answer)) is not None:
                    send(device, node, more)
            time.sleep(POLL_S if len(waiting) < 20 else 5 * POLL_S)
        for device, _ in sorted(waiting.values()):
            self._say(
                f"round {round_number}: device {device} did not answer within {self.timeout_s:g} s"
            )

    def _answer_to(self, number: str) -> RecordDict | str | None:
        """The answer to one order, or why there will be none; None if it is not there yet.

        One at a time, because an answer that Flower cannot read must not take others with it.
        """
        try:
            replies = list(self._grid.pull_messages([number]))
        except httpx.HTTPError:
            raise
        except Exception as error:
            return f"its answer cannot be read ({_one_line(error)})"
        if not replies:
            return None
        return _one_line(replies[0].error.reason) if replies[0].has_error() else replies[0].content


def _one_line(reason: object) -> str:
    return " ".join(str(reason).split())[:300]
