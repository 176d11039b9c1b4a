"""A deployed run again, in the simulator with the same deliveries: all numbers must be equal."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.trees import difference, flatten
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.edge.store import Store
from mix2fld.engine.attacks import shift_labels
from mix2fld.engine.device_turn import receive, settle
from mix2fld.engine.fleet_interface import Delivered, LocalPhaseOutcome, Order, Outcome
from mix2fld.engine.fleets.local import LocalFleet, PendingRound, ReplayPool, TrainedShard
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.links import Direction, IdealLink, Memoryless
from mix2fld.runs.checkpoint import load_checkpoint
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.results import RunResult
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.types import Dataset, Delivery, State


class ReplayLink(Memoryless):
    """Delivers to and from the devices that a recorded run delivered to and from.

    Like the server of a deployment it expects that everything arrives.
    """

    slot_seconds = 0.0
    max_slots = 1
    forecast = IdealLink().forecast

    def __init__(self, rounds: list[dict[str, Any]]) -> None:
        self._records = {
            "uplink": iter(
                [info["uploads"]["devices"] for info in rounds if info["uploads"]["attempted"]]
            ),
            "downlink": iter([info["downloads"]["devices"] for info in rounds]),
        }

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = np.isin(np.arange(len(bits)), next(self._records[direction])) | (bits == 0)
        return Delivery(delivered, np.where(delivered, 0, self.max_slots))


class Told(NamedTuple):
    """What devices and diary say that a server cannot know, or does not record."""

    trained: Mapping[int, Collection[int]]
    """Rounds in which each device trained: of those it was asked in, or whose attempt was lost."""
    heard: Mapping[int, Collection[int]]
    """Rounds whose download each device has, confirmed or not."""
    caught_up: Mapping[int, Collection[int]]
    """By round: the devices that were away before, and began with the last global state."""


class ReplayFleet(LocalFleet):
    """Has the devices that a recorded run found connected; liars have labels shifted by one.

    Where all that are connected are asked, these are the ones that were asked. Without what is
    ``told``, all that are asked train, and those have a download that confirmed it.
    """

    def __init__(
        self,
        scenario: Scenario,
        dataset: Dataset,
        rounds: list[dict[str, Any]],
        liars: Collection[int],
        told: Told | None = None,
    ) -> None:
        super().__init__(scenario, dataset)
        self._wire, self._told = scenario.wire, told
        if liars:
            self._lie(scenario, dataset, liars)
        self._connected: Iterator[Sequence[int]] = iter(())
        if scenario.config.participants_per_round == scenario.devices:
            self._connected = iter([info["asked"] for info in rounds])

    def _lie(self, scenario: Scenario, dataset: Dataset, liars: Collection[int]) -> None:
        learning, labels = scenario.learning, dataset.train_labels.copy()
        for device in liars:
            labels[self.parts[device]] = shift_labels(
                labels[self.parts[device]], dataset.num_labels
            )
        self._dataset = replace(dataset, train_labels=labels)
        own = learning.task.samples(self._dataset.train_inputs, self._dataset.train_values)
        self._samples = ReplayPool(scenario.wire, learning.stepper, own)

    def available(self) -> Sequence[int]:
        """Those of the next round; all after the last."""
        return next(self._connected, range(len(self.parts)))

    def train(self, states: Any, order: Order) -> tuple[PendingRound, LocalPhaseOutcome]:
        """Also those whose order was lost with the server that sent it."""
        pending, trained = super().train(states, order)
        others = set() if self._told is None else self._trained(order.round_number)
        if lost := sorted(others - set(order.asked)):
            before = self._states.read(states, lost)
            part = self.train_part(before, order._replace(asked=tuple(lost)))
            after = {device: settle(own, False) for device, own in part.after.items()}
            pending = PendingRound(states, {**pending.trained, **after})
        return pending, trained

    def _trained(self, number: int) -> set[int]:
        assert self._told is not None
        return {device for device, rounds in self._told.trained.items() if number in rounds}

    def train_part(self, before: Mapping[int, State], order: Order) -> TrainedShard:
        """Who caught up begins with the last global state; who did not train stays as it was."""
        if self._told is None:
            return super().train_part(before, order)
        started, number = dict(before), order.round_number
        for device in set(self._told.caught_up.get(number, ())) & before.keys():
            data = order.last_download()
            if data is not None:
                own = before[device]
                started[device] = receive(self._wire, own, self._wire.decode_download(data, [own]))
        part, did = super().train_part(started, order), self._trained(number)
        after = {
            device: own if device in did else before[device] for device, own in part.after.items()
        }
        return part._replace(after=after)

    def deliver(self, states: PendingRound, outcome: Outcome) -> tuple[Any, Delivered]:
        """Also to those whose confirmation was lost."""
        after, delivered = super().deliver(states, outcome)
        if self._told is None or outcome.download is None:
            return after, delivered
        number, heard = outcome.round_number, self._told.heard
        more = sorted({d for d in heard if number in heard[d]} - outcome.receivers)
        own = self._states.read(after, more)
        received = {
            d: receive(self._wire, state, self._wire.decode_download(outcome.download, [state]))
            for d, state in own.items()
        }
        return self._states.replaced(after, received), delivered


def rounds_of(path: Path) -> list[dict[str, Any]]:
    file = path / "rounds.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def diary(path: Path) -> str:
    file = path / "diary.log"
    return file.read_text() if file.exists() else ""


def assert_same_as_engine(
    path: Path, devices: Path, tmp_path: Path, liars: Collection[int] = (), told: Told | None = None
) -> None:
    """The simulator, with the same deliveries, has the same numbers, bit for bit."""
    result, of_engine = replayed(path, tmp_path, liars, told)
    for mine, theirs in compared(result, of_engine):
        assert mine == theirs
    deployed, simulated = (
        last_state(folder, result.config, alone)
        for folder, alone in ((path, True), (tmp_path / result.config.run_name, False))
    )
    assert_same_trees(deployed.tree()["server"], simulated.tree()["server"])
    if deployed.server.weights is not None:
        assert_same_trees(result.weights, of_engine.weights)
    np.testing.assert_array_equal(deployed.roster.uploaded, simulated.roster.uploaded)
    np.testing.assert_array_equal(deployed.roster.last_turn, simulated.roster.last_turn)
    for device, state in enumerate(simulated.devices):
        own = state_on_disk(path, devices, result.config, device, deployed)
        if own is not None or (told is None and deployed.roster.last_turn[device]):
            assert_same_trees(own, state)


def replayed(
    path: Path, folder: Path, liars: Collection[int] = (), told: Told | None = None
) -> tuple[RunResult, RunResult]:
    """A deployed run, and the simulator's with the same deliveries."""
    result = RunFolder(path).finished()
    assert result is not None, diary(path)
    stated = result.config.replace(computing_time="stated")

    def fleet(scenario: Scenario, dataset: Dataset, *_: Any) -> ReplayFleet:
        return ReplayFleet(scenario, dataset, result.rounds, liars, told)

    (of_engine,) = run(stated, folder, link=ReplayLink(result.rounds), fleet=fleet)
    return result, of_engine


def compared(
    result: RunResult, of_engine: RunResult
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each round twice, without what one of both cannot know."""
    config = of_engine.config
    scenario = make_simulation(config, load_dataset(config.data)).scenario
    exact = scenario.wire.upload_size(with_seeds=True).exact
    unheard: set[int] = set()
    for mine, theirs in zip(result.rounds, of_engine.rounds, strict=True):
        asked, heard = set(mine["asked"]), set(mine["uploads"]["devices"])
        if mine["uploads"]["attempted"]:
            unheard = (unheard | asked) - heard
        known = Known(unheard, scenario.reference, bits_up=exact or heard == asked)
        yield comparable(mine, known), comparable(theirs, known)


def last_state(path: Path, config: Config, devices_are_elsewhere: bool) -> RunState:
    """The state in a run's folder."""
    like = make_simulation(config, load_dataset(config.data)).start()
    if devices_are_elsewhere:
        like = replace(like, devices=np.zeros(config.data.devices, np.bool_))  # who is owed
    return load_checkpoint(path / "checkpoint.safetensors", like).state(like)


def state_on_disk(
    path: Path, devices: Path, config: Config, device: int, state: RunState
) -> State | None:
    """What a device would begin its next round with."""
    run_id = (path / "identity").read_text()
    store = Store(devices / f"device-{device}" / "state", run_id, device)
    own = store.up_to(config.rounds)
    if own is None:
        return None
    assert own.round == state.roster.last_turn[device]
    wire = make_simulation(config, load_dataset(config.data)).scenario.wire
    after = settle(own.state, delivered=own.round == state.roster.uploaded[device])
    if own.download is not None:
        after = receive(wire, after, wire.decode_download(own.download, [after]))
    if state.roster.listened[device] > own.round:  # it comes with the next order
        last = wire.encode_download(state.server, device).data
        after = receive(wire, after, wire.decode_download(last, [after]))
    return after


def assert_same_trees(mine: Any, theirs: Any) -> None:
    """Equal in form and in every bit."""
    assert difference(mine, theirs) is None
    _, tensors = flatten(mine)
    _, others = flatten(theirs)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, others[name], err_msg=name)


class Known(NamedTuple):
    """What a deployed server knows of a round."""

    unheard: set[int]
    """Devices whose last upload it has not heard: it knows an older accuracy of them."""
    reference: int
    bits_up: bool
    """False if it charged an upload that it never got by an upper bound."""


def comparable(info: dict[str, Any], known: Known) -> dict[str, Any]:
    """A round without what only a simulator knows; seconds are stated there and measured here."""
    timed = {"seconds", "slots", "slowest", "joules", "timing", "waiting"}
    kept = {name: value for name, value in info.items() if name not in timed}
    kept["waiting"] = info["waiting"]["policy"]
    accuracies = enumerate(info["scores"]["devices"])
    kept["scores"] = {
        "devices": [accuracy for device, accuracy in accuracies if device not in known.unheard],
        "global": info["scores"]["global"],
    }
    if known.reference in known.unheard:
        kept["curve"] = []
    else:
        kept["scores"]["reference"] = info["scores"]["reference"]
    kept["curve"] = [(p["step"], p["score"], p["event"]) for p in kept["curve"]]
    if not known.bits_up:
        kept["bits"] = {"down": info["bits"]["down"]}
    return kept
