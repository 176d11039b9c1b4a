"""Devices on a Ray cluster: shards of those who take part, each in a host with its own core.

The driver is the server. The state of a device stays in the host where it trained; the driver hands
on what changed of it to wherever the run keeps it, as the fleet in this process does, and so writes
the same bytes. What is lost with a host is read back from there, and its shard computed again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mix2fld.base.errors import InputError, Mix2fldError, ResourceError
from mix2fld.engine.checks import check_countable
from mix2fld.engine.device_turn import start_device
from mix2fld.engine.divergence import global_refused
from mix2fld.engine.fleet_interface import Delivered, LocalPhaseOutcome, Order, Outcome, Scores
from mix2fld.engine.fleets.cluster import one_line, put
from mix2fld.engine.fleets.device_states import DeviceStates, StatesInMemory
from mix2fld.engine.fleets.hosts import Handle, Hosts
from mix2fld.engine.fleets.local import conclude, decoded, took
from mix2fld.engine.fleets.ray_host import (
    RunPlan,
    ShardAnswer,
    ShardOrder,
    UnknownStateError,
)
from mix2fld.engine.fleets.shard_messages import dump_states, load_states
from mix2fld.engine.masked_sums import PartialSum, Total, add_in_memory
from mix2fld.engine.scenario import Scenario, attackers_of
from mix2fld.tasks.base import Score
from mix2fld.types import Dataset, Model, State, Tensors

MOST_MOVES = 5
"""How often a shard may lose its host in a round."""
KEPT = "finished rounds are kept, and the same command resumes after them"


@dataclass(eq=False)
class Shard:
    """Devices that one host trains in a round."""

    order: ShardOrder
    states: Mapping[int, State]
    """Before the round."""
    host: Handle
    has: frozenset[int] = frozenset()
    """Devices whose states the host has."""
    trained_on: Handle = None
    moves: int = 0


class RayPendingRound(NamedTuple):
    """Devices between their local phase and the end of the round."""

    before: Any
    shards: list[Shard]


class ModelsOnHosts(NamedTuple):
    """Models to measure after a local phase: those of devices are where these trained."""

    shards: list[Shard]
    reference: int
    snapshots: list[tuple[int, Tensors]]  # of the reference device; empty if it was not asked


class RayFleet:
    """The devices of one run, on the hosts of a cluster."""

    def __init__(
        self,
        hosts: Hosts,
        scenario: Scenario,
        dataset: Dataset,
        model: Model | None = None,
        states: DeviceStates | None = None,
    ) -> None:
        check_countable(scenario.config)
        self._hosts, self._scenario = hosts, scenario
        self._ray = hosts.ray
        self._plan = hosts.ray.put(
            RunPlan(scenario.config, scenario.protocol, model, scenario.learning.task)
        )
        self._dataset = put(hosts.ray, dataset, "fleet = ray", "the dataset")
        self._begun: set[Handle] = set()
        self._homes: dict[int, Handle] = {}  # of devices whose state a host has
        self._states: DeviceStates = states or StatesInMemory()

    def start(self) -> Any:
        """Every device as its protocol's row begins it."""
        wire, learning = self._scenario.wire, self._scenario.learning
        alike = self._scenario.config.learning.initial_weights != "independent"
        self._homes = {}
        return self._states.start(
            self._scenario.devices, lambda device: start_device(wire, learning, device), alike=alike
        )

    def available(self) -> Sequence[int]:
        """All devices: in a simulation, none is ever away."""
        return range(self._scenario.devices)

    def train(self, states: Any, order: Order) -> tuple[RayPendingRound, LocalPhaseOutcome]:
        """The local phase of all devices that are asked, a shard to a host."""
        shards = self._shards(states, order) if order.asked else []
        answers: list[ShardAnswer] = self._ask(shards, self._train_shard)
        for shard, answer in zip(shards, answers, strict=True):
            for device in answer.forgotten:
                if self._homes.get(device) is shard.host:
                    del self._homes[device]
        messages = {d: message for answer in answers for d, message in answer.messages.items()}
        if order.asked and not messages:
            raise global_refused(order.round_number, len(order.asked))
        snapshots = next((answer.snapshots for answer in answers if answer.snapshots), [])
        seen = ModelsOnHosts(shards, order.reference, snapshots)
        seconds = {d: value for answer in answers for d, value in answer.seconds.items()}
        return RayPendingRound(states, shards), LocalPhaseOutcome(messages, seen, seconds)

    def deliver(self, states: RayPendingRound, outcome: Outcome) -> tuple[Any, Delivered]:
        """Settle the uploads and hand over the download, where devices are."""
        wire, (before, shards) = self._scenario.wire, states
        shared = put(self._ray, outcome, "fleet = ray", "the download", KEPT)
        others = self._states.read(before, outcome.others(outcome.asked))
        asked = {device: own for shard in shards for device, own in shard.states.items()}
        states_now = {**asked, **others}
        received = decoded(wire, outcome, states_now)
        elsewhere = self._at_home(others, outcome.round_number)

        def end_round(shard: Shard) -> Any:
            if shard in elsewhere:
                return shard.host.deliver.remote(shard.order.devices, shared, self._unknown(shard))
            if shard.trained_on is not shard.host:
                self._train_shard(shard)  # what it lost with its host, again
            return shard.host.deliver.remote(shard.order.devices, shared, None)

        everyone = [*shards, *elsewhere]
        after: dict[int, State] = {}
        for shard, data in zip(everyone, self._ask(everyone, end_round), strict=True):
            after |= load_states(data, shard.states, received)
            self._homes |= dict.fromkeys(shard.order.devices, shard.host)
        of_no_host = {device: others[device] for device in others.keys() - after.keys()}
        after |= conclude(wire, of_no_host, outcome, received)
        return self._states.replaced(before, after), took(outcome, states_now, received)

    def _at_home(self, states: Mapping[int, State], round_number: int) -> list[Shard]:
        """Devices that do not train, a shard for each host that has some of them."""
        by_host: dict[Handle, list[int]] = {}
        for device in states:
            if device in self._homes:
                by_host.setdefault(self._homes[device], []).append(device)
        return [
            Shard(
                ShardOrder(round_number, tuple(devices), 0, frozenset(), {}),
                {device: states[device] for device in devices},
                host,
                frozenset(devices),
            )
            for host, devices in by_host.items()
        ]

    def measure(self, observed: ModelsOnHosts, models: Sequence[Tensors]) -> Scores:
        """Devices where they trained; all other models are shared out evenly."""
        before_end = observed.snapshots[:-1]
        tested = [*(weights for _, weights in before_end), *models]
        shards = observed.shards or self._idle_shards(len(tested))
        shares = {shard: tested[place :: len(shards)] for place, shard in enumerate(shards)}

        def measure_shard(shard: Shard) -> Any:
            if shard.order.devices and shard.trained_on is not shard.host:
                self._train_shard(shard)
            self._begin_run(shard.host)
            return shard.host.measure.remote(shard.order.devices, shares[shard])

        answers = self._ask(shards, measure_shard)
        devices = {d: score for own, _ in answers for d, score in own.items()}
        found: list[Score] = [()] * len(tested)
        for place, (_, others) in enumerate(answers):
            found[place :: len(shards)] = others
        intermediate = [(step, found[n]) for n, (step, _) in enumerate(before_end)]
        if observed.snapshots:
            intermediate.append((observed.snapshots[-1][0], devices[observed.reference]))
        return Scores(devices, intermediate, found[len(before_end) :])

    def add_up(self, part: PartialSum) -> Total | None:
        """The devices' own exchange, in this process."""
        return add_in_memory(self._scenario, part)

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """Unless a device attacks, none of a simulation is dishonest: its payload has a fault."""
        if device in attackers_of(self._scenario.config):
            return
        raise InputError(f"round {round_number}: upload of device {device}: {reason}")

    def _shards(self, states: Any, order: Order) -> list[Shard]:
        hosts = self._hosts.ready()[: len(order.asked)]
        known = self._states.read(states, order.asked)
        shards = []
        for place, host in enumerate(hosts):
            devices = order.asked[_cut(order, place, hosts) : _cut(order, place + 1, hosts)]
            own = ShardOrder(
                order.round_number,
                devices,
                order.reference,
                order.evaluated.intersection(devices),
                {d: order.bit_budgets[d] for d in devices if d in order.bit_budgets},
            )
            has = frozenset(d for d in devices if self._homes.get(d) is host)
            shards.append(Shard(own, {d: known[d] for d in devices}, host, has))
        return shards

    def _idle_shards(self, count: int) -> list[Shard]:
        """Shards without devices, for models to measure in a round that asks nobody."""
        nobody = ShardOrder(0, (), 0, frozenset(), {})
        return [Shard(nobody, {}, host) for host in self._hosts.ready()[:count]]

    def _train_shard(self, shard: Shard) -> Any:
        self._begin_run(shard.host)
        shard.trained_on = shard.host
        return shard.host.train.remote(shard.order, self._unknown(shard))

    def _unknown(self, shard: Shard) -> bytes:
        """The states of a shard that its host does not have."""
        return dump_states({d: s for d, s in shard.states.items() if d not in shard.has}, {})

    def _begin_run(self, host: Handle) -> None:
        if host not in self._begun:
            self._begun.add(host)
            host.begin.remote(self._plan, self._dataset)

    def _ask(self, shards: Sequence[Shard], call: Callable[[Shard], Any]) -> list[Any]:
        """The answer for every shard; one whose host is lost is asked again elsewhere."""
        errors = self._ray.exceptions
        pending = {call(shard): place for place, shard in enumerate(shards)}
        answers: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        while pending:
            (done,), _ = self._ray.wait(list(pending), num_returns=1)
            place = pending.pop(done)
            try:
                answers[place] = self._ray.get(done)
            except errors.RayTaskError as error:
                if isinstance(error.cause, UnknownStateError):
                    shards[place].has = frozenset()
                    pending[call(shards[place])] = place
                else:
                    failures[place] = _failure(error)
            except errors.RayActorError as error:
                pending[call(self._moved(shards[place], error))] = place
            except errors.RayError as error:
                raise ResourceError(f"fleet = ray: {one_line(error)}; {KEPT}") from None
        if failures:
            raise failures[min(failures)]
        return [answers[place] for place in range(len(shards))]

    def _moved(self, shard: Shard, error: Exception) -> Shard:
        """A shard with another host."""
        self._hosts.lose(shard.host)
        shard.moves += 1
        if shard.moves > MOST_MOVES:
            raise ResourceError(
                f"fleet = ray: a host was lost {shard.moves} times in round "
                f"{shard.order.round_number} ({one_line(error)}); {KEPT}"
            ) from None
        shard.host, shard.has = self._hosts.another(shard.host), frozenset()
        return shard


def _failure(error: Any) -> Exception:
    """What went wrong in a host, as it would have here."""
    if isinstance(error.cause, MemoryError):
        return ResourceError(
            f"fleet = ray: a host is out of memory ({one_line(error.cause)}); {KEPT}"
        )
    return error.cause if isinstance(error.cause, Mix2fldError) else error


def _cut(order: Order, place: int, hosts: Sequence[Handle]) -> int:
    """Where the shard of a host begins: sizes differ by one at most."""
    return place * len(order.asked) // len(hosts)
