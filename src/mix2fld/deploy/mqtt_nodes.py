"""Devices as a broker knows them: clients whose certificates have device numbers for names."""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from mix2fld import __version__
from mix2fld.base.errors import Mix2fldError, TransportLostError
from mix2fld.deploy.adding import HearSum
from mix2fld.deploy.device_settings import initial_weights, run_settings
from mix2fld.deploy.diary import Say
from mix2fld.deploy.edge import topics
from mix2fld.deploy.edge.line import Line
from mix2fld.deploy.edge.messages import (
    FORMAT,
    KINDS,
    Answer,
    Behind,
    Download,
    MessageError,
    SumAnswer,
    SumOrder,
    TrainOrder,
    pack,
    read_head,
)
from mix2fld.deploy.forms import ANSWERS, DOWNLOAD, SUM, TRAIN, read
from mix2fld.deploy.inbox import MOST_AT_ONCE, Allowances, Event, Inbox
from mix2fld.deploy.remote_fleet import Hear
from mix2fld.engine.scenario import Scenario
from mix2fld.runs.fleet_status import VERSION

RESEND_S = 30.0
"""Seconds after which an order that is not answered is sent again."""
GRACE_S = 5.0  # an order must not expire while somebody waits for its answer
Send = Callable[[int, float], None]
"""Sends one device what it is asked, to expire after so many seconds."""
MOST_UNREAD = 2
"""Answers of a device that may come while others are asked something else."""
LOST = "the connection to the broker is lost"


class MqttExchange(NamedTuple):
    """A question to some devices."""

    kind: str
    number: int
    lost_by: frozenset[bytes]
    """A device with such a presence has lost what it was sent."""
    send: Send
    answered: Callable[[int, Answer | MessageError], bool | None]
    """Takes an answer; False if the device is asked once more, None if it answers nothing asked."""
    waits_for_absent: bool = True
    """Whether a device that leaves, or is started again, may still answer."""


class MqttNodes:
    """Asks devices and hears their answers, each once and in time."""

    downloads_with_orders = False
    """One message reaches all."""

    def __init__(
        self, scenario: Scenario, timeout_s: float, run: str, say: Say, epoch: int
    ) -> None:
        """``epoch`` counts the starts of the server: devices ignore orders of an earlier one."""
        self._scenario, self._devices = scenario, scenario.devices
        self.timeout_s, self._run, self._say, self._epoch = timeout_s, run, say, epoch
        self._line: Line | None = None
        self._settings = run_settings(scenario, run)
        self._online: set[int] = set()
        self.versions: dict[int, str] = {}
        self._refused: set[int] = set()
        self._named: set[int] = set()
        self._events, self._allowances = Inbox(), Allowances()
        self._up = False
        self._last: tuple[int, bytes] | None = None
        self._has: dict[int, int] = {}
        self._fault: Mix2fldError | None = None
        self._gathers = False
        self._unread = deque[Event](maxlen=MOST_UNREAD * self._devices)

    def begin(self, line: Line, first: bool) -> None:
        """Make the run known to all devices; ``first`` if it has no round yet."""
        self._line = line
        if first:
            line.publish(topics.DOWNLOAD, b"", qos=1, retain=True)  # of an older run
        line.publish(topics.SETTINGS, self._settings, qos=1, retain=True)

    def connected(self, line: Line, resumed: bool) -> None:
        """The broker is connected, or again: perhaps without what it was told.

        Each device has topics of its own, so that the broker can be told to drop those of one.
        """
        del resumed
        self._up = True
        for device in sorted(set(range(self._devices)) - self._refused):
            line.subscribe(topics.presence(device), qos=1, again=True)
            line.subscribe(topics.uploads(device), qos=1)
        if self._line is not None:
            line.publish(topics.SETTINGS, self._settings, qos=1, retain=True)
        if self._last is not None:
            message = pack(Download(self._run, *self._last))
            line.publish(topics.DOWNLOAD, message, qos=0, retain=True)
        self._events.put(("connected", -1, b""))

    def lost(self, line: Line) -> None:
        """Nobody can be asked, and who comes back says so."""
        del line
        self._up = False
        self._online.clear()
        self._events.put(("lost", -1, b""))

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Handle a message of a device: it came, went or answered."""
        kind, _, name = topic.partition("/")
        if not name.isdecimal() or not int(name) < self._devices:
            return
        device = int(name)
        if device in self._refused:
            return
        if self._allowances.flooded_by(device):
            self._refuse(line, device)
        elif kind == "u":
            self._events.put(("answer", device, payload))
        elif payload:
            self._online.add(device)
            self._note_version(device, payload[1:].decode("ascii", "replace").split())
            self._events.put(("online", device, payload))
        else:
            self._online.discard(device)
            self._events.put(("offline", device, b""))

    def _note_version(self, device: int, words: list[str]) -> None:
        """Say once if it is another than the server's: messages may yet have the same format."""
        version, spoken, *_ = [*words, "", ""]
        self.versions[device] = version = version if VERSION.fullmatch(version) else ""
        same = version == __version__ and spoken in ("", str(FORMAT))
        if same or device in self._named:
            return
        self._named.add(device)
        if not version:
            self._say(
                f"device {device} names no version (0.2 or older): it cannot read messages of "
                f"format {FORMAT}; install {__version__}"
            )
        else:
            other = spoken.isdecimal() and len(spoken) < 4 and int(spoken) != FORMAT
            formats = f"messages of format {spoken}, not {FORMAT}: " if other else ""
            self._say(
                f"device {device} has mix2fld {version}, and this server {__version__}; "
                f"{formats}install the same version on both"
            )

    def _refuse(self, line: Line, device: int) -> None:
        """Have the broker drop what it sends: its queue for the server belongs to all devices."""
        self._refused.add(device)
        self._online.discard(device)
        line.unsubscribe(topics.presence(device))
        line.unsubscribe(topics.uploads(device))
        self._say(
            f"device {device} floods: more than {MOST_AT_ONCE} messages at once; it is refused "
            "until the server is started again",
            "flood",
            device=device,
        )
        self._events.put(("refused", -1, b""))

    def fail(self, error: Mix2fldError) -> None:
        """The broker refuses the server: those who wait are told."""
        self._fault = error
        self._events.put(("fault", -1, b""))

    def wait_for(self, devices: int, seconds: float) -> Collection[int]:
        """The devices that are connected as soon as there are that many, or after that time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if len(self._online) >= min(devices, self._devices - len(self._refused)):
                break
            self._events.get(left)
            self._check()
        if not self._up:
            raise TransportLostError(LOST)
        return set(self._online)

    def ask(
        self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear
    ) -> Mapping[int, str]:
        """Send each device its order and hear who answers before the time is over."""
        asked, restarted = dict(orders), frozenset([topics.HERE])
        starts: dict[int, bytes] = {}

        def send(device: int, left: float) -> None:
            message = pack(self._order(device, asked[device], starts.get(device)))
            self._publish(topics.orders(device), message, expires_s=left + GRACE_S)

        def answered(device: int, reply: Answer | MessageError) -> bool:
            if isinstance(reply, Behind):
                self._has[device] = reply.has
                if reply.needs_start and device not in starts:
                    starts[device] = initial_weights(self._scenario, device)
                    return False
            again = hear(device, reply)
            if again is not None:
                asked[device] = again
            return again is None

        self._events.clear()
        for device in sorted(asked):
            send(device, self.timeout_s)
        self._exchange(MqttExchange(TRAIN, round_number, restarted, send, answered), set(orders))
        return {}  # a device whose process fails is not heard

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """One message to all; a device that does not confirm it in time gets a copy of its own."""
        message = pack(Download(self._run, round_number, data))
        self._last, anyone = (round_number, data), frozenset([topics.HERE, topics.HERE_AGAIN])
        if devices:
            self._events.clear()
        self._publish(topics.DOWNLOAD, message, qos=0, retain=True)

        def send(device: int, left: float) -> None:
            self._publish(topics.orders(device), message, expires_s=left + GRACE_S)

        def answered(device: int, reply: Answer | MessageError) -> bool:
            hear(device, reply)
            return True

        self._exchange(MqttExchange(DOWNLOAD, round_number, anyone, send, answered), set(devices))

    def ask_sum(self, round_number: int, orders: Mapping[int, SumOrder], hear: HearSum) -> None:
        """Ask for a step of a sum; who leaves, or is started again, has no part in it any more."""

        def send(device: int, left: float) -> None:
            self._publish(topics.orders(device), pack(orders[device]), expires_s=left + GRACE_S)

        def answered(device: int, reply: Answer | MessageError) -> bool | None:
            own = orders[device]
            if isinstance(reply, SumAnswer) and (reply.step, reply.place) != (own.step, own.place):
                return None  # an earlier answer once more
            hear(device, reply)
            return True

        for device in sorted(orders):
            send(device, self.timeout_s)
        nobody = frozenset[bytes]()
        asked = orders.keys() & self._online
        self._exchange(MqttExchange(SUM, round_number, nobody, send, answered, False), set(asked))

    def _exchange(self, exchange: MqttExchange, waiting: set[int]) -> None:
        """Hear these devices; what seems lost is sent again, ever more rarely.

        Raises ``TransportLostError`` as soon as the connection to the broker is lost.
        """
        number, deadline = exchange.number, time.monotonic() + self.timeout_s
        pause = min(RESEND_S, self.timeout_s / 4)
        again = time.monotonic() + pause
        waiting -= self._refused

        def send_to(devices: Collection[int]) -> None:
            for device in sorted(devices):
                exchange.send(device, deadline - time.monotonic())

        while waiting and (left := deadline - time.monotonic()) > 0:
            event = self._events.get(min(left, again - time.monotonic()))
            self._check()
            if not self._up:
                raise TransportLostError(LOST)
            if event is None:
                pause *= 2
                again = time.monotonic() + pause
                send_to(waiting & self._online)
                continue
            kind, device, payload = event
            if kind == "refused":  # the broker may have dropped answers of others
                waiting -= self._refused
                send_to(waiting & self._online)
            elif kind == "connected":
                send_to(waiting)
            elif kind in ("online", "offline") and not exchange.waits_for_absent:
                waiting -= {device} if payload[:1] != topics.HERE_AGAIN else set()
            elif kind == "online" and device in waiting and payload[:1] in exchange.lost_by:
                send_to([device])
            elif kind == "answer":
                reply = self._opened(payload, exchange) if device in waiting else None
                if reply is None:
                    self._unread.append(event)
                elif done := exchange.answered(device, reply):
                    waiting.discard(device)
                elif done is not None:
                    send_to([device])
        for device in sorted(waiting):
            self._say(f"round {number}: device {device} did not answer within {self.timeout_s:g} s")

    def gather(self, orders: Mapping[int, TrainOrder], new: Collection[int], hear: Hear) -> None:
        """Hear who answers its order, of whichever round, until ``hear`` has enough.

        Only ``new`` orders are sent at once, and those of a device that was started again, or is
        silent. Raises ``TransportLostError`` as soon as the connection to the broker is lost.
        """
        outstanding, starts = dict(orders), dict[int, bytes]()

        def send(devices: Collection[int]) -> None:
            for device in sorted(devices):
                message = pack(self._order(device, outstanding[device], starts.get(device)))
                self._publish(topics.orders(device), message, expires_s=self.timeout_s)

        def take(device: int, payload: bytes) -> None:
            reply = self._reply(payload, TRAIN, outstanding[device].round)
            if reply is None:
                return
            if isinstance(reply, Behind):
                self._has[device] = reply.has
                if reply.needs_start and device not in starts:
                    starts[device] = initial_weights(self._scenario, device)
                    send([device])
                    return
            again = hear(device, reply)
            if again is None:
                del outstanding[device]
            else:
                outstanding[device] = again
                send([device])

        if not self._gathers:  # who came before then is asked anyway
            self._gathers = True
            self._events.clear()
        send(new)
        pause = min(RESEND_S, self.timeout_s / 4)
        resend = time.monotonic() + pause
        while outstanding:
            left = resend - time.monotonic()
            event = self._unread.popleft() if self._unread else self._events.get(left)
            self._check()
            if not self._up:
                raise TransportLostError(LOST)
            kind, device, payload = event or ("silence", -1, b"")
            if kind == "answer" and device in outstanding:
                take(device, payload)
            elif kind == "online" and device in outstanding and payload[:1] == topics.HERE:
                send([device])
            elif kind in ("refused", "connected", "silence"):
                if event is None:
                    resend = time.monotonic() + pause
                    hear(-1, MessageError("silence"))  # so that those who are late are given up
                send(outstanding.keys() & self._online)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _opened(self, payload: bytes, exchange: MqttExchange) -> Any:
        """An answer to this exchange."""
        return self._reply(payload, exchange.kind, exchange.number)

    def _reply(self, payload: bytes, asked: str, number: int) -> Any:
        """An answer of this run, round and kind; None for a replay; an error for what is none."""
        try:
            head = read_head(payload)
            if head.run != self._run or head.round != number:
                return None
            if KINDS[head.kind] not in ANSWERS[asked]:
                return None
            return read(payload)
        except MessageError as error:
            return error

    def _order(self, device: int, order: TrainOrder, start: bytes | None) -> TrainOrder:
        """The order as it goes over the wire: a download that the device heard is only named."""
        order = order._replace(epoch=self._epoch, start=start)
        if order.download is None or self._last is None or order.download != self._last[1]:
            return order
        known = self._has.get(device) == self._last[0] if order.catch_up else True
        return order._replace(heard=self._last[0], download=None) if known else order

    def _publish(
        self, topic: str, message: bytes, *, qos: int = 1, retain: bool = False,
        expires_s: float | None = None,
    ) -> None:  # fmt: skip
        if self._line is None:
            raise ValueError("the run has not begun")
        self._line.publish(topic, message, qos=qos, retain=retain, expires_s=expires_s)
