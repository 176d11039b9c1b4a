"""A host: a process of a cluster in which some of a run's devices take their turn.

It has its own core and reads the dataset from its node's memory, where it is once. Between rounds
it keeps the states of the devices that trained here last, so that they need not be sent again; the
driver has them, too, and whatever is lost with a host can be computed again elsewhere.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mix2fld.models.processor import CORES

if TYPE_CHECKING:
    from mix2fld.config import Config
    from mix2fld.fleet.local import LocalFleet
    from mix2fld.protocol import Protocol
    from mix2fld.round.fleet_interface import Order
    from mix2fld.round.scenario import Scenario
    from mix2fld.round.wire import Packet
    from mix2fld.types import Dataset, Model, State, Tensors


class RunPlan(NamedTuple):
    """What a host must know of a run."""

    config: "Config"
    row: "Protocol"
    model: "Model | None"


class ShardOrder(NamedTuple):
    """What the devices of one shard are asked to do in a round."""

    round_number: int
    devices: tuple[int, ...]
    reference: int
    evaluated: frozenset[int]
    rooms: Mapping[int, int]


class ShardAnswer(NamedTuple):
    """What came of it."""

    packets: "Mapping[int, Packet]"
    snapshots: "list[tuple[int, Tensors]]"
    """Of the reference device, if it is in this shard."""
    seconds: Mapping[int, float]


class ShardOutcome(NamedTuple):
    """How the round ended for the devices of one shard."""

    uploaded: frozenset[int]
    receivers: frozenset[int]
    download: bytes | None


class Host:
    """Devices of one shard after the other; imports nothing heavy before its cores are known."""

    def __init__(self, cores: int) -> None:
        os.environ[CORES] = str(cores)
        self._scenario: Scenario | None = None
        self._fleet: LocalFleet | None = None
        self._fault: Exception | None = None
        self._round = 0
        self._last: dict[int, State] = {}
        self._kept: dict[int, State] = {}
        self._models: dict[tuple[int, ...], Mapping[int, Tensors]] = {}
        self._underway: dict[tuple[int, ...], tuple[dict[int, State], Mapping[int, State]]] = {}

    def ready(self) -> dict[str, str]:
        """What this host computes with, once it is there."""
        from mix2fld.fleet.cluster import versions

        return versions()

    def pid(self) -> int:
        """Its process."""
        return os.getpid()

    def begin(self, plan: RunPlan, dataset: "Dataset") -> None:
        """Get ready for the devices of a run, and forget those of the last."""
        self._round, self._fault = 0, None
        self._last, self._kept, self._underway, self._models = {}, {}, {}, {}
        try:
            self._scenario, self._fleet = _make(plan, dataset)
        except Exception as error:
            self._fault = error  # for whoever asks for something that is needed

    def train(self, order: ShardOrder, sent: bytes) -> ShardAnswer:
        """The local phase of a shard; states that are not sent are those kept here."""
        from mix2fld.fleet.shard_messages import Known

        _, fleet = self._present()
        if order.round_number != self._round:
            self._round, self._last, self._kept = order.round_number, self._kept, {}
            self._underway, self._models = {}, {}
        states: dict[int, State] = Known({}).load(sent)
        before = {d: states[d] if d in states else self._last[d] for d in order.devices}
        part = fleet.train_part(before, _as_order(order))
        self._underway[order.devices] = before, part.after
        self._models[order.devices] = part.seen.weights
        return ShardAnswer(part.packets, part.seen.snapshots, part.seconds)

    def deliver(self, devices: tuple[int, ...], outcome: ShardOutcome) -> bytes:
        """The states of a shard after the round; what the driver has of them is named."""
        from mix2fld.fleet.local import conclude
        from mix2fld.fleet.shard_messages import Known

        scenario, _ = self._present()
        before, trained = self._underway.pop(devices)
        received = None
        if outcome.download is not None:
            received = scenario.wire.decode_download(outcome.download)
        after = conclude(scenario.wire, trained, outcome.uploaded, outcome.receivers, received)
        self._kept |= after
        return Known(before, received).dump(after)

    def measure(
        self, devices: tuple[int, ...], models: "Sequence[Tensors]"
    ) -> tuple[dict[int, float], list[float]]:
        """The accuracies of the devices of a shard that are evaluated, and of other models."""
        _, fleet = self._present()
        own = self._models.get(devices, {})
        found = fleet.measure_models([*own.values(), *models])
        return dict(zip(own, found[: len(own)], strict=True)), found[len(own) :]

    def _present(self) -> "tuple[Scenario, LocalFleet]":
        if self._fault is not None:
            raise self._fault
        assert self._scenario is not None
        assert self._fleet is not None
        return self._scenario, self._fleet


def _make(plan: RunPlan, dataset: "Dataset") -> "tuple[Scenario, LocalFleet]":
    from mix2fld.data import cache_folder
    from mix2fld.fleet.local import LocalFleet
    from mix2fld.learning.compilation import keep_compiled_code
    from mix2fld.learning.make_task import make_task
    from mix2fld.link import IdealLink
    from mix2fld.round.scenario import Scenario

    keep_compiled_code(cache_folder() / "compiled")
    task = make_task(plan.config, dataset.samples, dataset.num_labels, plan.model)
    scenario = Scenario(task, plan.row, IdealLink())  # what arrives is the driver's to say
    return scenario, LocalFleet(scenario, dataset)


def _as_order(order: ShardOrder) -> "Order":
    from mix2fld.round.fleet_interface import Order
    from mix2fld.round.state import Roster

    return Order(
        order.round_number,
        order.devices,
        order.reference,
        order.evaluated,
        Roster.empty(0),
        lambda: None,
        order.rooms,
    )
