"""Plays rounds of a protocol with all devices on this machine."""

import time
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld.batching import TestSet, Trainer, pick
from mix2fld.clock import Clock, computing_seconds, transfer_seconds
from mix2fld.convergence import relative_change
from mix2fld.data import check_labels_covered, partition
from mix2fld.exchange import (
    decode_download,
    decode_upload,
    download_bits,
    encode_download,
    encode_upload,
    global_update,
    make_seeds,
    upload_bits,
)
from mix2fld.finite import check_countable, check_devices, check_server
from mix2fld.learning import average_outputs, draw_samples, one_hot
from mix2fld.link import Direction, Link, check_delivery
from mix2fld.processor import usable_cores
from mix2fld.protocol import Protocol
from mix2fld.rounds import LocalPhase, Round, RoundInfo, RunState, Transfer, observe
from mix2fld.server.seed_sets import inversely_mixed
from mix2fld.streams import stream
from mix2fld.task import Task
from mix2fld.types import Dataset, Knowledge, Seeds, ServerState, Upload, Weights


class Simulation:
    """One protocol, one seed: devices, link and server of a single run."""

    def __init__(self, task: Task, protocol: Protocol, dataset: Dataset, link: Link) -> None:
        config = task.config
        check_countable(config)
        self.task, self.protocol, self.link = task, protocol, link
        self._unmixes = protocol.prepare_seeds is inversely_mixed
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

    @property
    def kernel(self) -> str:
        """Whose code trains: xla or native."""
        return "xla" if self.task.learner.kernel is None else "native"

    def start(self) -> RunState:
        """The state before the first round."""
        devices, labels = len(self.parts), self.task.dims.num_labels
        initial = [self.task.initial_weights(device) for device in range(devices)]
        return RunState(
            round_number=0,
            weights=jax.tree.map(lambda *tensors: np.stack(tensors), *initial),
            teachers=np.zeros((devices, labels, labels), np.float32),
            seeds_due=np.full(devices, self.protocol.collect_seeds is not None),
            server=ServerState(),
            clock=Clock(),
        )

    def play_round(self, state: RunState) -> tuple[RunState, RoundInfo]:
        """One global update: local phase, upload, server step, download."""
        if self._cold and self.task.config.clock.computing_time == "measured":
            self._cold = False
            self.play_round(state)  # so that compiling is not measured as computing
        round_number = state.round_number + 1
        local = self._local_phase(state, round_number)
        inbox, up, seeds_due = self._upload(state, local, round_number)

        started = time.perf_counter()
        server = global_update(self.protocol, self.task, state.server, inbox, round_number)
        check_server(self.task.config, server.weights, self._unmixes, round_number)
        server_seconds = self._server_seconds(server, state.server, time.perf_counter() - started)

        weights, teachers, down = self._download(state, local, server, round_number)
        clock = local.clock.after(
            communication=transfer_seconds(self.link, up.delivery)
            + transfer_seconds(self.link, down.delivery),
            computing=server_seconds,
        )
        after = RunState(round_number, weights, teachers, seeds_due, server, clock)
        played = Round(state, local, up, down, after, relative_change(state.server, server))
        return after, observe(played, self.tests, self.reference, self.task.config.tolerance)

    def _local_phase(self, state: RunState, round_number: int) -> LocalPhase:
        config = self.task.config.learning
        draws = self.draws(round_number)
        phase = self.trainer.begin(state.weights)
        ends = np.linspace(0, config.local_steps, self.task.config.curve_points + 1).astype(int)
        snapshots = []
        started = time.perf_counter()
        for begin, end in pairwise(np.unique(ends).tolist()):
            phase = self.trainer.steps(phase, state.teachers, draws[:, begin:end])
            snapshots.append((end, pick(phase.weights, self.reference)))
        share = usable_cores() / len(self.parts)
        measured = (time.perf_counter() - started) * min(1.0, share)
        seconds = computing_seconds(
            self.task.config.clock,
            self.task.config.clock.device_step_us,
            config.local_steps,
            measured,
        )
        devices = range(len(self.parts))
        outputs = np.stack([average_outputs(pick(phase, device)) for device in devices])
        check_devices(self.task.config, devices, phase.weights, outputs, round_number)
        return LocalPhase(phase.weights, outputs, snapshots, state.clock.after(computing=seconds))

    def draws(self, round_number: int) -> NDArray[np.int32]:
        """Rows of the training set that each step of each device uses: [D, K, B]."""
        config = self.task.config.learning
        return np.stack(
            [
                part[
                    draw_samples(
                        stream(self.task.seed, "draws", round_number, device),
                        len(part),
                        config.local_steps,
                        config.batch_size,
                    )
                ]
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
        resend = task.config.seeding.lost_seeds == "resend"
        due = state.seeds_due & ~transfer.arrived if resend else np.zeros_like(state.seeds_due)
        return inbox, transfer, due

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
        again = self.task.config.channel.no_uploads == "rebroadcast" and server.updates > 0
        sends = server.updates > state.server.updates or again
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

    def _server_seconds(self, after: ServerState, before: ServerState, measured: float) -> float:
        converted = after.seed_set is not None and after.updates > before.updates
        steps = self.task.config.learning.server_steps if converted else 0
        clock = self.task.config.clock
        return computing_seconds(clock, clock.server_step_us, steps, measured)


def _replace_where(chosen: NDArray[np.bool_], new: Weights, stacked: Weights) -> Weights:
    """``stacked`` with the rows of chosen devices replaced by ``new``."""

    def replace_rows(tensor: Any, value: Any) -> Any:
        return np.where(chosen.reshape(-1, *[1] * value.ndim), value, tensor)

    return jax.tree.map(replace_rows, stacked, new)
