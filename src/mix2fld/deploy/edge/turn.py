"""A device's turn: from what is on its disk and what the server asks to its upload."""

import time
from typing import Any, NamedTuple

import numpy as np

from mix2fld.deploy.edge.store import Own, Store
from mix2fld.engine.checks import check_devices
from mix2fld.engine.device_turn import (
    SEEDS_DUE,
    OwnSamples,
    Rows,
    begin_phase,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.engine.wire import Packet, Wire
from mix2fld.protocols.base import Turn
from mix2fld.protocols.noise import with_secret_noise
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.losses import one_hot
from mix2fld.tasks.replay import Extra
from mix2fld.tasks.stepper import Draws, Start, TestSet, Watch, local_results, snapshot_steps
from mix2fld.tasks.task import Task
from mix2fld.tasks.training import model_in_use
from mix2fld.types import Dataset, Samples, State


class Ask(NamedTuple):
    """What the server asks of one device in one round, whatever carried it."""

    device: int
    round: int
    uploaded: int
    """The last round whose upload the server took from this device; 0 for none."""
    last_turn: int
    """The round that the device should have been through last; 0 for none."""
    watched: bool
    """Whether accuracy is wanted along the local phase, not only at its end."""
    catch_up: bool = False
    """The device said that it is behind: it continues from what is here, or from what it has."""
    download: bytes | None = None
    room: int | None = None
    """Bits that the upload may take, if their number is automatic."""


class Turned(NamedTuple):
    """What came of it."""

    packet: Packet
    accuracies: list[float]
    seconds: float


def is_behind(ask: Ask, own: Own | None) -> bool:
    """Whether the device missed a round, or lost its state, and was not told to continue."""
    return (own.round if own else 0) < ask.last_turn and not ask.catch_up


def take_turn(ask: Ask, task: Task, samples: Dataset, store: Store) -> Turned:
    """One local phase on the device's own samples, and the upload that follows it."""
    config, protocol = task.config, get_protocol(task.config.protocol)
    wire, turn = Wire(protocol, task), Turn(task.seed, ask.round, ask.device, ask.room)
    state = _begin(wire, task, ask, store.up_to(ask.last_turn))

    held, start, draws = _begin_phase(wire, task, samples, state, turn)
    watch = Watch(0, snapshot_steps(config.learning.local_steps, config.curve_points))
    started = time.perf_counter()
    learned = task.stepper.train(protocol.local_loss, held, [start], [draws], watch)
    seconds = time.perf_counter() - started
    (local,) = local_results(learned.phases)
    check_devices(config, {ask.device: local}, ask.round)

    own_samples = OwnSamples(
        len(samples.train_labels), lambda: (samples.train_inputs, samples.train_labels)
    )
    packet, after = prepare_upload(wire, state, local, own_samples, turn, config.seeding.lost_seeds)
    snapshots = learned.snapshots if ask.watched else learned.snapshots[-1:]
    used = [model_in_use(wire.training, start.weights, weights) for _, weights in snapshots]
    tests = TestSet(task.stepper, samples.test_inputs, samples.test_labels)
    accuracies = tests.accuracies(used)
    store.save(ask.round, after)
    return Turned(packet, accuracies, seconds)


def _begin(wire: Wire, task: Task, ask: Ask, own: Own | None) -> State:
    """The device as it was left, or as new; then what came down, the latest last."""
    if own is None:
        state = with_secret_noise(start_device(wire, task, ask.device))
        if ask.uploaded:  # the device has lost what it sent
            state = {**state, **wire.uplink.forgotten(state)}
    else:
        state = settle(own.state, delivered=ask.uploaded == own.round)
    if ask.uploaded and SEEDS_DUE in state:  # also if the device has lost that it sent them
        state = {**state, SEEDS_DUE: np.array(False)}
    for data in (own.download if own else None, ask.download):
        if data is not None:
            state = receive(wire, state, wire.decode_download(data))
    return state


def _begin_phase(
    wire: Wire, task: Task, samples: Dataset, state: State, turn: Turn
) -> tuple[Any, Start, Draws]:
    """What the stepper reads from, and the beginning of the local phase."""
    own = Samples(samples.train_inputs, one_hot(samples.train_labels, task.dims.num_labels))
    replayed = wire.replayed_samples(state)
    extra = None if replayed is None else Samples(replayed.inputs, replayed.targets)
    seeds = None if extra is None else Extra(len(own.targets), extra.targets)
    rows = Rows(
        np.arange(len(own.targets)),
        lambda: samples.train_labels,
        lambda: (samples.train_inputs, samples.train_labels),
        seeds,
    )
    return task.stepper.hold(own, extra), *begin_phase(wire, task, state, rows, turn)
