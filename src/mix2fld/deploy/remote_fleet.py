"""The devices of a deployment as a fleet: at the other end of a network.

What carries orders and answers is a ``Nodes``: Flower, or an MQTT broker. Losing it is not a round:
the server waits until it is back and asks again, or stops without recording anything. A device that
was asked and does not answer is a lost upload, and the round is one.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, TransportLostError, some_of
from mix2fld.deploy.adding import AskSums, RemoteSum
from mix2fld.deploy.answers import AnswerReader, TakenUpload, words_of
from mix2fld.deploy.diary import Say
from mix2fld.deploy.edge.messages import (
    Answer,
    Behind,
    MessageError,
    Refused,
    TrainOrder,
)
from mix2fld.deploy.silence import Silence
from mix2fld.engine.divergence import global_refused
from mix2fld.engine.fleet_interface import Delivered, Order, Outcome, Scores
from mix2fld.engine.fleet_interface import LocalPhaseOutcome as TrainedFleet
from mix2fld.engine.masked_sums import PartialSum, Total
from mix2fld.engine.scenario import Scenario
from mix2fld.tasks.base import Score
from mix2fld.tasks.stepper import TestSet
from mix2fld.types import Tensors

RETRY_S = 1.0
"""Seconds between two looks for a device while there is none."""
STEADY_S = 10.0
"""Seconds that an exchange lasts from which on its loss is a new one, waited for as long again."""
RESUME = "the same command resumes the run"
MOST_BEHIND = 3
"""Times in a round that a device may ask for the last global state: to an order that came twice,
it answers twice."""
MOST_REFUSED_ROUNDS = 3
"""Rounds in a row without an upload that could be taken, after which the run stops."""

Owed = NDArray[np.bool_]
"""[D], who gets the last download with its next order; all else is on the devices' own disks."""


Hear = Callable[[int, Answer | MessageError], TrainOrder | None]
"""(device, what it answered, or why that is no answer) -> what it is asked next, if anything."""


class Nodes(AskSums, Protocol):
    """Carries orders to devices and their answers back, each once and in time.

    Each call raises ``TransportLostError``, soon, if no device can be asked, or if the transport is
    lost while answers are missing: it is then repeated for these devices.
    """

    timeout_s: float
    """Seconds after which a round continues without the missing answers."""
    downloads_with_orders: bool
    """Whether a download is piggybacked on the next order."""

    @property
    def versions(self) -> Mapping[int, str]:
        """Of mix2fld, on devices that tell."""

    def wait_for(self, devices: int, seconds: float) -> Collection[int]:
        """The devices that are connected as soon as there are that many, or after that time."""

    def ask(
        self, round_number: int, orders: Mapping[int, TrainOrder], hear: Hear
    ) -> Mapping[int, str]:
        """Send each device its order and hear who answers before the time is over.

        Returns which devices can be reached and have failed before they could answer, and why.
        """

    def gather(self, orders: Mapping[int, TrainOrder], new: Collection[int], hear: Hear) -> None:
        """Hear who answers its order, of whichever round, until ``hear`` has enough; send new ones.

        From time to time ``hear`` is told of device -1, so that it can give up those it waits for.
        """

    def multicast(
        self, round_number: int, data: bytes, devices: Collection[int], hear: Hear
    ) -> None:
        """Send the download, and hear which of these devices have it before the time is over."""


class NobodyAnswersError(TransportLostError):
    """Devices are connected, as far as is known, and none of those that were asked answers."""


class EnoughError(Exception):
    """So many uploads have come that nobody waits for the others."""


class Answers(NamedTuple):
    """All answers of a round."""

    by_device: Mapping[int, TakenUpload]
    reference: int


class RemotePendingRound(NamedTuple):
    """Between the uploads and the download of a round."""

    replied: frozenset[int]
    """Devices that answered, with an upload or without one."""
    silent: frozenset[int]
    """Devices that have not answered for several rounds."""


class RemoteFleet:
    """Devices that answer messages, or do not."""

    def __init__(
        self, scenario: Scenario, tests: TestSet, nodes: Nodes, run: str, say: Say
    ) -> None:
        self._scenario, self._tests = scenario, tests
        self._nodes, self._run, self._say = nodes, run, say
        self._reader, self._silence = AnswerReader(scenario), Silence()
        self._refused_rounds = 0

    def start(self) -> Any:
        """The state before the first round: no device has missed a download."""
        return np.zeros(self._scenario.devices, np.bool_)

    def available(self) -> Sequence[int]:
        """The devices that are connected, as soon as there is one."""
        connected = sorted(self._wait_for_devices(self._nodes.timeout_s))
        self._silence.only(connected)
        return connected

    def train(self, states: Any, order: Order) -> tuple[Any, TrainedFleet]:
        """Ask for uploads, and take those that can be taken."""
        started = time.monotonic()
        answers, replied = self._collect(states, order)
        seconds = {device: answer.seconds for device, answer in answers.items()}
        elsewhere = max(0.0, time.monotonic() - started - max(seconds.values(), default=0.0))
        messages = {device: answer.message for device, answer in answers.items()}
        observed = Answers(answers, order.reference)
        pending = RemotePendingRound(replied, self._silence.silent)
        return pending, TrainedFleet(messages, observed, seconds, elsewhere)

    def deliver(self, states: Any, outcome: Outcome) -> tuple[Any, Delivered]:
        """Send the download; how its upload fared, a device hears with its next order.

        A device that only listened gets the download with that order, too, and so does one that
        answered, where another order is sure to come; it is taken to have it. A silent one gets it
        when it speaks again.
        """
        owed = self.start()
        if outcome.download is None:
            return owed, Delivered(frozenset())
        started, asked = time.monotonic(), set(outcome.asked)
        later = outcome.receivers & states.replied if self._another_order(outcome) else frozenset()
        owed[list(later)] = True
        now = outcome.receivers & asked - later - states.silent
        confirmed = self._send(outcome.round_number, outcome.download, now)
        took = later | confirmed | (outcome.receivers - asked)
        return owed, Delivered(frozenset(took), time.monotonic() - started)

    def _another_order(self, outcome: Outcome) -> bool:
        """Whether all devices are asked again, and may then be sent what they are owed now."""
        config = self._scenario.config
        everyone = config.participants_per_round == self._scenario.devices
        last = outcome.round_number == config.rounds or config.stop_when_converged
        same = self._scenario.wire.downlink.same_for_all and self._scenario.policy.at_once
        return self._nodes.downloads_with_orders and everyone and same and not last

    def _send(self, number: int, data: bytes, devices: Collection[int]) -> set[int]:
        """Send the download to these devices; returns who confirms it in time."""
        confirmed: set[int] = set()

        def hear(device: int, reply: Answer | MessageError) -> None:
            if isinstance(reply, MessageError | Refused):
                self._say(f"round {number}: device {device} took no download: {words_of(reply)}")
            elif reply.round == number:
                confirmed.add(device)

        def send() -> None:
            self._nodes.multicast(number, data, set(devices) - confirmed, hear)

        self._carry(number, send)
        return confirmed

    def measure(self, observed: Answers, models: Sequence[Tensors]) -> Scores:
        """What devices say of themselves; other models are tested here."""
        answers, reference = observed
        devices = {device: answer.scores[-1] for device, answer in answers.items()}
        intermediate: list[tuple[int, Score]] = []
        if reference in answers:
            intermediate = list(zip(self._reader.steps(), answers[reference].scores, strict=True))
        return Scores(devices, intermediate, self._tests.scores(models))

    def add_up(self, part: PartialSum) -> Total | None:
        """Have devices add up what they hold."""
        masks, found = self._scenario.wire.masks, list[Total | None]()

        def add() -> None:
            if masks is not None:
                one = RemoteSum(self._nodes, self._run, masks, part, self.refuse, self._say)
                found.append(one.add_up())

        self._carry(part.number, add)
        return found[0] if found else None

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """Write it into the diary; the round continues without that upload."""
        words = f"round {round_number}: device {device} refused: {reason}"
        self._say(words, "refused", round=round_number, device=device)

    def _collect(self, owed: Owed, order: Order) -> tuple[dict[int, TakenUpload], frozenset[int]]:
        """The answers that can be taken, and who answered at all."""
        answers: dict[int, TakenUpload] = {}
        replied, refused, diverged = set[int](), dict[int, str](), set[int]()
        started, policy = time.monotonic(), self._scenario.policy
        behind = Counter[int]()
        orders, number = self._orders(owed, order), order.round_number
        due = self._scenario.wire.uploads_in(number)
        unanswered, early = set(orders), policy.enough(len(orders)) < len(orders)
        patient = {device for device in orders if early or self._silence.patient_with(device)}
        versions = {str(device): words for device, words in self._nodes.versions.items()}
        self._say("", "asked", round=number, devices=sorted(orders), versions=versions)

        def hear(device: int, reply: Answer | MessageError) -> TrainOrder | None:
            replied.add(device)
            unanswered.discard(device)
            asked, waited = orders[device], time.monotonic() - started
            if isinstance(reply, Behind) and self._catches_up(number, device, behind):
                again = asked._replace(catch_up=True, download=order.last_download())
                orders[device] = again
                unanswered.add(device)
                return again
            if isinstance(reply, Refused) and reply.diverged:
                diverged.add(device)
            try:
                answers[device] = self._reader.read(device, asked, reply, waited)
                self._say("", "upload", round=number, device=device, seconds=round(waited, 3))
            except MessageError as error:
                refused[device] = str(error)
                self.refuse(device, number, refused[device])
            enough = len(answers) >= policy.enough(len(orders)) or not unanswered & patient
            if enough and unanswered:
                raise EnoughError
            return None

        def ask() -> None:
            missing = {device: orders[device] for device in orders if device in unanswered}
            patience = self._nodes.timeout_s
            self._nodes.timeout_s = min(patience, policy.limit)
            try:
                refused.update(self._nodes.ask(number, missing, hear))
            except EnoughError:
                late = ", ".join(map(str, sorted(unanswered)))
                self._say(f"round {number}: does not wait for devices {late}")
            finally:
                self._nodes.timeout_s = patience
            if not replied and not refused:
                self._check_transport(orders if due else ())

        self._carry(number, ask)
        if diverged == set(order.asked):
            raise global_refused(number, len(diverged))
        self._stop_if_all_are_refused(number, answers, refused)
        if not early:
            self._name_silent(number, orders, replied)
        return answers, frozenset(replied)

    def _catches_up(self, number: int, device: int, behind: Counter[int]) -> bool:
        """Whether a device that is behind is sent the last global state; says so the first time."""
        behind[device] += 1
        if behind[device] == 1:
            self._say(f"round {number}: device {device} was away and catches up")
        return behind[device] <= MOST_BEHIND

    def _check_transport(self, unheard: Collection[int]) -> None:
        """Nobody has answered, of these who owe an upload."""
        if not self._nodes.wait_for(1, 0):
            raise TransportLostError("no device is connected")
        if unheard:
            raise NobodyAnswersError(f"no device answers (asked: {some_of(sorted(unheard))})")

    def _name_silent(self, number: int, asked: Collection[int], replied: Collection[int]) -> None:
        self._say("", "unanswered", round=number, devices=sorted(set(asked) - set(replied)))
        for device, missed in self._silence.after_round(asked, replied).items():
            words = f"device {device} is connected and has been silent for {missed} rounds"
            self._say(f"round {number}: {words}", "silent", round=number, device=device)

    def _stop_if_all_are_refused(
        self, number: int, answers: Collection[int], refused: Mapping[int, str]
    ) -> None:
        """One such round may be bad luck; several in a row train nothing."""
        self._refused_rounds = 0 if answers or not refused else self._refused_rounds + 1
        if self._refused_rounds == MOST_REFUSED_ROUNDS:
            why = "; ".join(f"device {device}: {refused[device]}" for device in sorted(refused)[:3])
            raise InputError(
                f"round {number}: no upload could be taken in {MOST_REFUSED_ROUNDS} rounds in a "
                f"row ({why}); {RESUME}"
            )

    def _carry(self, number: int, exchange: Callable[[], None]) -> None:
        """Do an exchange, and repeat what is missing of it when a lost transport is back."""
        deadline: float | None = None
        while True:
            started = time.monotonic()
            try:
                return exchange()
            except TransportLostError as error:
                self._say(f"round {number}: {error}; the round waits", "lost", round=number)
                now = time.monotonic()
                steady = now > started + STEADY_S and not isinstance(error, NobodyAnswersError)
                if deadline is None or steady:
                    deadline = now + self._nodes.timeout_s
                if now >= deadline:
                    raise TransportLostError(f"{error}; {RESUME}") from None
                time.sleep(min(RETRY_S, deadline - now))
                self._wait_for_devices(deadline - time.monotonic())
                self._say(f"round {number}: devices can be reached again", "back", round=number)

    def _wait_for_devices(self, seconds: float) -> Collection[int]:
        """The devices that are connected, as soon as there is one; says if it has to wait."""
        deadline, said = time.monotonic() + seconds, ""
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                if online := self._nodes.wait_for(1, min(RETRY_S, left)):
                    return online
                why = "no device is connected; start some"
            except TransportLostError as error:
                why = str(error)
                time.sleep(min(RETRY_S, left))
            if not left:
                raise TransportLostError(f"{why}, and {RESUME}")
            if why != said:
                self._say(f"{why}; waiting for {left:.0f} s")
            said = why

    def _orders(self, owed: Owed, order: Order) -> dict[int, TrainOrder]:
        roster = order.roster
        lacking = owed | (roster.listened > roster.last_turn)
        return {
            device: self._order_for(
                device, order, order.last_download(device) if lacking[device] else None
            )
            for device in order.asked
        }

    def _order_for(self, device: int, order: Order, download: bytes | None) -> TrainOrder:
        roster = order.roster
        return TrainOrder(
            self._run,
            order.round_number,
            uploaded=int(roster.uploaded[device]),
            last_turn=int(roster.last_turn[device]),
            watched=device == order.reference,
            bit_budget=order.bit_budgets.get(device),
            download=download,
        )
