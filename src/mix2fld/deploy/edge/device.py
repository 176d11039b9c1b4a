"""A device at one end of a line: hears settings, orders and downloads, and answers.

Every message names its run and its round. An order that was answered is answered again with the
same bytes, without training; one of an older process of the server, or of an older round, is a
replay and is not answered.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mix2fld
from mix2fld.base.errors import Mix2fldError
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge import topics
from mix2fld.deploy.edge.adding import Adding
from mix2fld.deploy.edge.line import Line, Say, no_log
from mix2fld.deploy.edge.messages import (
    FORMAT,
    Answer,
    Behind,
    Download,
    MessageError,
    Refused,
    SumAnswer,
    SumOrder,
    Taken,
    Trained,
    TrainOrder,
    pack,
    unpack,
)
from mix2fld.deploy.edge.run_settings import DeviceRun, unpack_run
from mix2fld.deploy.edge.sources import Source
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.edge.turn import answer, or_refused
from mix2fld.tasks.base import Task
from mix2fld.tasks.learning import Learning
from mix2fld.types import Dataset

MakeLearning = Callable[[Mapping[str, Any], SampleFormat, Task], Learning]
"""From the config in the settings of a run, the format of samples, and the task."""


class EdgeDevice:
    """One device of a fleet."""

    def __init__(
        self, number: int, source: Source, states: Path, make_learning: MakeLearning,
        say: Say = no_log,
    ) -> None:  # fmt: skip
        self.number, self._say = number, say
        self._source, self._states, self._make_learning = source, states, make_learning
        self._run: DeviceRun | None = None
        self._settings = b""
        self._learning: Learning | None = None
        self._waiting: TrainOrder | None = None
        self._adding = Adding(number)
        self._last: tuple[TrainOrder, Trained | Behind | Refused] | None = None

    def connected(self, line: Line, resumed: bool) -> None:
        """Listen, and say so: then the server sends what this device lacks in this round."""
        line.subscribe(topics.SETTINGS, qos=1, again=self._run is None)
        line.subscribe(topics.orders(self.number), qos=1)
        line.subscribe(topics.DOWNLOAD, qos=0)
        here = topics.HERE_AGAIN if resumed else topics.HERE
        told = here + f" {mix2fld.__version__} {FORMAT}".encode()
        line.publish(topics.presence(self.number), told, qos=1, retain=True)

    def lost(self, line: Line) -> None:
        """The connection is lost: the device waits until it is back."""

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Do what a message asks; what cannot be read is left alone."""
        if not payload:
            return
        try:
            if topic == topics.SETTINGS:
                self._hear_settings(line, payload)
                return
            message = unpack(payload)
        except MessageError as error:
            self._say(f"ignoring a message: {error}")
            return
        if isinstance(message, TrainOrder):
            self._hear_order(line, message)
        elif isinstance(message, Download):
            self._hear_download(line, message)
        elif isinstance(message, SumOrder):
            self._hear_sum(line, message)

    def _hear_settings(self, line: Line, payload: bytes) -> None:
        run = unpack_run(payload)
        if run != self._run:
            self._run, self._learning, self._last = run, None, None
            self._settings = payload
            self._say(f"run {run.identity}: {run.config['protocol']}")
        if self._waiting is not None:
            order, self._waiting = self._waiting, None
            self._hear_order(line, order)

    def _hear_order(self, line: Line, order: TrainOrder) -> None:
        if self._run is None or self._run.identity != order.run:
            self._waiting = order
            line.subscribe(topics.SETTINGS, qos=1, again=True)
            return
        if self._last is not None:
            last, given = self._last
            if (order.epoch, order.round) < (last.epoch, last.round):
                return
            if order._replace(epoch=0) == last._replace(epoch=0):
                self._send(line, _without_seconds(given))
                return
        made = self._answer(order, self._run)
        self._last = order, made
        self._say(f"round {order.round}: {_in_words(made)}")
        self._send(line, made)

    def _hear_download(self, line: Line, download: Download) -> None:
        if self._run is None or download.run != self._run.identity:
            return
        store = self._store(self._run)
        own = store.up_to(download.round)
        took_part = own is not None and own.round == download.round
        try:
            if store.download_of(download.round) is None:
                store.keep_download(download.round, download.data)
        except (Mix2fldError, OSError):
            return  # the server sees that it is missing
        if took_part:
            self._say(f"round {download.round}: has the download")
            self._send(line, Taken(download.run, download.round))

    def _hear_sum(self, line: Line, order: SumOrder) -> None:
        run = self._run
        if run is None or order.run != run.identity:
            return

        def work() -> SumAnswer:
            return self._adding.answer(order, self._store(run), lambda: self._learn(run))

        self._send(line, or_refused(work, order.run, order.round))

    def _learn(self, run: DeviceRun) -> Learning:
        if self._learning is None:
            self._learning = self._make_learning(run.config, run.samples, run.task)
        return self._learning

    def _answer(self, order: TrainOrder, run: DeviceRun) -> Trained | Behind | Refused:
        def read_samples() -> Dataset:
            return self._source(run.samples, run.task)

        store = self._store(run)
        made = answer(self.number, order, store, lambda: self._learn(run), read_samples)
        if isinstance(made, Trained):
            with suppress(Mix2fldError):  # the upload does not need it
                store.keep_settings(self._settings)
        return made

    def _send(self, line: Line, answer: Answer) -> None:
        line.publish(topics.uploads(self.number), pack(answer), qos=1)

    def _store(self, run: DeviceRun) -> Store:
        return Store(self._states, run.identity, self.number)


def _in_words(answer: Trained | Behind | Refused) -> str:
    match answer:
        case Trained():
            return f"trained for {answer.seconds:.1f} s, uploads {len(pack(answer))} bytes"
        case Behind():
            wanted = "initial weights" if answer.needs_start else "the last global state"
            return f"asks for {wanted}"
        case Refused():
            return f"cannot take part: {answer.reason}"


def _without_seconds(answer: Answer) -> Answer:
    """An answer that is given again took no computing."""
    return answer._replace(seconds=0.0) if isinstance(answer, Trained) else answer
