"""What a device does when the server asks: train and upload. Everything else it has on its disk."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config
from mix2fld.data import cache_folder
from mix2fld.data.own_file import OwnArrays, read_own_file
from mix2fld.deploy.messages import Behind, Trained, TrainOrder
from mix2fld.deploy.store import Own, Store
from mix2fld.errors import InputError
from mix2fld.learning.compilation import keep_compiled_code
from mix2fld.learning.steps import one_hot
from mix2fld.learning.task import Task, make_task
from mix2fld.learning.xla import TestSet, Trainer, pick
from mix2fld.protocol import Protocol, get_protocol
from mix2fld.round.info import LocalPhase
from mix2fld.round.turns import device_turn, local_draws
from mix2fld.round.wire import decode_download, encode_upload, make_seeds
from mix2fld.types import Knowledge, Weights


class Start(NamedTuple):
    """Where a device's local phase begins."""

    weights: Weights
    teacher: NDArray[np.float32]  # [N_L, N_L]


def train(order: TrainOrder, config: Config, data: Path, store: Store) -> Trained | Behind:
    """One local phase on the device's own samples, and the upload that follows it."""
    own = store.before(order.round)
    if own is not None and own.round < order.round - 1 and not order.catch_up:
        return Behind(round=order.round)
    if own is None and order.round > 1 and not order.catch_up:
        return Behind(round=order.round)
    keep_compiled_code(cache_folder() / "compiled")
    with suppress(RuntimeError):  # only before JAX is first used
        jax.config.update("jax_num_cpu_devices", 1)
    samples = _read_samples(data, order)
    height, width, channels = order.sample_shape
    task = make_task(config, (height, width, channels), order.num_labels)
    protocol = get_protocol(config.protocols[0])
    start = _start(protocol, task, order, own)
    local = _local_phase(protocol, task, order, samples, start)
    weights = task.flatten(pick(local.weights, 0))
    seeds = None
    if order.with_seeds:
        seeds = make_seeds(protocol, task, order.device, samples.train_images, samples.train_labels)
    upload = encode_upload(protocol, task, Knowledge(weights, local.outputs[0]), seeds)
    accuracies = _accuracies(task, samples, local, order.watched)
    store.save(order.round, weights, start.teacher)
    return Trained(
        round=order.round,
        samples=len(samples.train_labels),
        upload=upload,
        accuracies=accuracies,
        seconds=local.seconds,
    )


def _read_samples(path: Path, order: TrainOrder) -> OwnArrays:
    try:
        samples = read_own_file(path, order.num_labels)
    except InputError as error:
        raise InputError(str(error).replace("dataset = ", "data = ", 1)) from None
    found = list(samples.train_images.shape[1:])
    if found != order.sample_shape:
        raise InputError(f"data = {path}: images are {found}; this run has {order.sample_shape}")
    return samples


def _start(protocol: Protocol, task: Task, order: TrainOrder, own: Own | None) -> Start:
    """The device as it was left, or as new; then what came down, the latest last."""
    labels = task.dims.num_labels
    if own is None:
        start = Start(task.initial_weights(order.device), np.zeros((labels, labels), np.float32))
    else:
        start = Start(task.unflatten(own.weights), own.teacher)
    for data in (own.download if own else None, order.download):
        if data is not None:
            received = decode_download(protocol, task, data)
            if received.weights is not None:
                start = start._replace(weights=task.unflatten(received.weights))
            if received.outputs is not None:
                start = start._replace(teacher=received.outputs)
    return start


def _local_phase(
    protocol: Protocol, task: Task, order: TrainOrder, samples: OwnArrays, start: Start
) -> LocalPhase:
    targets = one_hot(samples.train_labels, task.dims.num_labels)
    trainer = Trainer(task.learner, protocol.local_loss, samples.train_images, targets)
    draws = local_draws(task, order.round, order.device, len(targets))
    return device_turn(
        task,
        trainer,
        [order.device],
        jax.tree.map(lambda tensor: np.asarray(tensor)[None], start.weights),
        start.teacher[None],
        draws[None],
        order.round,
        watched=0,
    )


def _accuracies(task: Task, samples: OwnArrays, local: LocalPhase, watched: bool) -> list[float]:
    """At the end of the local phase, and if wanted at the times before it."""
    tests = TestSet(task.learner, samples.test_images, samples.test_labels)
    snapshots = local.snapshots if watched else local.snapshots[-1:]
    return tests.accuracies([weights for _, weights in snapshots])
