"""A host: a process of a cluster in which some of a run's devices take their turn.

It has its own core and reads the dataset from its node's memory, where it is once. The states of
the devices that trained here stay here: they hear downloads and train again without being sent.
The driver writes what changes in them; what is lost with a host comes back from there.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mix2fld.base.custom_code import search_also
from mix2fld.native.processor import CORES

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.engine.fleet_interface import Order, Outcome
    from mix2fld.engine.fleets.local import LocalFleet
    from mix2fld.engine.messages import Message
    from mix2fld.engine.scenario import Scenario
    from mix2fld.protocols.base import Protocol
    from mix2fld.tasks.base import Score, Task
    from mix2fld.types import Dataset, Model, State, Tensors


class RunPlan(NamedTuple):
    """What a host must know of a run."""

    config: "Config"
    row: "Protocol"
    model: "Model | None"
    task: "Task"


class ShardOrder(NamedTuple):
    """What the devices of one shard are asked to do in a round."""

    round_number: int
    devices: tuple[int, ...]
    reference: int
    evaluated: frozenset[int]
    bit_budgets: Mapping[int, int]


class ShardAnswer(NamedTuple):
    """What a shard of devices returns to the driver."""

    messages: "Mapping[int, Message]"
    snapshots: "list[tuple[int, Tensors]]"
    """Of the reference device, if it is in this shard."""
    seconds: Mapping[int, float]
    forgotten: tuple[int, ...]
    """Devices whose states this host has let go."""


class UnknownStateError(Exception):
    """A host is asked for the state of a device that it does not have."""


KEPT_BYTES = 1 << 30
"""Most that a host keeps of devices that do not train now."""


class Host:
    """Devices of one shard after the other; imports nothing heavy before its cores are known."""

    def __init__(self, cores: int, folders: Sequence[str] = ()) -> None:
        """``folders``: where the driver finds modules."""
        os.environ[CORES] = str(cores)
        search_also(folders)
        self._scenario: Scenario | None = None
        self._fleet: LocalFleet | None = None
        self._fault: Exception | None = None
        self._round = 0
        self._kept: OrderedDict[int, State] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._models: dict[tuple[int, ...], Mapping[int, Tensors]] = {}
        self._pending: dict[tuple[int, ...], tuple[dict[int, State], Mapping[int, State]]] = {}

    def ready(self) -> dict[str, str]:
        """What this host computes with, once it has started."""
        from mix2fld.engine.fleets.cluster import versions

        return versions()

    def pid(self) -> int:
        """The process id of the host."""
        return os.getpid()

    def begin(self, plan: RunPlan, dataset: "Dataset") -> None:
        """Get ready for the devices of a run, and forget those of the last."""
        self._round, self._fault = 0, None
        self._kept, self._sizes = OrderedDict(), {}
        self._pending, self._models = {}, {}
        try:
            self._scenario, self._fleet = _make(plan, dataset)
        except Exception as error:
            self._fault = error  # raised when something that is needed is asked for

    def train(self, order: ShardOrder, sent: bytes) -> ShardAnswer:
        """The local phase of a shard; states that are not sent are those kept here."""
        _, fleet = self._present()
        forgotten: tuple[int, ...] = ()
        if order.round_number != self._round:
            self._round, self._pending, self._models = order.round_number, {}, {}
            forgotten = self._make_room(frozenset(order.devices))
        before = self._before(order.devices, sent)
        part = fleet.train_part(before, _as_order(order))
        self._pending[order.devices] = before, part.after
        self._models[order.devices] = part.seen.weights
        return ShardAnswer(part.messages, part.seen.snapshots, part.seconds, forgotten)

    def deliver(self, devices: tuple[int, ...], outcome: "Outcome", sent: bytes | None) -> bytes:
        """The states of a shard after the round; what the driver has of them is named.

        ``sent``: states that this host lacks, of a shard that did not train; None: of one that did.
        """
        from mix2fld.engine.fleets.local import conclude, decoded

        scenario, _ = self._present()
        if sent is None:
            before, trained = self._pending.pop(devices)
        else:
            before = trained = self._before(devices, sent)
        received = decoded(scenario.wire, outcome, trained)
        return self._keep(conclude(scenario.wire, trained, outcome, received), before, received)

    def measure(
        self, devices: tuple[int, ...], models: "Sequence[Tensors]"
    ) -> "tuple[dict[int, Score], list[Score]]":
        """The scores of the devices of a shard that are evaluated, and of other models."""
        _, fleet = self._present()
        own = self._models.get(devices, {})
        found = fleet.measure_models([*own.values(), *models])
        return dict(zip(own, found[: len(own)], strict=True)), found[len(own) :]

    def _before(self, devices: tuple[int, ...], sent: bytes) -> "dict[int, State]":
        """The states that were sent, and of the other devices those kept here."""
        from mix2fld.engine.fleets.shard_messages import load_states

        states = load_states(sent, {})
        if unknown := set(devices) - states.keys() - self._kept.keys():
            raise UnknownStateError(f"devices {sorted(unknown)[:5]}")
        return {d: states[d] if d in states else self._kept[d] for d in devices}

    def _keep(
        self, after: "dict[int, State]", before: "dict[int, State]", received: "State | None"
    ) -> bytes:
        """Keep the states after a round; what the driver does not know of them is sent."""
        from mix2fld.engine.fleets.shard_messages import dump_states, own_bytes

        for device, state in after.items():
            self._kept[device] = state
            self._kept.move_to_end(device)
            self._sizes[device] = own_bytes(state, received)
        return dump_states(after, before, received)

    def _make_room(self, needed: frozenset[int]) -> tuple[int, ...]:
        """Forget states that have nothing of their own, and those longest not used if too many."""
        total, forgotten = sum(self._sizes.values()), []
        for device in [d for d in self._kept if d not in needed]:
            if not self._sizes[device] or total > KEPT_BYTES:
                total -= self._sizes.pop(device)
                del self._kept[device]
                forgotten.append(device)
        return tuple(forgotten)

    def _present(self) -> "tuple[Scenario, LocalFleet]":
        if self._fault is not None:
            raise self._fault
        assert self._scenario is not None
        assert self._fleet is not None
        return self._scenario, self._fleet


def _make(plan: RunPlan, dataset: "Dataset") -> "tuple[Scenario, LocalFleet]":
    from mix2fld.base.folders import cache_folder
    from mix2fld.engine.fleets.local import LocalFleet
    from mix2fld.engine.scenario import Scenario
    from mix2fld.links import IdealLink
    from mix2fld.tasks.compilation import keep_compiled_code
    from mix2fld.tasks.make_learning import make_learning

    keep_compiled_code(cache_folder() / "compiled")
    learning = make_learning(plan.config, dataset.samples, plan.task, plan.model)
    scenario = Scenario(learning, plan.row, IdealLink())  # what arrives is the driver's to say
    return scenario, LocalFleet(scenario, dataset)


def _as_order(order: ShardOrder) -> "Order":
    from mix2fld.engine.fleet_interface import Order
    from mix2fld.engine.state import Roster

    return Order(
        order.round_number,
        order.devices,
        order.reference,
        order.evaluated,
        Roster.empty(0),
        lambda _=None: None,
        order.bit_budgets,
    )
