"""What a device does when the server asks: train and upload. Everything else it has on its disk."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mix2fld.config import Config
from mix2fld.data import cache_folder
from mix2fld.data.own_file import read_device_file
from mix2fld.deploy.messages import Behind, Trained, TrainOrder
from mix2fld.deploy.store import Own, Store
from mix2fld.device.noise import with_secret_noise
from mix2fld.device.uplinks import Turn
from mix2fld.errors import InputError
from mix2fld.learning.compilation import keep_compiled_code
from mix2fld.learning.losses import one_hot
from mix2fld.learning.make_task import make_task
from mix2fld.learning.replay import Extra
from mix2fld.learning.stepper import Draws, Start, TestSet, Watch, local_results, snapshot_steps
from mix2fld.learning.task import Task
from mix2fld.learning.training import model_in_use
from mix2fld.protocol import get_protocol
from mix2fld.round.checks import check_devices
from mix2fld.round.device_turn import (
    SEEDS_DUE,
    OwnSamples,
    Rows,
    begin_phase,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.round.wire import Wire
from mix2fld.types import Dataset, Samples, State, Tensors


def train(order: TrainOrder, config: Config, data: Path, store: Store) -> Trained | Behind:
    """One local phase on the device's own samples, and the upload that follows it."""
    own = store.up_to(order.last_turn)
    if (own.round if own else 0) < order.last_turn and not order.catch_up:
        return Behind(round=order.round)
    keep_compiled_code(cache_folder() / "compiled")
    with suppress(RuntimeError):  # only before JAX is first used
        jax.config.update("jax_num_cpu_devices", 1)
    samples = _read_samples(data, order)
    task = make_task(config, samples.samples, order.num_labels)
    protocol = get_protocol(config.protocols[0])
    wire, turn = Wire(protocol, task), Turn(task.seed, order.round, order.device, order.room)
    state = _begin(wire, task, order, own)

    held, start, draws = _begin_phase(wire, task, samples, state, turn)
    watch = Watch(0, snapshot_steps(config.learning.local_steps, config.curve_points))
    started = time.perf_counter()
    learned = task.stepper.train(protocol.local_loss, held, [start], [draws], watch)
    seconds = time.perf_counter() - started
    (local,) = local_results(learned.phases)
    check_devices(config, {order.device: local}, order.round)

    own_samples = OwnSamples(
        len(samples.train_labels), lambda: (samples.train_inputs, samples.train_labels)
    )
    packet, after = prepare_upload(wire, state, local, own_samples, turn, config.seeding.lost_seeds)
    snapshots = learned.snapshots if order.watched else learned.snapshots[-1:]
    used = [model_in_use(wire.training, start.weights, weights) for _, weights in snapshots]
    accuracies = _accuracies(task, samples, used)
    store.save(order.round, after)
    return Trained(
        round=order.round,
        samples=packet.samples,
        upload=packet.knowledge.data,
        bits=packet.knowledge.bits,
        seeds=packet.seeds.data if packet.seeds else None,
        accuracies=accuracies,
        seconds=seconds,
    )


def _read_samples(path: Path, order: TrainOrder) -> Dataset:
    try:
        return read_device_file(path, order.samples, order.num_labels)
    except InputError as error:
        raise InputError(str(error).replace("dataset = ", "data = ", 1)) from None


def _begin(wire: Wire, task: Task, order: TrainOrder, own: Own | None) -> State:
    """The device as it was left, or as new; then what came down, the latest last."""
    if own is None:
        state = with_secret_noise(start_device(wire, task, order.device))
        if order.uploaded:  # the device has lost what it sent
            state = {**state, **wire.uplink.forgotten(state)}
    else:
        state = settle(own.state, delivered=order.uploaded == own.round)
    if order.uploaded and SEEDS_DUE in state:  # also if the device has lost that it sent them
        state = {**state, SEEDS_DUE: np.array(False)}
    for data in (own.download if own else None, order.download):
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


def _accuracies(task: Task, samples: Dataset, models: list[Tensors]) -> list[float]:
    """At the end of the local phase, and if wanted at the times before it."""
    return TestSet(task.stepper, samples.test_inputs, samples.test_labels).accuracies(models)
