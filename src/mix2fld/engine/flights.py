"""Devices between their order and the end of their upload: what happens when, in simulated time.

Each device computes, and then transmits. Who transmits shares the link with those who transmit at
the same time: whenever somebody begins or ends, what is left of every message is sent on with new
draws of the channel. A message that has not arrived after T_max slots is lost.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mix2fld.codecs import Encoded
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.transfers import Transfer, transmit
from mix2fld.types import Delivery, State


class Flight(NamedTuple):
    """One device on its way from its order to the end of its upload."""

    number: int
    """The round in which it was asked."""
    computing: float
    """Seconds, from the beginning of this round, until its local phase is over."""
    message: Message | None
    """What it uploads; None if it never hands it over."""
    size: int
    """Bits of it; of one that is never handed over, its size in advance."""
    bits: int
    """Bits that are still to be carried."""
    slots: float = 0.0
    """Slots since it began to transmit."""
    begun: bool = False
    late: bool = False
    """Whether nobody waits for its upload any more: it only finishes its local phase."""
    arrived: bool | None = None
    """How its upload ended, if it did."""

    def tree(self) -> State:
        """The flight as plain values, for a checkpoint."""
        return {**self._asdict(), "message": self.message and tree_of(self.message)}

    @classmethod
    def from_tree(cls, tree: State) -> "Flight":
        """The flight that ``tree`` took apart."""
        return cls(**{**tree, "message": tree["message"] and message_of(tree["message"])})


def tree_of(message: Message) -> State:
    """A message as arrays and numbers."""
    parts = {"body": message.body, "once": message.once}
    apart = {
        name: part and {"data": np.frombuffer(part.data, np.uint8), "bits": part.bits}
        for name, part in parts.items()
    }
    return {**message._asdict(), **apart}


def message_of(tree: State) -> Message:
    """The message that ``tree_of`` took apart."""
    parts = {
        name: tree[name] and Encoded(tree[name]["data"].tobytes(), int(tree[name]["bits"]))
        for name in ("body", "once")
    }
    return Message(**{**tree, **parts})


@dataclass
class Segment:
    """A time in which the same devices transmit, over one draw of the channel."""

    delivery: Delivery
    since: float
    opened: frozenset[int]
    ends: dict[int, float]
    """Slots from its beginning until a message is over, arrived or not, of those that are not."""
    elapsed: float = 0.0

    def on_air(self, device: int, slots: float) -> float:
        """In how many of so many slots a device sent."""
        whole, air = float(self.delivery.slots[device]), self.delivery.on_air
        if air is None:
            return slots
        return float(air[device]) if slots == whole else float(air[device]) * slots / whole


@dataclass
class Airtime:
    """All flights in a round, and what has happened to them in it."""

    scenario: Scenario
    flights: dict[int, Flight]
    number: int
    link: State
    at_once: bool
    began: float
    """Seconds from the start of the run to that of the round."""
    ended: dict[int, Flight] = field(default_factory=dict)
    """Flights that are over, in the order in which they ended."""
    seconds: float = 0.0
    aired_slots: float = 0.0
    """Slots in which somebody transmitted."""
    quiet_seconds: float = 0.0
    """Seconds in which nobody did."""
    spans: dict[int, list[float]] = field(default_factory=dict)
    """Seconds between which each device transmitted."""

    def __post_init__(self) -> None:
        count, self.flights = self.scenario.devices, dict(sorted(self.flights.items()))
        self._bits, self._on_air = np.zeros(count, np.int64), np.zeros(count)
        self._slots, self._before = np.zeros(count), np.zeros(count)
        self._attempts, self._draws, self._quiet_since = 0, 0, 0.0
        self._segment: Segment | None = None
        self._held: dict[int, Flight] = {}
        self._computing = {d: flight.computing for d, flight in self.flights.items()}
        for device in [d for d, flight in self.flights.items() if flight.arrived is not None]:
            self._end(device, arrived=bool(self.flights[device].arrived))

    def until(self, enough: Callable[[], bool], limit: float = math.inf) -> None:
        """Let time pass until it is enough, or so many seconds have passed, or nobody flies."""
        while True:
            self._end_idle()
            if enough() or self.seconds >= limit or not self.flights:
                break
            self._transmit()
            if not self._pass(limit):
                break
        self._close()

    @property
    def awaited(self) -> bool:
        """Whether an upload is still on its way."""
        return any(not flight.late for flight in self.flights.values())

    @property
    def busy(self) -> dict[int, Flight]:
        """Devices whose turn is not over."""
        return {**self.flights, **self._held}

    def repeat(self, devices: Collection[int]) -> None:
        """Uploads that ended are sent again."""
        for device in sorted(devices):
            flight = self.ended.pop(device)
            self._before[device] = self.aired_slots
            self.flights[device] = flight._replace(
                bits=flight.size, slots=0.0, begun=False, arrived=None
            )

    def hold(self, devices: Collection[int]) -> None:
        """Uploads that arrived and are for a later step."""
        self._held = {device: self.ended.pop(device) for device in devices}

    def abandon(self) -> None:
        """Nobody waits any more: who transmits stops, who computes does so to the end."""
        for device in [d for d, f in self.flights.items() if f.computing <= self.seconds]:
            self._end(device, arrived=False)
        for device, flight in self.flights.items():
            self.flights[device] = flight._replace(late=True, message=None, size=0, bits=0)

    def after(self, seconds: float) -> dict[int, Flight]:
        """The flights so many seconds later, and relative to then: who has ended by then, too."""
        known, end = set(self.ended), self.seconds + seconds
        self.until(lambda: False, end)
        self.seconds = end
        since = {d: f for d, f in self.ended.items() if d not in known}
        left = {**self.busy, **since}
        return {
            device: left[device]._replace(computing=max(left[device].computing - end, 0.0))
            for device in sorted(left)
        }

    def timeline(self) -> list[list[float | None]]:
        """Device, and the seconds between which it computed, and transmitted."""
        devices = sorted({*self._computing, *self.spans})
        return [
            [d, min(self._computing.get(d, 0.0), self.seconds), *self.spans.get(d, (None, None))]
            for d in devices
        ]

    def computed(self) -> dict[int, float]:
        """Seconds that each device has computed in the round."""
        return {device: min(until, self.seconds) for device, until in self._computing.items()}

    def transfer(self, taken: Collection[int]) -> Transfer:
        """The uploads of the round; ``taken`` are those that the server uses."""
        arrived = np.zeros(len(self._bits), np.bool_)
        arrived[list(taken)] = True
        return Transfer(self._bits, arrived, self._slots, self._on_air, self._attempts)

    def _end_idle(self) -> None:
        """Who has computed and has nothing to send is done."""
        for device, flight in list(self.flights.items()):
            if flight.computing <= self.seconds and not flight.bits:
                self._end(device, arrived=False)

    def _senders(self) -> frozenset[int]:
        ready = frozenset(d for d, f in self.flights.items() if f.computing <= self.seconds)
        return ready if not self.at_once or len(ready) == len(self.flights) else frozenset()

    def _transmit(self) -> None:
        """Draw the channel anew if others transmit than before."""
        senders, segment = self._senders(), self._segment
        opened = segment.opened if segment else frozenset[int]()
        if senders == opened or (self.at_once and senders < opened):
            return
        self._close()
        if not senders:
            return
        bits = np.zeros(self.scenario.devices, np.int64)
        for device in senders:
            flight = self.flights[device]
            bits[device] = flight.bits
            self._attempts += not flight.begun
            self.flights[device] = flight._replace(begun=True)
            self.spans.setdefault(device, [self.seconds, self.seconds])
        if not self.at_once:
            self.link = self.scenario.link.at(self.link, self.began + self.seconds)
        delivery, self.link = transmit(
            self.scenario, "uplink", bits, self.number, self.link, self._draws
        )
        most = self.scenario.link.max_slots
        ends = {
            d: min(float(delivery.slots[d]), most - self.flights[d].slots) for d in sorted(senders)
        }
        self._draws += 1
        self.quiet_seconds += self.seconds - self._quiet_since
        self._segment = Segment(delivery, self.seconds, senders, ends)

    def _pass(self, limit: float) -> bool:
        """To the next moment at which something happens; where all wait for all, to the last.

        False if nothing will: the remaining devices answer in a later round.
        """
        segment, slot = self._segment, self.scenario.link.slot_seconds
        moments = [f.computing for f in self.flights.values() if f.computing > self.seconds]
        end = max if self.at_once else min
        at, over = end(moments, default=math.inf), math.inf
        if segment is not None:
            over = end(segment.ends.values())
        if segment is None or segment.since + over * slot > min(at, limit):
            if min(at, limit) == math.inf:
                return False
            self.seconds = min(at, limit)
            if segment is not None:
                segment.elapsed = (self.seconds - segment.since) / slot
            return True
        for device, slots in sorted(segment.ends.items(), key=lambda own: (own[1], own[0])):
            if slots > over:
                break
            self.seconds, segment.elapsed = segment.since + slots * slot, slots
            flight = self.flights[device]
            whole = slots == segment.delivery.slots[device]
            self._carry(device, flight.bits, slots)
            self.flights[device] = flight._replace(bits=0, slots=flight.slots + slots)
            self._end(device, arrived=whole and bool(segment.delivery.delivered[device]))
            del segment.ends[device]
        return True

    def _close(self) -> None:
        """Some of every message that is on the air has been carried."""
        segment = self._segment
        if segment is None:
            self.quiet_seconds += self.seconds - self._quiet_since
        else:
            for device in segment.ends:
                flight, slots = self.flights[device], segment.elapsed
                share = slots / float(segment.delivery.slots[device])
                left = max(1, math.ceil(round(flight.bits * (1 - share), 6)))
                self._carry(device, flight.bits - left, slots)
                self.flights[device] = flight._replace(bits=left, slots=flight.slots + slots)
            self.aired_slots += segment.elapsed
        self._segment, self._quiet_since = None, self.seconds

    def _carry(self, device: int, bits: int, slots: float) -> None:
        self._bits[device] += bits
        if self._segment is not None:
            self._on_air[device] += self._segment.on_air(device, slots)
        self.spans[device][1] = self.seconds

    def _end(self, device: int, *, arrived: bool) -> None:
        flight = self.flights.pop(device)
        self.ended[device] = flight._replace(arrived=arrived)
        self._slots[device] = self._before[device] + flight.slots
