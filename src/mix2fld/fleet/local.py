"""All devices in this process, trained side by side on its cores."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mix2fld.data import device_parts, test_subset
from mix2fld.device.uplinks import Turn
from mix2fld.errors import InputError
from mix2fld.fleet.replay_pool import ReplayPool
from mix2fld.learning.losses import one_hot
from mix2fld.learning.stepper import Draws, Start, TestSet, Watch, local_result, snapshot_steps
from mix2fld.learning.training import model_in_use
from mix2fld.models.processor import usable_cores
from mix2fld.round.checks import check_countable, check_devices
from mix2fld.round.device_turn import (
    Own,
    Rows,
    begin_phase,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.round.fleet_interface import Accuracies, Delivered, Order, Outcome, Trained
from mix2fld.round.scenario import Scenario
from mix2fld.types import Dataset, Samples, State, Tensors

States = list[State]
"""The state of each device; arrays are shared by devices that have the same."""


class Seen(NamedTuple):
    """Models to measure after a local phase."""

    weights: Mapping[int, Tensors]
    reference: int
    snapshots: list[tuple[int, Tensors]]  # of the reference device; empty if it was not asked


class LocalFleet:
    """The devices of one run, whose samples are rows of one training set."""

    def __init__(self, scenario: Scenario, dataset: Dataset) -> None:
        check_countable(scenario.config)
        self._scenario, self._dataset = scenario, dataset
        self.parts = device_parts(dataset, scenario.config)
        stepper = scenario.task.stepper
        targets = one_hot(dataset.train_labels, dataset.num_labels)
        own = Samples(dataset.train_inputs, targets)
        self._samples = ReplayPool(scenario.wire, stepper, own)
        self._tests = TestSet(stepper, *test_subset(dataset, scenario.config.data))

    def start(self) -> States:
        """Every device as its protocol's row begins it."""
        wire, task = self._scenario.wire, self._scenario.task
        return [start_device(wire, task, device) for device in range(len(self.parts))]

    def available(self) -> Sequence[int]:
        """All devices, always."""
        return range(len(self.parts))

    def train(self, states: States, order: Order) -> tuple[States, Trained]:
        """The local phase of all devices that are asked, at once."""
        if not order.asked:
            return states, Trained({}, Seen({}, order.reference, []), computing_seconds={})
        task, config = self._scenario.task, self._scenario.config
        places = {device: place for place, device in enumerate(order.asked)}
        watched = order.reference in places
        steps = snapshot_steps(config.learning.local_steps, config.curve_points)
        turns = {
            device: Turn(task.seed, order.round_number, device, order.rooms.get(device))
            for device in order.asked
        }
        held, starts, draws = self._begin(states, turns)
        started = time.perf_counter()
        loss = self._scenario.protocol.local_loss
        watch = Watch(places.get(order.reference, 0), steps)
        learned = task.stepper.train(loss, held, starts, draws, watch)
        seconds = time.perf_counter() - started
        local = {d: local_result(learned.phases[place]) for d, place in places.items()}
        check_devices(config, local, order.round_number)

        after, packets = list(states), {}
        for device, result in local.items():
            own, lost = self.own(device), config.seeding.lost_seeds
            packets[device], after[device] = prepare_upload(
                self._scenario.wire, states[device], result, own, turns[device], lost
            )
        training = self._scenario.training
        begun = {device: states[device]["weights"] for device in local}
        used = {
            d: model_in_use(training, begun[d], result.weights)
            for d, result in local.items()
            if d in order.evaluated
        }
        snapshots = [
            (step, model_in_use(training, begun[order.reference], weights))
            for step, weights in (learned.snapshots if watched else [])
        ]
        seen = Seen(used, order.reference, snapshots)
        share = min(1.0, usable_cores() / len(order.asked))
        return after, Trained(packets, seen, dict.fromkeys(order.asked, seconds * share))

    def _begin(
        self, states: States, turns: Mapping[int, Turn]
    ) -> tuple[Any, list[Start], list[Draws]]:
        """What the stepper reads from, and the beginning of each local phase."""
        wire, task = self._scenario.wire, self._scenario.task
        held, extras = self._samples.hold(states, list(turns))
        starts, draws = [], []
        for device, turn in turns.items():
            part = self.parts[device]
            rows = Rows(part, self._dataset.train_labels[part], extras.get(device))
            start, chosen = begin_phase(wire, task, states[device], rows, turn)
            starts.append(start)
            draws.append(chosen)
        return held, starts, draws

    def deliver(self, states: States, outcome: Outcome) -> tuple[States, Delivered]:
        """Settle the uploads; who receives the download takes it over."""
        wire, after = self._scenario.wire, list(states)
        received = None if outcome.download is None else wire.decode_download(outcome.download)
        for device in outcome.asked:
            after[device] = settle(states[device], device in outcome.uploaded)
        if received is not None:
            for device in outcome.receivers:
                after[device] = receive(wire, after[device], received)
        return after, Delivered(outcome.receivers)

    def measure(self, observed: Seen, models: Sequence[Tensors]) -> Accuracies:
        """All accuracies of a round, in one go."""
        before_end = observed.snapshots[:-1]
        tested = [*observed.weights.values(), *(weights for _, weights in before_end), *models]
        found = iter(self._tests.accuracies(tested))
        devices = {device: next(found) for device in observed.weights}
        on_the_way = [(step, next(found)) for step, _ in before_end]
        if observed.snapshots:
            on_the_way.append((observed.snapshots[-1][0], devices[observed.reference]))
        return Accuracies(devices, on_the_way, list(found))

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """No device of this process is dishonest: its payload has a fault."""
        raise InputError(f"round {round_number}: upload of device {device}: {reason}")

    def own(self, device: int) -> Own:
        """The samples that a device holds."""
        part = self.parts[device]
        return self._dataset.train_inputs[part], self._dataset.train_labels[part]

    def check_seeds(self) -> None:
        """Raise ``InputError`` if the seeds of all devices together would not do."""
        wire = self._scenario.wire
        made = {d: wire.make_seeds(d, *self.own(d)) for d in range(len(self.parts))}
        wire.prepare_seeds({device: seeds for device, seeds in made.items() if seeds is not None})
