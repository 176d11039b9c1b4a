"""Devices as a broker knows them: clients whose certificates have device numbers for names."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from mix2fld.base.errors import Mix2fldError
from mix2fld.deploy.diary import Say
from mix2fld.deploy.edge import messages, topics
from mix2fld.deploy.edge.line import Line
from mix2fld.deploy.edge.messages import Download, MessageError, Order, pack, read_head
from mix2fld.deploy.messages import AnyWire, TrainOrder, held_to_form
from mix2fld.deploy.remote_fleet import Hear

RESEND_S = 30.0
"""Seconds after which an order that is not answered is sent again."""
GRACE_S = 5.0  # an order must not expire while somebody waits for its answer
MOST_MESSAGES = 100
"""Messages of one device in one exchange, beyond which it is said to flood."""
Send = Callable[[int, float], None]
"""Sends one device what it is asked, to expire after so many seconds."""
Event = tuple[str, int, bytes]
"""(connected | online | answer, device, payload)."""


class Exchange(NamedTuple):
    """A question to some devices."""

    number: int
    kinds: str
    """The letters of the answers to it."""
    lost_by: frozenset[bytes]
    """A device with such a presence has lost what it was sent."""
    send: Send
    answered: Callable[[int, Any], bool]
    """Takes an answer; False if the device is asked once more."""


class MqttNodes:
    """Asks devices and hears their answers, each once and in time."""

    downloads_with_orders = False
    """One message reaches all."""

    def __init__(
        self, devices: int, timeout_s: float, run: str, say: Say, starts: Callable[[int], bytes],
        epoch: int = 1,
    ) -> None:  # fmt: skip
        """``starts`` tells a device that cannot draw its initial weights what they are.

        ``epoch`` counts the starts of the server: devices ignore orders of an earlier one.
        """
        self._devices, self.timeout_s, self._run, self._say = devices, timeout_s, run, say
        self._epoch, self._starts = epoch, starts
        self._line: Line | None = None
        self._settings = b""
        self._online: set[int] = set()
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._last: tuple[int, bytes] | None = None
        self._has: dict[int, int] = {}
        self._fault: Mix2fldError | None = None

    def begin(self, line: Line, settings: bytes, first: bool) -> None:
        """Make the run known to all devices; ``first`` if it has no round yet."""
        self._line, self._settings = line, settings
        if first:
            line.publish(topics.DOWNLOAD, b"", qos=1, retain=True)  # of an older run
        line.publish(topics.SETTINGS, settings, qos=1, retain=True)

    def connected(self, line: Line, resumed: bool) -> None:
        """The broker is there, or there again: perhaps without what it was told."""
        del resumed
        line.subscribe(topics.presence("+"), qos=1, again=True)
        line.subscribe(topics.uploads("+"), qos=1)
        if self._line is not None:
            line.publish(topics.SETTINGS, self._settings, qos=1, retain=True)
        if self._last is not None:
            message = pack(Download(self._run, *self._last))
            line.publish(topics.DOWNLOAD, message, qos=0, retain=True)
        self._events.put(("connected", -1, b""))

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Someone came, went or answered."""
        del line
        kind, _, name = topic.partition("/")
        if not name.isdecimal() or not int(name) < self._devices:
            return
        device = int(name)
        if kind == "u":
            self._events.put(("answer", device, payload))
        elif payload:
            self._online.add(device)
            self._events.put(("online", device, payload))
        else:
            self._online.discard(device)

    def fail(self, error: Mix2fldError) -> None:
        """The broker refuses the server: whoever waits is told."""
        self._fault = error
        self._events.put(("fault", -1, b""))

    def wait_for(self, devices: int, seconds: float) -> Collection[int]:
        """The devices that are connected as soon as there are that many, or after that time."""
        deadline = time.monotonic() + seconds
        while len(self._online) < devices and (left := deadline - time.monotonic()) > 0:
            with suppress(Empty):
                self._events.get(timeout=left)
            self._check()
        return set(self._online)

    def ask(self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear) -> None:
        """Send each device its order and hear who answers before the time is over."""
        asked, restarted = dict(orders), frozenset([topics.HERE])
        starts: dict[int, bytes] = {}

        def send(device: int, left: float) -> None:
            message = pack(self._order(asked[device], starts.get(device)))
            self._publish(topics.orders(device), message, expires_s=left + GRACE_S)

        def answered(device: int, content: Any) -> bool:
            if isinstance(content, messages.Behind):
                self._has[device] = content.has
                if content.needs_start and device not in starts:
                    starts[device] = self._starts(device)
                    return False
            again = hear(device, content)
            if again is not None:
                asked[device] = again
            return again is None

        self._empty()
        for device in sorted(asked):
            send(device, self.timeout_s)
        self._exchange(Exchange(round_number, "TBR", restarted, send, answered), set(orders))

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """One message to all; whoever does not confirm it in time gets a copy of its own."""
        message = pack(Download(self._run, round_number, data))
        self._last, anyone = (round_number, data), frozenset([topics.HERE, topics.HERE_AGAIN])
        self._empty()
        self._publish(topics.DOWNLOAD, message, qos=0, retain=True)

        def send(device: int, left: float) -> None:
            self._publish(topics.orders(device), message, expires_s=left + GRACE_S)

        def answered(device: int, content: Any) -> bool:
            hear(device, content)
            return True

        self._exchange(Exchange(round_number, "KR", anyone, send, answered), set(devices))

    def read(self, content: Any, *kinds: type[AnyWire]) -> AnyWire:
        """An answer; raises ``MessageError`` unless it is of one of ``kinds``."""
        if isinstance(content, MessageError):
            raise content
        kind = next(kind for kind in kinds if kind.__name__ == type(content).__name__)
        known = kind.model_fields
        fields = {name: value for name, value in content._asdict().items() if name in known}
        return held_to_form(kind, fields)

    def _exchange(self, exchange: Exchange, waiting: set[int]) -> None:
        """Hear these devices; what seems lost is sent again, ever more rarely."""
        number, deadline = exchange.number, time.monotonic() + self.timeout_s
        pause = min(RESEND_S, self.timeout_s / 4)
        again, counts = time.monotonic() + pause, Counter[int]()

        def send_to(devices: Collection[int]) -> None:
            for device in sorted(devices):
                exchange.send(device, deadline - time.monotonic())

        while waiting and (left := deadline - time.monotonic()) > 0:
            try:
                patience = max(0.0, min(left, again - time.monotonic()))
                kind, device, payload = self._events.get(timeout=patience)
            except Empty:
                pause *= 2
                again = time.monotonic() + pause
                send_to(waiting & self._online)
                continue
            self._check()
            if kind == "connected":
                send_to(waiting)
            elif kind == "online" and device in waiting and payload in exchange.lost_by:
                send_to([device])
            elif kind == "answer":
                counts[device] += 1
                if counts[device] == MOST_MESSAGES:
                    self._say(f"round {number}: device {device} floods: {MOST_MESSAGES} messages")
                if device not in waiting or (content := self._opened(payload, exchange)) is None:
                    continue
                if exchange.answered(device, content):
                    waiting.discard(device)
                else:
                    send_to([device])
        for device in sorted(waiting):
            self._say(f"round {number}: device {device} did not answer within {self.timeout_s:g} s")

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _empty(self) -> None:
        """What happened before a question is no answer to it."""
        with suppress(Empty):
            while True:
                self._events.get_nowait()

    def _opened(self, payload: bytes, exchange: Exchange) -> Any:
        """An answer of this run, round and kind; None for a replay; an error for what is none."""
        try:
            head = read_head(payload)
            if head.run != self._run or head.round != exchange.number:
                return None
            if head.kind not in exchange.kinds:
                return None
            return messages.unpack(payload)
        except MessageError as error:
            return error

    def _order(self, order: TrainOrder, start: bytes | None) -> Order:
        """The order as it goes over the wire: a download that the device heard is only named."""
        heard, download = 0, order.download
        if download is not None and self._last is not None and download == self._last[1]:
            known = self._has.get(order.device) == self._last[0] if order.catch_up else True
            if known:
                heard, download = self._last[0], None
        return Order(
            run=order.run,
            round=order.round,
            epoch=self._epoch,
            uploaded=order.uploaded,
            last_turn=order.last_turn,
            watched=order.watched,
            catch_up=order.catch_up,
            bit_budget=order.bit_budget,
            heard=heard,
            start=start,
            download=download,
        )

    def _publish(
        self, topic: str, message: bytes, *, qos: int = 1, retain: bool = False,
        expires_s: float | None = None,
    ) -> None:  # fmt: skip
        if self._line is None:
            raise ValueError("the run has not begun")
        self._line.publish(topic, message, qos=qos, retain=retain, expires_s=expires_s)
