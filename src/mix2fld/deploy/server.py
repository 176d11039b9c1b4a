"""Plays rounds of a protocol with devices on a network; what it computes is in ``turns``."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.fleet import Fleet
from mix2fld.deploy.messages import (
    DOWNLOAD,
    FORMAT,
    TRAIN,
    Behind,
    Download,
    MessageError,
    Refused,
    Taken,
    Trained,
    TrainOrder,
    unpack,
)
from mix2fld.deploy.settings import config_digest
from mix2fld.errors import InputError
from mix2fld.learning.task import Task
from mix2fld.learning.xla import TestSet, snapshot_steps
from mix2fld.link.payload import PayloadError
from mix2fld.protocol import Protocol
from mix2fld.round.checks import LARGEST_WEIGHT
from mix2fld.round.clock import Clock
from mix2fld.round.info import Measured, Round, RoundInfo, RunState, Transfer, record
from mix2fld.round.turns import seeds_due_at_first, seeds_still_due, sends_download, server_turn
from mix2fld.round.wire import decode_upload, download_bits, encode_download, upload_bits
from mix2fld.server.convergence import relative_change
from mix2fld.streams import stream
from mix2fld.types import Delivery, ServerState, Upload

PIXEL_TOLERANCE = 1e-5  # of mixing in float32


class Answer(NamedTuple):
    """What the server took from one device in one round."""

    upload: Upload
    accuracies: list[float]
    seconds: float


class Deployment:
    """One protocol, one seed: the server of a run whose devices are elsewhere."""

    def __init__(
        self, task: Task, protocol: Protocol, tests: TestSet, fleet: Fleet, run: str, say: Say
    ) -> None:
        self.task, self.protocol, self._tests = task, protocol, tests
        self._fleet, self._run, self._say = fleet, run, say
        self.devices = task.config.data.devices
        self.reference = int(stream(task.seed, "reference").integers(self.devices))
        self._accuracies: list[float] = []

    def start(self) -> RunState:
        """The state before the first round; weights and teachers of devices are on the devices."""
        return RunState(
            round_number=0,
            weights=self.task.common_weights(),
            teachers=np.zeros(0, np.float32),
            seeds_due=seeds_due_at_first(self.protocol, self.devices),
            server=ServerState(),
            clock=Clock(),
        )

    def go_on_after(self, rounds: Sequence[Mapping[str, Any]]) -> None:
        """Take up what the last round says of devices that may not answer in the next one."""
        if rounds:
            self._accuracies = list(rounds[-1]["accuracy"]["devices"])

    def run_round(self, state: RunState) -> tuple[RunState, RoundInfo]:
        """One global update: ask for uploads, take the server's turn, send the download."""
        round_number = state.round_number + 1
        started = time.monotonic()
        nodes = self._fleet.wait_for(1, self._fleet.timeout_s)
        if not nodes:
            raise InputError(
                f"no device is there; start some nodes, and the same command goes on with round "
                f"{round_number}"
            )
        answers = self._collect(state, nodes, round_number)
        up = self._upload_record(state, nodes, answers)
        inbox = {d: answers[d].upload for d in np.flatnonzero(up.arrived).tolist()}
        server, server_seconds = server_turn(
            self.protocol, self.task, state.server, inbox, round_number
        )
        down = self._send(state.server, server, nodes, round_number)

        slowest = max((answer.seconds for answer in answers.values()), default=0.0)
        elsewhere = time.monotonic() - started - slowest - server_seconds
        trained = state.clock.after(computing=slowest)
        clock = trained.after(communication=max(0.0, elsewhere), computing=server_seconds)
        due = seeds_still_due(self.task, state.seeds_due, up.arrived)
        after = RunState(round_number, None, state.teachers, due, server, clock)
        played = Round(state, trained, up, down, after, relative_change(state.server, server))
        measured = self._measured(answers, server, round_number)
        return after, record(played, measured, self.reference, self.task.config.tolerance)

    def _collect(
        self, state: RunState, nodes: Mapping[int, int], round_number: int
    ) -> dict[int, Answer]:
        """Ask every device that is there for its upload, and take those that can be taken."""
        answers: dict[int, Answer] = {}
        started = time.monotonic()
        orders = {
            device: TrainOrder(
                format=FORMAT,
                run=self._run,
                device=device,
                round=round_number,
                config=config_digest(self.task.config),
                sample_shape=list(self.task.dims.sample_shape),
                num_labels=self.task.dims.num_labels,
                with_seeds=bool(state.seeds_due[device]),
                watched=device == self.reference,
            )
            for device in nodes
        }

        def hear(device: int, content: Any) -> TrainOrder | None:
            try:
                reply = unpack(content, Trained, Behind, Refused)
                if isinstance(reply, Behind) and not orders[device].catch_up:
                    orders[device] = self._catch_up(orders[device], state.server)
                    return orders[device]
                answers[device] = self._take(orders[device], reply, time.monotonic() - started)
            except (MessageError, PayloadError) as error:
                self._say(f"round {round_number}: device {device} refused: {error}")
            return None

        asked = {device: (nodes[device], order) for device, order in orders.items()}
        self._fleet.ask(TRAIN, round_number, asked, hear)
        return answers

    def _catch_up(self, order: TrainOrder, server: ServerState) -> TrainOrder:
        """The order once more, with the last global state for a device that was away."""
        data = encode_download(self.protocol, self.task, server) if server.updates else None
        self._say(f"round {order.round}: device {order.device} was away and catches up")
        return order.model_copy(update={"catch_up": True, "download": data})

    def _take(self, order: TrainOrder, reply: Any, waited: float) -> Answer:
        """Read an upload; raises ``PayloadError`` or ``MessageError`` for what is not one."""
        if isinstance(reply, Refused):
            raise MessageError(_words_of(reply))
        if not isinstance(reply, Trained):
            raise MessageError("it is still behind")
        if reply.round != order.round:
            raise MessageError(f"an answer for round {reply.round}")
        wanted = len(self._steps()) if order.watched else 1
        if len(reply.accuracies) != wanted:
            raise MessageError(f"{len(reply.accuracies)} accuracies; must be {wanted}")
        if reply.seconds > waited:
            raise MessageError(f"{reply.seconds:g} s of computing in a wait of {waited:.1f} s")
        upload = decode_upload(
            self.protocol, self.task, reply.upload, reply.samples, order.with_seeds
        )
        self._check_sizes(upload)
        return Answer(upload, reply.accuracies, reply.seconds)

    def _check_sizes(self, upload: Upload) -> None:
        """Refuse finite values that nobody learns or takes pictures with, which end a run."""
        for part in self.protocol.uplink.place(upload.value).weights or []:
            largest = float(np.max(np.abs(part), initial=0))
            if largest > LARGEST_WEIGHT:
                raise MessageError(f"weights: {largest:g}; must be at most {LARGEST_WEIGHT:g}")
        if upload.seeds is not None and upload.seeds.images.dtype == np.float32:
            outside = np.abs(upload.seeds.images - np.float32(0.5)) > 0.5 + PIXEL_TOLERANCE
            if outside.any():
                pixel = upload.seeds.images[outside][0]
                raise MessageError(f"seeds: a pixel of {pixel:g}; must be from 0 to 1")

    def _upload_record(
        self, state: RunState, nodes: Mapping[int, int], answers: Mapping[int, Answer]
    ) -> Transfer:
        """Bits of all devices that were asked; slots are of the simulator alone."""
        bits = [
            upload_bits(self.protocol, self.task, bool(state.seeds_due[d])) if d in nodes else 0
            for d in range(self.devices)
        ]
        return self._transfer(bits, answers)

    def _send(
        self,
        before: ServerState,
        after: ServerState,
        nodes: Mapping[int, int],
        round_number: int,
    ) -> Transfer:
        """Send the global state to every device that was asked in this round."""
        confirmed: dict[int, bool] = {}
        if not sends_download(self.task, before, after):
            return self._transfer([0] * self.devices, confirmed)
        data = encode_download(self.protocol, self.task, after)

        def hear(device: int, content: Any) -> None:
            try:
                reply = unpack(content, Taken, Refused)
                if isinstance(reply, Refused):
                    raise MessageError(_words_of(reply))
                confirmed[device] = reply == Taken(round=round_number)
            except MessageError as error:
                self._say(f"round {round_number}: device {device} took no download: {error}")

        orders = {
            device: (
                node,
                Download(
                    format=FORMAT, run=self._run, device=device, round=round_number, data=data
                ),
            )
            for device, node in nodes.items()
        }
        self._fleet.ask(DOWNLOAD, round_number, orders, hear)
        carried = download_bits(self.protocol, self.task)
        bits = [carried if device in nodes else 0 for device in range(self.devices)]
        return self._transfer(bits, confirmed)

    def _transfer(self, bits: Sequence[int], arrived: Mapping[int, Any]) -> Transfer:
        delivered = np.array([bool(arrived.get(device)) for device in range(self.devices)])
        return Transfer(np.array(bits), Delivery(delivered, np.zeros(self.devices, np.int64)))

    def _measured(
        self, answers: Mapping[int, Answer], server: ServerState, round_number: int
    ) -> Measured:
        """What devices say of themselves; for those that did not answer, what was known last."""
        if not self._accuracies:
            initial = [self.task.initial_weights(device) for device in range(self.devices)]
            self._accuracies = self._tests.accuracies(initial)
        at_first = self._accuracies[self.reference] if round_number == 1 else None
        steps = self._steps()
        if self.reference in answers:
            within = answers[self.reference].accuracies
        else:
            within = [self._accuracies[self.reference]] * len(steps)
        for device, answer in answers.items():
            self._accuracies[device] = answer.accuracies[-1]
        of_server = [] if server.weights is None else self._tests.accuracies([server.weights])
        return Measured(
            devices=list(self._accuracies),
            on_the_way=list(zip(steps, within, strict=True)),
            at_first=at_first,
            of_server=of_server[0] if of_server else None,
        )

    def _steps(self) -> list[int]:
        """After how many steps of its local phase the reference device is tested."""
        return snapshot_steps(self.task.config.learning.local_steps, self.task.config.curve_points)


def _words_of(refused: Refused) -> str:
    return f"it says: {one_line(refused.reason)}"
