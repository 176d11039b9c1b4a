"""What is observed in a round: a line of ``rounds.jsonl``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.engine.clock import Clock, Slowest
from mix2fld.engine.energy import Busy, Power
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.types import Delivery


class Transfer(NamedTuple):
    """One direction of a round."""

    bits: NDArray[np.int64]  # [D], 0 for a device that has nothing to send or receive
    delivery: Delivery
    attempts: int

    @property
    def on_air(self) -> NDArray[np.float64]:
        """Slots in which each device sent or received."""
        found = self.delivery.on_air
        return self.delivery.slots.astype(np.float64) if found is None else found

    @property
    def arrived(self) -> NDArray[np.bool_]:
        """Devices for which something was sent and delivered."""
        return self.delivery.delivered & (self.bits > 0)


class Quorum(NamedTuple):
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
    computing: Mapping[int, float]  # seconds of each device that was asked to take part
    slowest: Slowest  # of these devices
    up: Transfer
    down: Transfer
    quorum: Quorum
    after: RunState
    change: float | None
    suspects: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class RoundInfo:
    """What is kept of a round: a line of ``rounds.jsonl``."""

    round: int
    scores: dict[str, Any]
    """metric: what is measured; devices: those that are measured, ``measured`` says which, after
    their last local phase; reference: one of them; global: the server's model."""
    curve: list[dict[str, Any]]
    """Score of the reference device along the round, with the seconds of the run's clock."""
    asked: list[int]
    """Devices that were asked to take part; all others kept their state."""
    uploads: dict[str, Any]
    """attempted and delivered: how many; devices: those whose upload was delivered."""
    downloads: dict[str, Any]
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
    left_out: list[int] = field(default_factory=list)
    """Devices whose seeds were judged and are not used."""


class Measured(NamedTuple):
    """Scores of a round, beside those of the devices."""

    intermediate: list[tuple[int, float]]  # of the reference device: steps done, score
    initial: float | None  # of the reference device before the first round
    of_server: float | None


def record(seen: Observed, measured: Measured, scenario: Scenario) -> RoundInfo:
    """Write down what happened in a round."""
    before, computing, slowest, up, down, quorum, after, change, suspects = seen
    reference, evaluated = scenario.reference, list(scenario.evaluated)
    scores = after.roster.scores
    curve = []
    if measured.initial is not None:
        curve.append(_curve_point(0, measured.initial, "start", before.clock))
    trained = before.clock.after(computing=slowest.seconds)
    of_reference = computing.get(reference, slowest.seconds)
    own = 1.0 if of_reference == slowest.seconds else of_reference / slowest.seconds
    steps = measured.intermediate[-1][0]
    done_before = before.round_number * steps
    for step, score in measured.intermediate:
        spent = (trained.computing - before.clock.computing) * step / steps
        clock = before.clock.after(computing=own * spent)
        curve.append(_curve_point(done_before + step, score, "local", clock))
    if down.arrived[reference] and measured.of_server is not None:
        end = done_before + steps
        curve.append(_curve_point(end, measured.of_server, "download", after.clock))

    seed_set = after.server.seed_set
    return RoundInfo(
        round=after.round_number,
        scores={
            "metric": asdict(scenario.learning.task.metric),
            "devices": [_known(score) for score in scores[evaluated].tolist()],
            "measured": evaluated,
            "reference": measured.intermediate[-1][1],
            "global": measured.of_server,
        },
        curve=curve,
        asked=list(computing),
        uploads=_transfer_record(up),
        downloads=_transfer_record(down),
        bits={"up": int(up.bits.sum()), "down": int(down.bits.max(initial=0))},
        slots={
            "up": int(up.delivery.slots.max(initial=0)),
            "down": int(down.delivery.slots.max(initial=0)),
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
        joules=_joules(seen, scenario),
        timing=_timing(seen, scenario),
        suspects=list(suspects),
        left_out=[] if seed_set is None else list(seed_set.left_out),
    )


def _joules(seen: Observed, scenario: Scenario) -> dict[str, Any]:
    """What all devices spent in the round, by what it was spent on."""
    computing = np.zeros(scenario.devices)
    computing[list(seen.computing)] = list(seen.computing.values())
    slot, before, after = scenario.link.slot_seconds, seen.before.clock, seen.after.clock
    busy = Busy(seen.up.on_air * slot, seen.down.on_air * slot, computing)
    passed = after.communication + after.computing - before.communication - before.computing
    spent = Power.from_config(scenario.config).spent(busy, passed)
    totals = {name: float(part.sum()) for name, part in spent._asdict().items()}
    return {**totals, "devices": spent.total[list(scenario.evaluated)].tolist()}


def _timing(seen: Observed, scenario: Scenario) -> dict[str, list[float | None]]:
    """How long each measured device computed, sent and listened."""
    slot, asked = scenario.link.slot_seconds, seen.computing

    def on_link(transfer: Transfer) -> list[float | None]:
        slots = transfer.delivery.slots
        return [float(slots[d]) * slot if transfer.bits[d] else None for d in scenario.evaluated]

    computing = [asked.get(device) for device in scenario.evaluated]
    return {"computing": computing, "up": on_link(seen.up), "down": on_link(seen.down)}


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score


def _curve_point(step: int, score: float, event: str, clock: Clock) -> dict[str, Any]:
    return {
        "step": step,
        "score": score,
        "event": event,
        "communication": clock.communication,
        "computing": clock.computing,
    }


def _transfer_record(transfer: Transfer) -> dict[str, Any]:
    return {
        "attempted": transfer.attempts,
        "delivered": int(transfer.arrived.sum()),
        "devices": np.flatnonzero(transfer.arrived).tolist(),
    }
