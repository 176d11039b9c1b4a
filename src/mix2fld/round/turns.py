"""The turns of a round, for the simulator and the deployment alike.

What a device does with its own data, and what the server does with what arrived. Who runs these,
and how bytes get from one to the other, is left to the caller.
"""

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.steps import average_outputs, draw_samples
from mix2fld.learning.task import Task
from mix2fld.learning.xla import Trainer, pick
from mix2fld.protocol import Protocol
from mix2fld.round.checks import check_devices, check_server
from mix2fld.round.clock import computing_seconds
from mix2fld.round.info import LocalPhase
from mix2fld.round.wire import global_update
from mix2fld.server.seed_sets import inversely_mixed
from mix2fld.streams import stream
from mix2fld.types import ServerState, Upload, Weights


def local_draws(task: Task, round_number: int, device: int, samples: int) -> NDArray[np.int32]:
    """Which of a device's own samples each of its steps uses: [K, B]."""
    config = task.config.learning
    rng = stream(task.seed, "draws", round_number, device)
    return draw_samples(rng, samples, config.local_steps, config.batch_size)


def device_turn(
    task: Task,
    trainer: Trainer,
    devices: Sequence[int],
    weights: Weights,
    teachers: NDArray[np.float32],
    draws: NDArray[np.int32],
    round_number: int,
    watched: int,
) -> LocalPhase:
    """The local phase of these devices; snapshots are of the one in place ``watched``."""
    started = time.perf_counter()
    points = task.config.curve_points
    phase, snapshots = trainer.local_phase(weights, teachers, draws, points, watched)
    seconds = time.perf_counter() - started
    outputs = np.stack([average_outputs(pick(phase, place)) for place in range(len(devices))])
    check_devices(task.config, devices, phase.weights, outputs, round_number)
    return LocalPhase(phase.weights, outputs, snapshots, seconds)


def server_turn(
    protocol: Protocol,
    task: Task,
    before: ServerState,
    inbox: Mapping[int, Upload],
    round_number: int,
) -> tuple[ServerState, float]:
    """The global update, and the seconds that it took, as stated or as measured."""
    started = time.perf_counter()
    after = global_update(protocol, task, before, inbox, round_number)
    measured = time.perf_counter() - started
    unmixes = protocol.prepare_seeds is inversely_mixed
    check_server(task.config, after.weights, unmixes, round_number)
    converted = after.seed_set is not None and after.updates > before.updates
    steps = task.config.learning.server_steps if converted else 0
    clock = task.config.clock
    return after, computing_seconds(clock, clock.server_step_us, steps, measured)


def sends_download(task: Task, before: ServerState, after: ServerState) -> bool:
    """Whether the server has something to send after its turn (decision 23)."""
    again = task.config.channel.no_uploads == "rebroadcast" and after.updates > 0
    return after.updates > before.updates or again


def seeds_due_at_first(protocol: Protocol, devices: int) -> NDArray[np.bool_]:
    """Which devices send seeds in the first round: all, if the protocol has seeds."""
    return np.full(devices, protocol.collect_seeds is not None)


def seeds_still_due(
    task: Task, due: NDArray[np.bool_], arrived: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which devices send seeds in the next round: those whose seeds were lost (decision 11)."""
    resend = task.config.seeding.lost_seeds == "resend"
    return due & ~arrived if resend else np.zeros_like(due)
