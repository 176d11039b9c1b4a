"""All devices in this process, trained side by side on its cores."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data import device_parts, label_counts, measured_samples
from mix2fld.engine.checks import check_bins_held, check_countable
from mix2fld.engine.device_turn import (
    Rows,
    TrainedDevice,
    prepare_uploads,
    receive,
    settle,
    start_device,
)
from mix2fld.engine.divergence import check_devices, global_refused, without_diverged
from mix2fld.engine.fleet_interface import Delivered, LocalPhaseOutcome, Order, Outcome, Scores
from mix2fld.engine.fleets.device_states import DeviceStates, StatesInMemory
from mix2fld.engine.fleets.false_labels import add_false_labels
from mix2fld.engine.fleets.replay_pool import ReplayPool
from mix2fld.engine.local_phase import Learner, train_phase
from mix2fld.engine.masked_sums import PartialSum, Total, add_in_memory
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario, attackers_of
from mix2fld.engine.wire import Wire
from mix2fld.native.processor import usable_cores
from mix2fld.protocols.downlink import takes
from mix2fld.protocols.parts import OwnSamples, Turn
from mix2fld.tasks.base import Score
from mix2fld.tasks.stepper import TestSet
from mix2fld.types import Dataset, State, Tensors

Indices = NDArray[np.integer[Any]]
CHECKED_TOGETHER = 100
"""Devices whose seeds are made in advance, to see whether they can be used together."""
States = Any
"""What ``DeviceStates`` keeps; within a round, with the states of those who trained."""


class PendingRound(NamedTuple):
    """Devices between their local phase and the end of the round."""

    before: Any
    trained: Mapping[int, State]


class ModelsToEvaluate(NamedTuple):
    """Models to measure after a local phase."""

    weights: Mapping[int, Tensors]
    reference: int
    snapshots: list[tuple[int, Tensors]]  # of the reference device; empty if it was not asked


class TrainedShard(NamedTuple):
    """Outcome of the local phase of some devices."""

    messages: Mapping[int, Message]
    after: Mapping[int, State]
    """States until it is known how the round ends."""
    seen: ModelsToEvaluate
    seconds: Mapping[int, float]


def conclude(
    wire: Wire, states: Mapping[int, State], outcome: Outcome, received: State | None
) -> dict[int, State]:
    """Devices at the end of a round, whose turn may last longer; ``received``: the download.

    Devices that share a state and an outcome share what becomes of it.
    """
    after, known = {}, dict[Any, State]()
    for device, own in states.items():
        delivered = device in outcome.uploaded if device in outcome.ended else None
        hears = received is not None and device in outcome.receivers
        key = id(own), delivered, hears
        if key not in known:
            state = own if delivered is None else settle(own, delivered)
            known[key] = receive(wire, state, received) if hears and received else state
        after[device] = known[key]
    return after


def decoded(wire: Wire, outcome: Outcome, states: Mapping[int, State]) -> State | None:
    """The multicast, for those of these devices that receive it."""
    if outcome.download is None:
        return None
    taking = (own for device, own in states.items() if device in outcome.receivers)
    return wire.decode_download(outcome.download, taking)


def took(outcome: Outcome, states: Mapping[int, State], received: State | None) -> Delivered:
    """Those of the receivers that could use what they received."""
    if received is None:
        return Delivered(outcome.receivers)
    distinct = {id(states[d]): states[d] for d in outcome.receivers}
    able = {number for number, own in distinct.items() if takes(own, received)}
    return Delivered(frozenset(d for d in outcome.receivers if id(states[d]) in able))


class LocalFleet:
    """The devices of one run, whose samples are rows of one training set."""

    def __init__(
        self, scenario: Scenario, dataset: Dataset, states: DeviceStates | None = None
    ) -> None:
        check_countable(scenario.config)
        self._scenario = scenario
        self.parts = device_parts(dataset, scenario.config)
        learning = scenario.learning
        check_bins_held(scenario.protocol, learning.task, dataset.train_values, self.parts)
        dataset, self._false_parts = add_false_labels(dataset, self.parts, scenario.config)
        self._dataset = dataset
        own = learning.task.samples(dataset.train_inputs, dataset.train_values)
        self._samples = ReplayPool(scenario.wire, learning.stepper, own)
        self._states: DeviceStates = states or StatesInMemory()
        self._tests = TestSet(
            learning.stepper, learning.task, *measured_samples(dataset, scenario.config)
        )

    def start(self) -> States:
        """Every device as its protocol's row begins it."""
        wire, learning = self._scenario.wire, self._scenario.learning
        alike = self._scenario.config.learning.initial_weights != "independent"
        return self._states.start(
            len(self.parts), lambda device: start_device(wire, learning, device), alike=alike
        )

    def states_of(self, states: States) -> dict[int, State]:
        """The state of every device."""
        return self._states.read(states, self.available())

    def available(self) -> Sequence[int]:
        """All devices: in a simulation, none is ever away."""
        return range(len(self.parts))

    def train(self, states: States, order: Order) -> tuple[PendingRound, LocalPhaseOutcome]:
        """The local phase of all devices that are asked, at once."""
        if not order.asked:
            nothing = LocalPhaseOutcome(
                {}, ModelsToEvaluate({}, order.reference, []), computing_seconds={}
            )
            return PendingRound(states, {}), nothing
        before = self._states.read(states, order.asked)
        part = self.train_part(before, order)
        if not part.messages:
            raise global_refused(order.round_number, len(order.asked))
        return PendingRound(states, part.after), LocalPhaseOutcome(
            part.messages, part.seen, part.seconds
        )

    def train_part(self, before: Mapping[int, State], order: Order) -> TrainedShard:
        """The local phase of some devices; with attackers, of those that do not diverge."""
        learning, config, wire = self._scenario.learning, self._scenario.config, self._scenario.wire
        budgets, number = order.bit_budgets, order.round_number
        turns = {d: Turn(learning.seed, number, d, budgets.get(d)) for d in order.asked}
        held, learners = self.learners(before, turns)
        result = train_phase(wire, learning, held, learners, order.reference)
        local = result.local
        if config.attack.attack == "none":
            rate = wire.rate_in(order.round_number)
            check_devices(config, local, order.round_number, rate)
        else:  # a device that diverges refuses, as it does in a deployment
            local = without_diverged(local)

        ended = [
            TrainedDevice(before[d], own, learners[d].rows, learners[d].turn)
            for d, own in local.items()
        ]
        prepared = prepare_uploads(wire, ended, config.seeding.lost_seeds)
        messages = {d: message for d, (message, _) in zip(local, prepared, strict=True)}
        after = {d: state for d, (_, state) in zip(local, prepared, strict=True)}
        used = {d: result.in_use(wire, d) for d in local if d in order.evaluated}
        watched = order.reference in local
        snapshots = result.snapshots_in_use(wire, order.reference) if watched else []
        seen = ModelsToEvaluate(used, order.reference, snapshots)
        share = min(1.0, usable_cores() / len(order.asked))
        seconds = dict.fromkeys(order.asked, result.seconds * share)
        return TrainedShard(messages, after, seen, seconds)

    def learners(
        self, states: Mapping[int, State], turns: Mapping[int, Turn]
    ) -> tuple[Any, dict[int, Learner]]:
        """The samples held for a local phase, and who takes steps on which of them."""
        held, extras = self._samples.hold(states)
        found = {}
        for device, turn in turns.items():
            part = self._part(device, turn.round_number)
            labels, read = partial(self._labels, part), partial(self._samples_in, part)
            rows = Rows(part, labels, read, extras.get(device))
            found[device] = Learner(states[device], rows, turn)
        return held, found

    def _labels(self, part: Indices) -> NDArray[np.int32]:
        return self._scenario.learning.task.labels(self._dataset.train_values[part])

    def deliver(self, states: PendingRound, outcome: Outcome) -> tuple[States, Delivered]:
        """Settle the uploads; who receives the download takes it over."""
        wire, (before, trained) = self._scenario.wire, states
        others = self._states.read(before, outcome.others(trained))
        states_now = {**trained, **others}
        received = decoded(wire, outcome, states_now)
        after = conclude(wire, states_now, outcome, received)
        return self._states.replaced(before, after), took(outcome, states_now, received)

    def measure(self, observed: ModelsToEvaluate, models: Sequence[Tensors]) -> Scores:
        """All scores of a round, in one go."""
        before_end = observed.snapshots[:-1]
        tested = [*observed.weights.values(), *(weights for _, weights in before_end), *models]
        found = iter(self._tests.scores(tested))
        devices = {device: next(found) for device in observed.weights}
        intermediate = [(step, next(found)) for step, _ in before_end]
        if observed.snapshots:
            intermediate.append((observed.snapshots[-1][0], devices[observed.reference]))
        return Scores(devices, intermediate, list(found))

    def measure_models(self, models: Sequence[Tensors]) -> list[Score]:
        """Scores of models of anyone."""
        return self._tests.scores(models)

    def add_up(self, part: PartialSum) -> Total | None:
        """The devices' own exchange, in this process."""
        return add_in_memory(self._scenario, part)

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """Unless a device attacks, none of this process is dishonest: its payload has a fault."""
        if device in attackers_of(self._scenario.config):
            return
        raise InputError(f"round {round_number}: upload of device {device}: {reason}")

    def own(self, device: int) -> OwnSamples:
        """The samples that a device holds."""
        return self._samples_in(self.parts[device])

    def _samples_in(self, part: Indices) -> OwnSamples:
        return self._dataset.train_inputs[part], self._dataset.train_values[part]

    def _part(self, device: int, round_number: int) -> Indices:
        """The rows that a device trains on; those of an attacker may be falsely labelled."""
        begun = round_number >= self._scenario.config.attack.attack_from
        false = self._false_parts.get(device) if begun else None
        return self.parts[device] if false is None else false

    def check_seeds(self) -> None:
        """Raise ``InputError`` if the seeds of all devices together, or their start, would not do.

        Of many devices, those with the fewest samples and the fewest labels make theirs.
        """
        wire, everyone = self._scenario.wire, range(len(self.parts))
        if wire.protocol.first_model is not None:
            wire.protocol.first_model(*self.own(0), self._scenario.learning)
        if wire.protocol.once is None:
            return
        few = len(everyone) <= CHECKED_TOGETHER
        made = {d: wire.make_once(d, *self.own(d)) for d in (everyone if few else self._poorest())}
        if few:
            wire.prepare_seeds({d: seeds for d, seeds in made.items() if seeds is not None})

    def _poorest(self) -> set[int]:
        task = self._scenario.learning.task
        labels = task.labels(self._dataset.train_values)
        counts = label_counts(labels, self.parts, task.groups)
        return {int(counts.sum(axis=1).argmin()), int((counts > 0).sum(axis=1).argmin())}
