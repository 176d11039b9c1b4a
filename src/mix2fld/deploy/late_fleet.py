"""The devices of a deployment whose server does not wait: an upload is used when it comes.

A round lasts until as many uploads have come as its step takes, of whichever rounds. Who has not
answered yet stays asked, also when the server is started again: what each was asked is part of the
run's state. Nobody waits for a download to be confirmed either: a device is sent it, or its name,
with its next order.
"""

import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from mix2fld.deploy.answers import TakenUpload
from mix2fld.deploy.edge.messages import Answer, Behind, MessageError, TrainOrder
from mix2fld.deploy.remote_fleet import Answers, EnoughError, RemoteFleet
from mix2fld.engine.fleet_interface import Delivered, LocalPhaseOutcome, Order, Outcome

NUMBER, UPLOADED, LAST_TURN, WATCHED, BIT_BUDGET, HEARD = range(6)
"""What each device was asked, by rows; the first is 0 for one that was not, or has answered."""


class LateRound(NamedTuple):
    """Between the uploads and the download of a round."""

    owed: Any
    orders: Any
    multicast: Any


class LateFleet(RemoteFleet):
    """Devices that are asked, and answer when they are done."""

    _since: dict[int, float]

    def start(self) -> Any:
        """Nobody was asked anything, and nobody has missed a download."""
        self._since = {}
        devices = self._scenario.devices
        return {
            "owed": np.zeros(devices, np.bool_),
            "orders": np.zeros((6, devices), np.int64),
            "multicast": np.array(0),
        }

    def train(self, states: Any, order: Order) -> tuple[LateRound, LocalPhaseOutcome]:
        """Ask the idle, and take uploads of all that were asked, until a step has enough."""
        began, policy, number = time.monotonic(), self._scenario.policy, order.round_number
        owed, table = states["owed"].copy(), states["orders"].copy()
        new = self._orders(owed, order)
        for device, one in new.items():
            heard = int(states["multicast"]) if one.download is not None else 0
            budget = -1 if one.bit_budget is None else one.bit_budget
            table[:, device] = number, one.uploaded, one.last_turn, one.watched, budget, heard
        owed[list(new)] = False
        before = np.flatnonzero(table[NUMBER]).tolist()
        orders = {d: new[d] if d in new else self._asked_before(table[:, d]) for d in before}
        answers, seconds = dict[int, TakenUpload](), dict[int, float]()
        wanted = policy.enough(len(new)) - order.held

        def done(device: int) -> None:
            table[:, device] = 0
            del orders[device], self._since[device]
            if len(answers) >= wanted:
                raise EnoughError

        def hear(device: int, reply: Answer | MessageError) -> TrainOrder | None:
            now = time.monotonic()
            if device < 0:
                self._give_up(orders, now, done)
                return None
            if device not in orders:
                return None  # it was given up
            asked = orders[device]
            if isinstance(reply, Behind) and not asked.catch_up:
                self._say(f"round {number}: device {device} was away and catches up")
                orders[device] = asked._replace(
                    catch_up=True, heard=0, download=order.last_download()
                )
                return orders[device]
            try:
                waited = now - self._since[device]
                answers[device] = self._reader.read(device, asked, reply, waited)
                seconds[device] = now - began
                self._say("", "upload", round=number, device=device, seconds=round(now - began, 3))
            except MessageError as error:
                self.refuse(device, number, str(error))
            done(device)
            return None

        def gather() -> None:
            unsent = [device for device in orders if device not in self._since]
            for device in unsent:
                self._since[device] = time.monotonic()
            with suppress(EnoughError):
                self._nodes.gather(orders, unsent, hear)

        self._say("", "asked", round=number, devices=sorted(new))
        if wanted > 0:
            self._carry(number, gather)
        messages = {device: answer.message for device, answer in answers.items()}
        left = LateRound(owed, table, states["multicast"])
        observed = Answers(answers, order.reference)
        return left, LocalPhaseOutcome(messages, observed, seconds, 0.0, frozenset(orders))

    def deliver(self, states: LateRound, outcome: Outcome) -> tuple[Any, Delivered]:
        """Send the download to all that listen; each is owed it until its next order."""
        owed, orders, multicast = states
        if outcome.download is not None:
            number, data = outcome.round_number, outcome.download
            self._carry(number, lambda: self._nodes.multicast(number, data, (), _nobody))
            owed[list(outcome.receivers)] = True
            multicast = np.array(number)
        after = {"owed": owed, "orders": orders, "multicast": multicast}
        return after, Delivered(outcome.receivers)

    def _asked_before(self, row: Any) -> TrainOrder:
        """The order of an earlier round; a download in it is named."""
        number, uploaded, last_turn, watched, budget, heard = row.tolist()
        return TrainOrder(
            self._run, number, uploaded, last_turn, bool(watched),
            bit_budget=None if budget < 0 else budget, heard=heard,
        )  # fmt: skip

    def _give_up(self, orders: Collection[int], now: float, done: Any) -> None:
        """Those who were asked too long ago are not waited for any more."""
        for device in sorted(orders):
            if now - self._since[device] > self._nodes.timeout_s:
                words = f"device {device} did not answer within {self._nodes.timeout_s:g} s"
                self._say(words, "silent", round=0, device=device)
                done(device)


def _nobody(device: int, reply: Answer | MessageError) -> None:
    """No download is confirmed."""
