"""The local phase: wherever devices are, theirs is this one.

A device in this process, on a host of a cluster, at the other end of a network, or in an audit:
each is a ``Learner`` here, and takes its steps on samples that a stepper holds.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from mix2fld.engine.device_turn import Rows, begin_phase
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import Turn
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.stepper import Draws, Watch, local_results, snapshot_steps
from mix2fld.tasks.training import model_in_use
from mix2fld.types import Local, State, Tensors


class Learner(NamedTuple):
    """Who takes steps: its state, its samples, and its turn."""

    state: State
    rows: Rows
    turn: Turn
    draws: Draws | None = None
    """In place of those that its turn draws."""


class PhaseResult(NamedTuple):
    """What learners have at the end of their local phase."""

    local: Mapping[int, Local]
    begun: Mapping[int, Tensors]
    """The weights that each began with."""
    snapshots: list[tuple[int, Tensors]]
    """Of the watched learner: steps done, weights."""
    seconds: float

    def in_use(self, wire: Wire, device: int) -> Tensors:
        """The model that a device uses until the next download."""
        return model_in_use(wire.training, self.begun[device], self.local[device].weights)

    def snapshots_in_use(self, wire: Wire, device: int) -> list[tuple[int, Tensors]]:
        """The same along the phase, of the watched device."""
        begun = self.begun[device]
        return [(step, model_in_use(wire.training, begun, now)) for step, now in self.snapshots]


def train_phase(
    wire: Wire,
    learning: Learning,
    held: Any,
    learners: Mapping[int, Learner],
    watched: int | None = None,
) -> PhaseResult:
    """The steps of all learners at once; the watched one is looked at on its way."""
    config = learning.config
    begun = [
        begin_phase(wire, learning, own.state, own.rows, own.turn) for own in learners.values()
    ]
    starts = [start for start, _ in begun]
    draws = [
        chosen if own.draws is None else own.draws
        for own, (_, chosen) in zip(learners.values(), begun, strict=True)
    ]
    places = {device: place for place, device in enumerate(learners)}
    steps = snapshot_steps(config.learning.local_steps, config.curve_points)
    watch = Watch(places.get(watched, 0) if watched is not None else 0, steps)
    started = time.perf_counter()
    loss = learning.task.local_loss(wire.protocol.local_loss)
    learned = learning.stepper.train(loss, held, starts, draws, watch)
    seconds = time.perf_counter() - started
    return PhaseResult(
        dict(zip(learners, local_results(learned.phases), strict=True)),
        {device: start.weights for device, start in zip(learners, starts, strict=True)},
        learned.snapshots if watched in places else [],
        seconds,
    )
