"""Devices on a Ray cluster: shards of those who take part, each in a host with its own core.

The driver is the server; it keeps the states of all devices as the fleet in this process does, and
writes the same bytes. A host that is lost takes with it what a shard computed in this round, which
another host computes again from the same states.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mix2fld.errors import InputError
from mix2fld.fleet.cluster import one_line, put
from mix2fld.fleet.device_states import DeviceStates, StatesInMemory, StatesOnDisk
from mix2fld.fleet.hosts import Handle, Hosts
from mix2fld.fleet.ray_host import RunPlan, ShardAnswer, ShardOrder, ShardOutcome
from mix2fld.fleet.shard_messages import Known
from mix2fld.round.checks import check_countable, global_refused
from mix2fld.round.device_turn import receive, start_device
from mix2fld.round.fleet_interface import Accuracies, Delivered, Order, Outcome, Trained
from mix2fld.round.scenario import Scenario, attackers_of
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


class Underway(NamedTuple):
    """Devices between their local phase and the end of the round."""

    before: Any
    shards: list[Shard]


class Seen(NamedTuple):
    """Models to measure after a local phase: those of devices are where these trained."""

    shards: list[Shard]
    reference: int
    snapshots: list[tuple[int, Tensors]]  # of the reference device; empty if it was not asked


class RayFleet:
    """The devices of one run, on the hosts of a cluster."""

    def __init__(
        self, hosts: Hosts, scenario: Scenario, dataset: Dataset, model: Model | None = None
    ) -> None:
        check_countable(scenario.config)
        self._hosts, self._scenario = hosts, scenario
        self._ray = hosts.ray
        self._plan = hosts.ray.put(RunPlan(scenario.config, scenario.protocol, model))
        self._dataset = put(hosts.ray, dataset, "fleet = ray", "the dataset")
        self._begun: set[Handle] = set()
        self._kept: dict[int, Handle] = {}
        on_disk = scenario.config.device_states == "disk"
        self._states: DeviceStates = StatesOnDisk() if on_disk else StatesInMemory()

    def start(self) -> Any:
        """Every device as its protocol's row begins it."""
        wire, task = self._scenario.wire, self._scenario.task
        alike = self._scenario.config.learning.initial_weights != "independent"
        self._kept = {}
        return self._states.start(
            self._scenario.devices, lambda device: start_device(wire, task, device), alike=alike
        )

    def available(self) -> Sequence[int]:
        """All devices, always."""
        return range(self._scenario.devices)

    def train(self, states: Any, order: Order) -> tuple[Underway, Trained]:
        """The local phase of all devices that are asked, a shard to a host."""
        shards = self._shards(states, order) if order.asked else []
        answers: list[ShardAnswer] = self._ask(shards, self._train_shard)
        packets = {d: packet for answer in answers for d, packet in answer.packets.items()}
        if order.asked and not packets:
            raise global_refused(order.round_number, len(order.asked))
        snapshots = next((answer.snapshots for answer in answers if answer.snapshots), [])
        seen = Seen(shards, order.reference, snapshots)
        seconds = {d: value for answer in answers for d, value in answer.seconds.items()}
        return Underway(states, shards), Trained(packets, seen, seconds)

    def deliver(self, states: Underway, outcome: Outcome) -> tuple[Any, Delivered]:
        """Settle the uploads where devices are; who only listened takes the download over here."""
        wire, (before, shards) = self._scenario.wire, states
        received = None if outcome.download is None else wire.decode_download(outcome.download)
        ends = {
            shard: ShardOutcome(
                outcome.uploaded.intersection(shard.order.devices),
                outcome.receivers.intersection(shard.order.devices),
                outcome.download,
            )
            for shard in shards
        }

        def settle_shard(shard: Shard) -> Any:
            if shard.trained_on is not shard.host:
                self._train_shard(shard)  # what it lost with its host, again
            return shard.host.deliver.remote(shard.order.devices, ends[shard])

        answers = self._ask(shards, settle_shard)
        after: dict[int, State] = {}
        for shard, data in zip(shards, answers, strict=True):
            after |= Known(shard.states, received).load(data)
            self._kept.update(dict.fromkeys(shard.order.devices, shard.host))
        if received is not None:
            for device in sorted(outcome.receivers.difference(after)):
                after[device] = receive(wire, self._states.read(before, device), received)
                self._kept.pop(device, None)
        return self._states.replaced(before, after), Delivered(outcome.receivers)

    def measure(self, observed: Seen, models: Sequence[Tensors]) -> Accuracies:
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
        devices = {d: accuracy for own, _ in answers for d, accuracy in own.items()}
        found = [0.0] * len(tested)
        for place, (_, others) in enumerate(answers):
            found[place :: len(shards)] = others
        on_the_way = [(step, found[n]) for n, (step, _) in enumerate(before_end)]
        if observed.snapshots:
            on_the_way.append((observed.snapshots[-1][0], devices[observed.reference]))
        return Accuracies(devices, on_the_way, found[len(before_end) :])

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """Unless a device attacks, none of a simulation is dishonest: its payload has a fault."""
        if device in attackers_of(self._scenario.config):
            return
        raise InputError(f"round {round_number}: upload of device {device}: {reason}")

    def _shards(self, states: Any, order: Order) -> list[Shard]:
        hosts = self._hosts.ready()[: len(order.asked)]
        shards = []
        for place, host in enumerate(hosts):
            devices = order.asked[_cut(order, place, hosts) : _cut(order, place + 1, hosts)]
            own = ShardOrder(
                order.round_number,
                devices,
                order.reference,
                order.evaluated.intersection(devices),
                {d: order.rooms[d] for d in devices if d in order.rooms},
            )
            before = {device: self._states.read(states, device) for device in devices}
            has = frozenset(d for d in devices if self._kept.get(d) is host)
            shards.append(Shard(own, before, host, has))
        self._kept = {}  # hosts forget all but those who train now
        return shards

    def _idle_shards(self, count: int) -> list[Shard]:
        """Shards without devices, for models to measure in a round that asks nobody."""
        nobody = ShardOrder(0, (), 0, frozenset(), {})
        return [Shard(nobody, {}, host) for host in self._hosts.ready()[:count]]

    def _train_shard(self, shard: Shard) -> Any:
        self._begin_run(shard.host)
        states = {d: state for d, state in shard.states.items() if d not in shard.has}
        shard.trained_on = shard.host
        return shard.host.train.remote(shard.order, Known({}).dump(states))

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
                failures[place] = error.cause if isinstance(error.cause, InputError) else error
            except errors.RayActorError as error:
                pending[call(self._moved(shards[place], error))] = place
            except errors.RayError as error:
                raise InputError(f"fleet = ray: {one_line(error)}; {KEPT}") from None
        if failures:
            raise failures[min(failures)]
        return [answers[place] for place in range(len(shards))]

    def _moved(self, shard: Shard, error: Exception) -> Shard:
        """A shard with another host."""
        self._hosts.lose(shard.host)
        shard.moves += 1
        if shard.moves > MOST_MOVES:
            raise InputError(
                f"fleet = ray: a host was lost {shard.moves} times in round "
                f"{shard.order.round_number} ({one_line(error)}); {KEPT}"
            ) from None
        shard.host, shard.has = self._hosts.another(shard.host), frozenset()
        return shard


def _cut(order: Order, place: int, hosts: Sequence[Handle]) -> int:
    """Where the shard of a host begins: sizes differ by one at most."""
    return place * len(order.asked) // len(hosts)
