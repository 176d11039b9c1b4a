"""Plays rounds of a protocol with all devices on this machine."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld.data import check_labels_covered, partition
from mix2fld.learning.steps import one_hot
from mix2fld.learning.task import Task
from mix2fld.learning.xla import TestSet, Trainer, pick
from mix2fld.link import Direction, Link, check_delivery
from mix2fld.models.processor import usable_cores
from mix2fld.protocol import Protocol
from mix2fld.round.checks import check_countable
from mix2fld.round.clock import Clock, computing_seconds, transfer_seconds
from mix2fld.round.info import LocalPhase, Round, RoundInfo, RunState, Transfer, measure, record
from mix2fld.round.turns import (
    device_turn,
    local_draws,
    seeds_due_at_first,
    seeds_still_due,
    sends_download,
    server_turn,
)
from mix2fld.round.wire import (
    decode_download,
    decode_upload,
    download_bits,
    encode_download,
    encode_upload,
    make_seeds,
    upload_bits,
)
from mix2fld.server.convergence import relative_change
from mix2fld.streams import stream
from mix2fld.types import Dataset, Knowledge, Seeds, ServerState, Upload, Weights


class Simulation:
    """One protocol, one seed: devices, link and server of a single run."""

    def __init__(self, task: Task, protocol: Protocol, dataset: Dataset, link: Link) -> None:
        config = task.config
        check_countable(config)
        self.task, self.protocol, self.link = task, protocol, link
        self.parts = partition(
            dataset.train_labels, config.data, dataset.num_labels, stream(task.seed, "partition")
        )
        check_labels_covered(dataset.train_labels, self.parts, dataset.num_labels)
        self.dataset = dataset
        self.reference = int(stream(task.seed, "reference").integers(config.data.devices))
        targets = one_hot(dataset.train_labels, dataset.num_labels)
        self.trainer = Trainer(task.learner, protocol.local_loss, dataset.train_images, targets)
        tested = config.data.test_samples or len(dataset.test_labels)
        samples = dataset.test_images[:tested], dataset.test_labels[:tested]
        self.tests = TestSet(task.learner, *samples)
        self._cold = True

    def start(self) -> RunState:
        """The state before the first round."""
        devices, labels = len(self.parts), self.task.dims.num_labels
        initial = [self.task.initial_weights(device) for device in range(devices)]
        return RunState(
            round_number=0,
            weights=jax.tree.map(lambda *tensors: np.stack(tensors), *initial),
            teachers=np.zeros((devices, labels, labels), np.float32),
            seeds_due=seeds_due_at_first(self.protocol, devices),
            server=ServerState(),
            clock=Clock(),
        )

    def run_round(self, state: RunState) -> tuple[RunState, RoundInfo]:
        """One global update: local phase, upload, server step, download."""
        if self._cold and self.task.config.clock.computing_time == "measured":
            self._cold = False
            self.run_round(state)  # so that compiling is not measured as computing
        round_number = state.round_number + 1
        local = self._local_phase(state, round_number)
        inbox, up, seeds_due = self._upload(state, local, round_number)

        server, server_seconds = server_turn(
            self.protocol, self.task, state.server, inbox, round_number
        )
        weights, teachers, down = self._download(state, local, server, round_number)
        trained = state.clock.after(computing=self._device_seconds(local.seconds))
        clock = trained.after(
            communication=transfer_seconds(self.link, up.delivery)
            + transfer_seconds(self.link, down.delivery),
            computing=server_seconds,
        )
        after = RunState(round_number, weights, teachers, seeds_due, server, clock)
        played = Round(state, trained, up, down, after, relative_change(state.server, server))
        measured = measure(played, local, self.tests, self.reference)
        return after, record(played, measured, self.reference, self.task.config.tolerance)

    def _local_phase(self, state: RunState, round_number: int) -> LocalPhase:
        devices = range(len(self.parts))
        draws = self.draws(round_number)
        return device_turn(
            self.task,
            self.trainer,
            devices,
            state.weights,
            state.teachers,
            draws,
            round_number,
            self.reference,
        )

    def _device_seconds(self, measured: float) -> float:
        """Time of the local phase, which takes as long on every device."""
        clock, steps = self.task.config.clock, self.task.config.learning.local_steps
        share = min(1.0, usable_cores() / len(self.parts))
        return computing_seconds(clock, clock.device_step_us, steps, measured * share)

    def draws(self, round_number: int) -> NDArray[np.int32]:
        """Rows of the training set that each step of each device uses: [D, K, B]."""
        return np.stack(
            [
                part[local_draws(self.task, round_number, device, len(part))]
                for device, part in enumerate(self.parts)
            ]
        ).astype(np.int32)

    def _upload(
        self, state: RunState, local: LocalPhase, round_number: int
    ) -> tuple[dict[int, Upload], Transfer, NDArray[np.bool_]]:
        """Send every device's upload; what arrives is decoded from the bytes that were sent."""
        protocol, task = self.protocol, self.task
        bits = np.array([upload_bits(protocol, task, bool(due)) for due in state.seeds_due])
        transfer = self._transmit("uplink", bits, round_number)
        inbox = {}
        for device in np.flatnonzero(transfer.arrived).tolist():
            seeds = self.make_seeds(device) if state.seeds_due[device] else None
            own = Knowledge(task.flatten(pick(local.weights, device)), local.outputs[device])
            data = encode_upload(protocol, task, own, seeds)
            inbox[device] = decode_upload(
                protocol, task, data, len(self.parts[device]), with_seeds=seeds is not None
            )
        return inbox, transfer, seeds_still_due(task, state.seeds_due, transfer.arrived)

    def make_seeds(self, device: int) -> Seeds | None:
        """The seeds that a device uploads."""
        part = self.parts[device]
        return make_seeds(
            self.protocol,
            self.task,
            device,
            self.dataset.train_images[part],
            self.dataset.train_labels[part],
        )

    def check_seeds(self) -> None:
        """Raise ``InputError`` if the seeds of all devices together would not do."""
        seeds = {d: made for d in range(len(self.parts)) if (made := self.make_seeds(d))}
        if self.protocol.prepare_seeds is not None:
            self.protocol.prepare_seeds(seeds, self.task)

    def _download(
        self, state: RunState, local: LocalPhase, server: ServerState, round_number: int
    ) -> tuple[Weights, NDArray[np.float32], Transfer]:
        """Multicast the global state; who misses it goes on with their own (decision 12)."""
        devices = len(self.parts)
        sends = sends_download(self.task, state.server, server)
        bits = np.full(devices, download_bits(self.protocol, self.task) if sends else 0)
        transfer = self._transmit("downlink", bits, round_number)
        weights, teachers = local.weights, state.teachers
        if sends:
            data = encode_download(self.protocol, self.task, server)
            received = decode_download(self.protocol, self.task, data)
            if received.weights is not None:
                new = self.task.unflatten(received.weights)
                weights = _replace_where(transfer.arrived, new, weights)
            if received.outputs is not None:
                chosen = transfer.arrived[:, None, None]
                teachers = np.where(chosen, received.outputs, state.teachers)
        return weights, teachers, transfer

    def _transmit(
        self, direction: Direction, bits: NDArray[np.int64], round_number: int
    ) -> Transfer:
        rng = stream(self.task.seed, direction, round_number)
        delivery = self.link.transmit(direction, bits, rng)
        return Transfer(bits, check_delivery(self.link, delivery, len(bits)))


def _replace_where(chosen: NDArray[np.bool_], new: Weights, stacked: Weights) -> Weights:
    """``stacked`` with the rows of chosen devices replaced by ``new``."""

    def replace_rows(tensor: Any, value: Any) -> Any:
        return np.where(chosen.reshape(-1, *[1] * value.ndim), value, tensor)

    return jax.tree.map(replace_rows, stacked, new)
