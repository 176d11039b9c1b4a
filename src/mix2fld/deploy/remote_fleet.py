"""The devices of a deployment as a fleet: at the other end of a network.

What carries orders and answers is a ``Nodes``: Flower, or an MQTT broker.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.messages import (
    FORMAT,
    AnyWire,
    Behind,
    Refused,
    Taken,
    Trained,
    TrainOrder,
)
from mix2fld.deploy.settings import config_digest
from mix2fld.edge.messages import MessageError
from mix2fld.errors import InputError
from mix2fld.learning.stepper import TestSet, snapshot_steps
from mix2fld.link.payloads import Encoded, PayloadError
from mix2fld.round.checks import global_refused
from mix2fld.round.fleet_interface import Accuracies, Delivered, Order, Outcome
from mix2fld.round.fleet_interface import Trained as TrainedFleet
from mix2fld.round.scenario import Scenario
from mix2fld.round.wire import Packet
from mix2fld.types import SampleFormat, Tensors

States = list[Any]
"""Nothing: what devices keep is on their own disks."""


Hear = Callable[[int, Any], TrainOrder | None]
"""(device, what it answered) -> what it is asked next in this round, if anything."""


class Nodes(Protocol):
    """Carries orders to devices and their answers back, each once and in time."""

    timeout_s: float
    """Seconds after which a round continues without the missing answers."""

    def wait_for(self, devices: int, seconds: float) -> Collection[int]:
        """The devices that are connected as soon as there are that many, or after that time."""

    def ask(self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear) -> None:
        """Send each device its order and hear who answers before the time is over."""

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """Send the download, and hear which of these devices have it before the time is over."""

    def read(self, content: Any, *kinds: type[AnyWire]) -> AnyWire:
        """An answer; raises ``MessageError`` unless it is of one of ``kinds``."""


class Answer(NamedTuple):
    """What the server took from one device in one round."""

    packet: Packet
    accuracies: list[float]
    seconds: float


class Answers(NamedTuple):
    """All answers of a round."""

    by_device: Mapping[int, Answer]
    reference: int


class RemoteFleet:
    """Devices that answer messages, or do not."""

    def __init__(
        self, scenario: Scenario, tests: TestSet, nodes: Nodes, run: str, say: Say
    ) -> None:
        self._scenario, self._tests = scenario, tests
        self._nodes, self._run, self._say = nodes, run, say

    def start(self) -> States:
        """Nothing is kept here."""
        return []

    def available(self) -> Sequence[int]:
        """The devices that are connected, as soon as there is one."""
        online = self._nodes.wait_for(1, self._nodes.timeout_s)
        if not online:
            raise InputError(
                "no device is connected; start some, and the same command resumes the run"
            )
        return sorted(online)

    def train(self, states: States, order: Order) -> tuple[States, TrainedFleet]:
        """Ask for uploads, and take those that can be taken."""
        started = time.monotonic()
        answers = self._collect(order)
        seconds = {device: answer.seconds for device, answer in answers.items()}
        elsewhere = max(0.0, time.monotonic() - started - max(seconds.values(), default=0.0))
        packets = {device: answer.packet for device, answer in answers.items()}
        return states, TrainedFleet(packets, Answers(answers, order.reference), seconds, elsewhere)

    def deliver(self, states: States, outcome: Outcome) -> tuple[States, Delivered]:
        """Send the download; how its upload fared, a device hears with its next order.

        A device that only listened gets the download with that order, too.
        """
        if outcome.download is None:
            return states, Delivered(frozenset())
        started, number, data = time.monotonic(), outcome.round_number, outcome.download
        confirmed: set[int] = set()

        def hear(device: int, content: Any) -> None:
            try:
                reply = self._nodes.read(content, Taken, Refused)
                if isinstance(reply, Refused):
                    raise MessageError(_words_of(reply))
                if reply == Taken(round=number):
                    confirmed.add(device)
            except MessageError as error:
                self._say(f"round {number}: device {device} took no download: {error}")

        self._nodes.multicast(number, data, outcome.receivers.intersection(outcome.asked), hear)
        took = confirmed | (outcome.receivers - set(outcome.asked))
        return states, Delivered(frozenset(took), time.monotonic() - started)

    def measure(self, observed: Answers, models: Sequence[Tensors]) -> Accuracies:
        """What devices say of themselves; other models are tested here."""
        answers, reference = observed
        devices = {device: answer.accuracies[-1] for device, answer in answers.items()}
        on_the_way: list[tuple[int, float]] = []
        if reference in answers:
            on_the_way = list(zip(self._steps(), answers[reference].accuracies, strict=True))
        return Accuracies(devices, on_the_way, self._tests.accuracies(models))

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """Write it into the diary; the round continues without that upload."""
        self._say(f"round {round_number}: device {device} refused: {reason}")

    def _collect(self, order: Order) -> dict[int, Answer]:
        answers: dict[int, Answer] = {}
        diverged: set[int] = set()
        started = time.monotonic()
        orders = {device: self._order_for(device, order) for device in order.asked}

        def hear(device: int, content: Any) -> TrainOrder | None:
            try:
                reply = self._nodes.read(content, Trained, Behind, Refused)
                if isinstance(reply, Behind) and not orders[device].catch_up:
                    self._say(
                        f"round {order.round_number}: device {device} was away and catches up"
                    )
                    last = {"catch_up": True, "download": order.last_download()}
                    orders[device] = orders[device].model_copy(update=last)
                    return orders[device]
                if isinstance(reply, Refused) and reply.diverged:
                    diverged.add(device)
                answers[device] = self._take(orders[device], reply, time.monotonic() - started)
            except MessageError as error:
                self.refuse(device, order.round_number, str(error))
            return None

        self._nodes.ask(order.round_number, orders, hear)
        if diverged == set(order.asked):
            raise global_refused(order.round_number, len(diverged))
        return answers

    def _order_for(self, device: int, order: Order) -> TrainOrder:
        dims, roster = self._scenario.task.dims, order.roster
        overheard = roster.listened[device] > roster.last_turn[device]
        return TrainOrder(
            format=FORMAT,
            run=self._run,
            device=device,
            round=order.round_number,
            config=config_digest(self._scenario.config),
            **_sample_fields(dims.samples),
            num_labels=dims.num_labels,
            uploaded=int(roster.uploaded[device]),
            last_turn=int(roster.last_turn[device]),
            watched=device == order.reference,
            download=order.last_download() if overheard else None,
            room=order.rooms.get(device),
        )

    def _take(self, order: TrainOrder, reply: Any, waited: float) -> Answer:
        """Read an answer; raises ``MessageError`` for one that no honest device gives."""
        if isinstance(reply, Refused):
            raise MessageError(_words_of(reply))
        if not isinstance(reply, Trained):
            raise MessageError("it is still behind")
        if reply.round != order.round:
            raise MessageError(f"an answer for round {reply.round}")
        wanted = len(self._steps()) if order.watched else 1
        if len(reply.accuracies) != wanted:
            raise MessageError(f"{len(reply.accuracies)} accuracies; must be {wanted}")
        if reply.seconds > waited:
            raise MessageError(f"{reply.seconds:g} s of computing in a wait of {waited:.1f} s")
        packet = self._packet(order, reply)
        return Answer(packet, reply.accuracies, reply.seconds)

    def _packet(self, order: TrainOrder, reply: Trained) -> Packet:
        """The upload, if it can be charged and has its seeds just when they are due."""
        wire, seeds = self._scenario.wire, None
        if reply.seeds is not None:
            bits = wire.upload_size(with_seeds=True).bits - wire.upload_size(with_seeds=False).bits
            seeds = Encoded(reply.seeds, bits)
        packet = Packet(Encoded(reply.upload, reply.bits), seeds, reply.samples)
        try:
            wire.check_bits(packet, order.round)
        except PayloadError as error:
            raise MessageError(str(error)) from None
        if seeds is not None and order.uploaded:
            raise MessageError("seeds: they were uploaded before")
        resent = self._scenario.config.seeding.lost_seeds == "resend"
        due = wire.seeding is not None and wire.uploads_in(order.round) and not order.uploaded
        if due and seeds is None and resent:
            raise MessageError("seeds: missing; they are part of the first upload")
        return packet

    def _steps(self) -> tuple[int, ...]:
        """After how many steps of its local phase the reference device is tested."""
        config = self._scenario.config
        return snapshot_steps(config.learning.local_steps, config.curve_points)


def _sample_fields(samples: SampleFormat) -> dict[str, Any]:
    return {
        "sample_shape": list(samples.shape),
        "dtype": samples.dtype,
        "value_range": [samples.low, samples.high],
        "mean": list(samples.mean),
        "std": list(samples.std),
    }


def _words_of(refused: Refused) -> str:
    return f"it says: {one_line(refused.reason)}"
