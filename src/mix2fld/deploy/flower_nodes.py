"""Devices as Flower knows them: nodes whose keys are registered as ``device-<n>``."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
from flwr.app import Message, RecordDict
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree
from flwr.proto.message_pb2 import Message as SentMessage
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.superlink.grid.http_grid import HttpGrid

from mix2fld.base.errors import TransportLostError
from mix2fld.deploy.adding import RoundsAlone
from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.edge import messages
from mix2fld.deploy.edge.messages import Download, MessageError, TrainOrder
from mix2fld.deploy.edge.run_settings import DeviceRun, pack_run
from mix2fld.deploy.forms import ANSWERS, DOWNLOAD, TRAIN, from_record, to_record
from mix2fld.deploy.remote_fleet import Hear
from mix2fld.deploy.settings import config_digest
from mix2fld.engine.scenario import Scenario

POLL_S = 0.2
MOST_POLLS_S = 100.0
GRACE_S = 5.0  # an order must not expire while somebody waits for its answer
REACH_S = 15.0
"""Seconds that the SuperLink may take for a short answer, beyond which it is taken to be away."""
MOST_STRAYS, SLOW_POLL_S = 100, 2.0
"""Messages of a run that answer no order; from then on answers are looked for so rarely."""
NAME = re.compile(r"device-(\d+)")

Answer = RecordDict | str | httpx.HTTPError
Heard = SimpleQueue[tuple[str, Answer]]
"""(number of an order, the answer to it, or why there will be none)."""

Stray = Callable[[int], None]
"""Told the node that a message which answers no order names as its sender."""


class SuperLinkCall:
    """A call to the SuperLink, in a thread of its own: Flower repeats it until it succeeds."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._ended: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._run, args=(function,), daemon=True).start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._ended.put((function(), None))
        except BaseException as error:
            self._ended.put((None, error))

    def result(self, seconds: float) -> Any:
        """What it returned; raises ``Empty`` after so many seconds without an end."""
        value, error = self._ended.get(timeout=seconds)
        if isinstance(error, httpx.HTTPError):
            raise _lost(one_line(error))
        if error is not None:
            raise error
        return value


class FlowerExchange(NamedTuple):
    """An exchange: until when it waits, how often it looks, and what it has heard."""

    deadline: float
    pause: float
    heard: Heard
    over: threading.Event


class FlowerNodes(RoundsAlone):
    """Asks devices and hears their answers, each once and in time."""

    downloads_with_orders = True
    """A message costs a poll and a process, whatever it carries."""
    versions: Mapping[int, str] = MappingProxyType({})
    """Flower has no word for it; another version refuses, and says so."""

    def __init__(
        self, grid: Grid, scenario: Scenario, timeout_s: float, run: str, say: Say
    ) -> None:
        self._grid, self._devices = grid, scenario.devices
        learning, digest = scenario.learning, config_digest(scenario.config)
        self._settings = pack_run(DeviceRun(run, {}, learning.dims.samples, learning.task, digest))
        self.timeout_s, self._run, self._say = timeout_s, run, say
        self._unknown: set[int] = set()
        self._strays = Counter[int | None]()
        self._found: dict[int, int] = {}
        self._looking: SuperLinkCall | None = None

    def online(self) -> dict[int, int]:
        """The node of every device that is connected."""
        found: dict[int, int] = {}
        for node in sorted(self._nodes_now(), key=lambda node: node.node_id):
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

    def ask(
        self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear
    ) -> Mapping[int, str]:
        """Send each device its order and hear who answers before the time is over."""
        return self._exchange(TRAIN, round_number, orders, hear)

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """Send the download to each of these devices, and hear which have it."""
        orders = dict.fromkeys(sorted(devices), Download(self._run, round_number, data))
        self._exchange(DOWNLOAD, round_number, orders, hear)

    def _exchange(
        self,
        kind: str,
        round_number: int,
        orders: Mapping[int, TrainOrder | Download],
        hear: Hear,
    ) -> Mapping[int, str]:
        """A late answer, a second one, or one to another round's order finds nobody waiting."""
        asked: dict[str, tuple[int, int]] = {}
        failed: dict[int, str] = {}
        pause = max(POLL_S, len(orders) / MOST_POLLS_S)
        deadline = time.monotonic() + self.timeout_s
        waiting = FlowerExchange(deadline, pause, SimpleQueue(), threading.Event())

        def send(device: int, node: int | None, order: TrainOrder | Download) -> None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            number = None
            if node is not None:
                content = to_record(order, device=device, settings=self._settings)
                message = Message(
                    content, node, kind, ttl=left + GRACE_S, group_id=str(round_number)
                )
                number = self._push(message)
            if node is not None and number:
                asked[number] = device, node
                listening = (number, node, waiting)
                threading.Thread(target=self._listen, args=listening, daemon=True).start()
            else:
                self._say(f"round {round_number}: device {device} failed: it cannot be reached")

        try:
            for device, order in orders.items():
                send(device, self._found.get(device), order)
            if orders and not asked:
                raise TransportLostError("none of the devices that are to be asked can be reached")
            while asked and (found := self._next(waiting)) is not None:
                number, answer = found
                device, node = asked.pop(number)
                if isinstance(answer, httpx.HTTPError):
                    raise _lost(one_line(answer))
                if isinstance(answer, str):
                    failed[device] = answer
                    self._say(f"round {round_number}: device {device} failed: {answer}")
                elif (more := hear(device, _read(answer, kind))) is not None:
                    send(device, node, more)
        finally:
            waiting.over.set()
        for device in sorted(device for device, _ in asked.values()):
            self._say(
                f"round {round_number}: device {device} did not answer within {self.timeout_s:g} s"
            )
        return failed

    def _push(self, message: Message) -> str | None:
        """Hand an order to the SuperLink; returns its number, or None if it is not taken."""
        call = SuperLinkCall(lambda: list(self._grid.push_messages([message])))
        while True:
            try:
                numbers = call.result(REACH_S)
            except Empty:
                self._nodes_now()  # a large order takes its time; a SuperLink that is away does not
            else:
                return numbers[0] if numbers else None

    def _next(self, waiting: FlowerExchange) -> tuple[str, Answer] | None:
        """What is heard next; None when the time is over. Looks after a SuperLink that is silent.

        The time is not over, but the transport lost, if the SuperLink is away in the end.
        """
        while True:
            left = waiting.deadline - time.monotonic()
            try:
                return waiting.heard.get(timeout=max(0.0, min(left, REACH_S)))
            except Empty:
                self._nodes_now()
                if left <= REACH_S:
                    return None

    def _nodes_now(self) -> list[Any]:
        """All nodes that are connected; raises ``TransportLostError`` if the SuperLink is away."""
        self._looking = self._looking or SuperLinkCall(lambda: list(self._grid.get_nodes()))
        try:
            found: list[Any] = self._looking.result(REACH_S)
        except Empty:  # the call may yet succeed, and is waited for again
            raise _lost(f"no answer in {REACH_S:g} s") from None
        except BaseException:
            self._looking = None
            raise
        self._looking = None
        return found

    def _listen(self, number: str, node: int, waiting: FlowerExchange) -> None:
        """Wait for the answer to one order, in a thread of its own.

        Flower shows an answer as soon as it begins to come in, and then waits for all of it, for
        hours if its device is gone: nobody else must wait for it.
        """
        answer: Answer | None = None
        while answer is None and time.monotonic() < waiting.deadline and not waiting.over.is_set():
            try:
                answer = self._answer_to(number, node)
            except httpx.HTTPError as error:
                answer = error
            if answer is None:
                flooded = self._strays.total() > MOST_STRAYS
                waiting.over.wait(max(waiting.pause, SLOW_POLL_S) if flooded else waiting.pause)
        if answer is not None:
            waiting.heard.put((number, answer))

    def _answer_to(self, number: str, node: int) -> Answer | None:
        """The answer to one order, or why there will be none; None if it has not arrived."""
        try:
            reply = pull_reply(self._grid, number, self._say_stray)
        except httpx.HTTPError:
            raise
        except Exception as error:
            return f"its answer cannot be read ({one_line(error)})"
        if reply is None:
            return None
        if reply.has_error():
            return one_line(reply.error.reason)
        if reply.metadata.src_node_id != node:
            return f"its answer says that it is from node {reply.metadata.src_node_id}"
        return reply.content

    def _say_stray(self, node: int) -> None:
        """Once for each node that is connected: nobody fills the diary with it."""
        device = next((device for device, known in self._found.items() if known == node), None)
        self._strays[device] += 1
        sender = "which the SuperLink does not name" if device is None else f"device {device}"
        if self._strays[device] == 1:
            self._say(f"a message that answers no order is left out; its sender: {sender}")
        if self._strays.total() == MOST_STRAYS + 1:
            self._say(
                f"a flood: more than {MOST_STRAYS} messages that answer no order; the last one's "
                f"sender: {sender}. Answers are looked for more rarely",
                "flood",
                device=device,
            )


def _read(content: RecordDict, kind: str) -> messages.Answer | MessageError:
    """An answer to an order of this kind, or why it is none."""
    try:
        answer: messages.Answer = from_record(content, *ANSWERS[kind])[0]
        return answer
    except MessageError as error:
        return error


def _lost(why: str) -> TransportLostError:
    return TransportLostError(f"the SuperLink cannot be reached ({why})")


def pull_reply(grid: Grid, order: str, stray: Stray) -> Message | None:
    """The reply to the order of this number; None if there is none yet.

    Any registered node may address a message to the server, and Flower hands it over with whatever
    is pulled next; if one of them cannot be read, Flower drops them all. Here only the reply is
    read. The SuperLink takes it only for the node that the order went to; nobody else knows its
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
    return None if found is None else _inflated(grid, *found)


def _inflated(grid: HttpGrid, sent: SentMessage, tree: ObjectTree) -> Message:
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
