"""Devices as Flower knows them: nodes whose keys are registered as ``device-<n>``."""

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from queue import Empty, SimpleQueue

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.messages import (
    DOWNLOAD,
    FORMAT,
    TRAIN,
    AnyWire,
    Download,
    TrainOrder,
    Wire,
    unpack,
)

POLL_S = 0.2
MOST_POLLS_S = 100.0
GRACE_S = 5.0  # an order must not expire while somebody waits for its answer
NAME = re.compile(r"device-(\d+)")

Hear = Callable[[int, RecordDict], TrainOrder | None]
"""(device, what it answered) -> what it is asked next in this round, if anything."""
Heard = SimpleQueue[tuple[str, RecordDict | str | httpx.HTTPError]]
"""(number of an order, the answer to it, or why there will be none)."""


class Nodes:
    """Asks devices and hears their answers, each once and in time."""

    downloads_with_orders = True
    """A message costs a poll and a process, whatever it carries."""

    def __init__(self, grid: Grid, devices: int, timeout_s: float, run: str, say: Say) -> None:
        self._grid, self._devices = grid, devices
        self.timeout_s, self._run, self._say = timeout_s, run, say
        self._unknown: set[int] = set()
        self._found: dict[int, int] = {}

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
        self._found = found
        return found

    def ask(self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear) -> None:
        """Send each device its order and hear who answers before the time is over."""
        self._exchange(TRAIN, round_number, orders, hear)

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """Send the download to each of these devices, and hear which have it."""
        orders = {
            device: Download(
                format=FORMAT, run=self._run, device=device, round=round_number, data=data
            )
            for device in sorted(devices)
        }
        self._exchange(DOWNLOAD, round_number, orders, hear)

    def read(self, content: RecordDict, *kinds: type[AnyWire]) -> AnyWire:
        """An answer; raises ``MessageError`` unless it is of one of ``kinds``."""
        return unpack(content, *kinds)

    def _exchange(
        self, kind: str, round_number: int, orders: Mapping[int, Wire], hear: Hear
    ) -> None:
        """A late answer, a second one, or one to another round's order finds nobody waiting."""
        deadline = time.monotonic() + self.timeout_s
        pause = max(POLL_S, len(orders) / MOST_POLLS_S)
        waiting: dict[str, tuple[int, int]] = {}
        heard: Heard = SimpleQueue()

        def send(device: int, node: int, order: Wire) -> None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            ttl = left + GRACE_S
            message = Message(order.pack(), node, kind, ttl=ttl, group_id=str(round_number))
            numbers = list(self._grid.push_messages([message]))
            if numbers and numbers[0]:
                waiting[numbers[0]] = device, node
                listening = (numbers[0], deadline, pause, heard)
                threading.Thread(target=self._listen, args=listening, daemon=True).start()
            else:
                self._say(f"round {round_number}: device {device} failed: it cannot be reached")

        for device, order in orders.items():
            send(device, self._found[device], order)
        while waiting and (left := deadline - time.monotonic()) > 0:
            try:
                number, answer = heard.get(timeout=left)
            except Empty:
                break
            device, node = waiting.pop(number)
            if isinstance(answer, httpx.HTTPError):
                raise answer
            if isinstance(answer, str):
                self._say(f"round {round_number}: device {device} failed: {answer}")
            elif (more := hear(device, answer)) is not None:
                send(device, node, more)
        for device, _ in sorted(waiting.values()):
            self._say(
                f"round {round_number}: device {device} did not answer within {self.timeout_s:g} s"
            )

    def _listen(self, number: str, deadline: float, pause: float, heard: Heard) -> None:
        """Wait for the answer to one order, in a thread of its own.

        Flower shows an answer as soon as it begins to come in, and then waits for all of it, for
        hours if its device is gone: nobody else must wait for it.
        """
        answer: RecordDict | str | httpx.HTTPError | None = None
        while answer is None and time.monotonic() < deadline:
            try:
                answer = self._answer_to(number)
            except httpx.HTTPError as error:
                answer = error
            if answer is None:
                time.sleep(pause)
        if answer is not None:
            heard.put((number, answer))

    def _answer_to(self, number: str) -> RecordDict | str | None:
        """The answer to one order, or why there will be none; None if it has not arrived."""
        try:
            replies = list(self._grid.pull_messages([number]))
        except httpx.HTTPError:
            raise
        except Exception as error:
            return f"its answer cannot be read ({one_line(error)})"
        if not replies:
            return None
        return one_line(replies[0].error.reason) if replies[0].has_error() else replies[0].content
