"""What is observed in a round: a line of ``rounds.jsonl``."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.engine.clock import Slowest
from mix2fld.engine.curve import MeasuredScores
from mix2fld.engine.energy import Busy, Power, Spent
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.engine.transfers import Transfer
from mix2fld.protocols.parts import StepInfo


class QuorumResult(NamedTuple):
    """Whether enough uploads arrived for the server to make its update."""

    needed: int
    arrived: int
    repeats: int
    """How often lost uploads were sent again."""

    @property
    def met(self) -> bool:
        """Whether the server takes the uploads."""
        return self.arrived >= self.needed


class Observed(NamedTuple):
    """Everything that happened in one round."""

    before: RunState
    asked: Mapping[int, float]  # devices that were asked, and the seconds of their local phase
    computed: Mapping[int, float]  # seconds that devices computed in the round
    slowest: Slowest  # of those that were asked
    up: Transfer
    down: Transfer
    quorum: QuorumResult
    after: RunState
    curve: list[dict[str, Any]]
    change: float | None
    waited: float  # seconds until the server took its step
    multicast: float  # seconds until the slowest had its download
    ended: Collection[int]  # devices whose turn is over
    spans: Sequence[Sequence[float | None]]
    staleness: Mapping[int, int]
    did: StepInfo  # the server, in its step
    far: Sequence[dict[str, Any]] = ()  # devices whose upload lies far from the rest
    beyond_history: Sequence[int] = ()  # listeners that lack more steps than the server keeps


@dataclass(frozen=True)
class RoundInfo:
    """What is kept of a round: a line of ``rounds.jsonl``."""

    round: int
    scores: dict[str, Any]
    """metric: what is measured; devices: those that are measured, ``measured`` says which, after
    their last local phase; reference: one of them; global: the server's model; further: the same
    of other metrics; baselines: simple predictions by name."""
    curve: list[dict[str, Any]]
    """Score of the reference device along the round, with the seconds of the run's clock."""
    asked: list[int]
    """Devices that were asked to take part; all others kept their state."""
    uploads: dict[str, Any]
    """attempted and delivered: how many; devices: those whose upload was delivered."""
    downloads: dict[str, Any]
    """The same; and beyond_history, if any: devices that lack more steps than the server keeps, so
    that it sends all weights."""
    bits: dict[str, int]
    """up: of all devices, lost uploads included; down: of the one multicast."""
    slots: dict[str, int]
    """Slots until the slowest device was done, T_max where there was an outage."""
    seconds: dict[str, float]
    slowest: dict[str, Any]
    """The device whose local phase took longest, and its seconds."""
    change: float | None
    """What the stopping rule compares with the tolerance."""
    converged: bool
    seeds: dict[str, int]
    quorum: dict[str, Any]
    """Uploads needed and arrived, how often they were repeated, and whether it was met."""
    joules: dict[str, Any]
    """transmit, receive, computing and idle: of all devices; devices: those that are measured."""
    timing: dict[str, list[float | None]]
    """computing, up and down: seconds of each measured device; None if it was not asked."""
    suspects: list[dict[str, Any]] = field(default_factory=list)
    """Devices whose upload lies far from the rest, and how far."""
    server: dict[str, Any] = field(default_factory=dict)
    """steps: SGD steps of the server; did: what it did, in words."""
    left_out: list[int] = field(default_factory=list)
    """Devices whose seeds were judged and are not used."""
    waiting: dict[str, Any] = field(default_factory=dict)
    """policy; idle: mean seconds that devices of the fleet did nothing. Unless all transmit at
    once, until: seconds of the round until the server took its step; down: of its multicast;
    staleness: steps since the order, by device whose upload was used; and of the devices that are
    measured, ended: whose turn is over; spans: device, and seconds of the round in which it stopped
    to compute, began and stopped to transmit."""


def record(seen: Observed, measured: MeasuredScores, scenario: Scenario) -> RoundInfo:
    """Write down what happened in a round."""
    asked, slowest, up, down, after = seen.asked, seen.slowest, seen.up, seen.down, seen.after
    before, change, quorum = seen.before, seen.change, seen.quorum
    seed_set = after.server.seed_set
    spent, idle = _spent(seen, scenario)
    return RoundInfo(
        round=after.round_number,
        scores={
            **_of_metric(0, scenario, after, measured),
            **_further(scenario, after, measured),
        },
        curve=seen.curve,
        asked=list(asked),
        uploads=_transfer_record(up),
        downloads={
            **_transfer_record(down),
            **({"beyond_history": list(seen.beyond_history)} if seen.beyond_history else {}),
        },
        bits={"up": int(up.bits.sum()), "down": int(down.bits.max(initial=0))},
        slots={
            "up": math.ceil(up.slots.max(initial=0)),
            "down": math.ceil(down.slots.max(initial=0)),
        },
        seconds={
            "communication": after.clock.communication - before.clock.communication,
            "computing": after.clock.computing - before.clock.computing,
        },
        slowest=slowest._asdict(),
        change=change,
        converged=change is not None and change < scenario.config.tolerance,
        seeds={
            "devices": len(after.server.seeds),
            "samples": 0 if seed_set is None else len(seed_set.targets),
            "distinct_groups": 0 if seed_set is None else seed_set.distinct_groups,
        },
        quorum={**quorum._asdict(), "met": quorum.met},
        joules=_joules(spent, scenario),
        timing=_timing(seen, scenario),
        suspects=[*seen.far, *seen.did.suspects],
        server={"steps": seen.did.steps, "did": seen.did.words},
        left_out=[] if seed_set is None else list(seed_set.left_out),
        waiting=_waiting(seen, scenario, idle),
    )


def _of_metric(
    place: int, scenario: Scenario, after: RunState, measured: MeasuredScores
) -> dict[str, Any]:
    """What one of the task's metrics is."""
    task, scores, server = scenario.learning.task, after.roster.scores, measured.of_server
    own, evaluated = scores if scores.ndim == 1 else scores[:, place], list(scenario.evaluated)
    return {
        "metric": asdict((task.metric, *task.further)[place]),
        "devices": [_known(score) for score in own[evaluated].tolist()],
        "measured": evaluated,
        "reference": measured.intermediate[-1][1][place],
        "global": None if server is None else server[place],
    }


def _further(scenario: Scenario, after: RunState, measured: MeasuredScores) -> dict[str, Any]:
    """The other metrics, and what simple predictions reach; neither is there for labels."""
    task = scenario.learning.task
    found: dict[str, Any] = {}
    if task.further:
        places = range(1, 1 + len(task.further))
        found["further"] = [_of_metric(n, scenario, after, measured) for n in places]
    if task.baselines:
        found["baselines"] = dict(task.baselines)
    return found


def _spent(seen: Observed, scenario: Scenario) -> tuple[Spent, NDArray[np.float64]]:
    """Joules of each device in the round, and its seconds of rest."""
    computing = np.zeros(scenario.devices)
    computing[list(seen.computed)] = list(seen.computed.values())
    slot, before, after = scenario.link.slot_seconds, seen.before.clock, seen.after.clock
    busy = Busy(seen.up.on_air * slot, seen.down.on_air * slot, computing)
    passed = after.communication + after.computing - before.communication - before.computing
    power = Power.from_config(scenario.config)
    return power.spent(busy, passed), busy.rest_of(passed)


def _joules(spent: Spent, scenario: Scenario) -> dict[str, Any]:
    """What all devices spent in the round, by what it was spent on."""
    totals = {name: float(part.sum()) for name, part in spent._asdict().items()}
    return {**totals, "devices": spent.total[list(scenario.evaluated)].tolist()}


def _waiting(seen: Observed, scenario: Scenario, idle: NDArray[np.float64]) -> dict[str, Any]:
    """What waiting cost, and what each device did meanwhile."""
    found = {"policy": scenario.config.availability.wait, "idle": float(idle.mean())}
    if scenario.policy.at_once:
        return found
    staleness = {str(device): steps for device, steps in seen.staleness.items()}
    spans = [span for span in seen.spans if span[0] in scenario.evaluated]
    ended = [device for device in scenario.evaluated if device in seen.ended]
    times = {"until": seen.waited, "down": seen.multicast, "ended": ended}
    return {**found, **times, "staleness": staleness, "spans": spans}


def _timing(seen: Observed, scenario: Scenario) -> dict[str, list[float | None]]:
    """How long each measured device computed, sent and listened."""
    slot = scenario.link.slot_seconds

    def on_link(transfer: Transfer) -> list[float | None]:
        slots = transfer.slots
        return [float(slots[d]) * slot if transfer.bits[d] else None for d in scenario.evaluated]

    computing = [seen.asked.get(device) for device in scenario.evaluated]
    return {"computing": computing, "up": on_link(seen.up), "down": on_link(seen.down)}


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score


def _transfer_record(transfer: Transfer) -> dict[str, Any]:
    return {
        "attempted": transfer.attempts,
        "delivered": int(transfer.arrived.sum()),
        "devices": np.flatnonzero(transfer.arrived).tolist(),
    }
