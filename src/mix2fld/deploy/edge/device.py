"""A device at one end of a line: hears settings, orders and downloads, and answers.

Every message names its run and its round. An order that was answered is answered again with the
same bytes, without training; one of an older process of the server, or of an older round, is a
replay and is not answered.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.codecs import PayloadError
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge import topics
from mix2fld.deploy.edge.line import Line, Say, no_log
from mix2fld.deploy.edge.messages import (
    Behind,
    Download,
    Message,
    MessageError,
    Order,
    Refused,
    Taken,
    Trained,
    pack,
    unpack,
    unpack_settings,
)
from mix2fld.deploy.edge.small import NeedsStartError, SmallStepper
from mix2fld.deploy.edge.sources import Source
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.edge.turn import Ask, is_behind, take_turn
from mix2fld.engine.checks import DivergedError
from mix2fld.tasks.learning import Learning
from mix2fld.types import Dataset

MakeLearning = Callable[[dict[str, Any], SampleFormat, int], Learning]
"""From the config in the settings of a run, the format of samples, and their labels."""


class Run(NamedTuple):
    """What a device knows of the run that it is part of."""

    identity: str
    config: dict[str, Any]
    samples: SampleFormat
    num_labels: int


class Answered(NamedTuple):
    """The last order, and the answer to it."""

    order: Order
    answer: Message


class Device:
    """One device of a fleet."""

    def __init__(
        self, number: int, source: Source, states: Path, make_learning: MakeLearning,
        say: Say = no_log,
    ) -> None:  # fmt: skip
        self.number, self._say = number, say
        self._source, self._states, self._make_learning = source, states, make_learning
        self._run: Run | None = None
        self._learning: Learning | None = None
        self._waiting: Order | None = None
        self._last: Answered | None = None

    def connected(self, line: Line, resumed: bool) -> None:
        """Listen, and say so: then the server sends what this device lacks in this round."""
        line.subscribe(topics.SETTINGS, qos=1, again=self._run is None)
        line.subscribe(topics.orders(self.number), qos=1)
        line.subscribe(topics.DOWNLOAD, qos=0)
        here = topics.HERE_AGAIN if resumed else topics.HERE
        line.publish(topics.presence(self.number), here, qos=1, retain=True)

    def lost(self, line: Line) -> None:
        """A device waits."""

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
        if isinstance(message, Order):
            self._hear_order(line, message)
        elif isinstance(message, Download):
            self._hear_download(line, message)

    def _hear_settings(self, line: Line, payload: bytes) -> None:
        fields = unpack_settings(payload)
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields["samples"].items()
        }
        format_ = SampleFormat(**known)
        run = Run(fields["run"], fields["config"], format_, fields["num_labels"])
        if run != self._run:
            self._run, self._learning, self._last = run, None, None
            self._say(f"run {run.identity}: {run.config['protocol']}")
        if self._waiting is not None:
            order, self._waiting = self._waiting, None
            self._hear_order(line, order)

    def _hear_order(self, line: Line, order: Order) -> None:
        if self._run is None or self._run.identity != order.run:
            self._waiting = order
            line.subscribe(topics.SETTINGS, qos=1, again=True)
            return
        last = self._last
        if last is not None:
            asked_before = (last.order.epoch, last.order.round)
            if (order.epoch, order.round) < asked_before:
                return
            if order._replace(epoch=0) == last.order._replace(epoch=0):
                self._send(line, _without_seconds(last.answer))
                return
        answer = self._answer(order, self._run)
        self._last = Answered(order, answer)
        self._say(f"round {order.round}: {_in_words(answer)}")
        self._send(line, answer)

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
            self._send(line, Taken(download.run, download.round))

    def _answer(self, order: Order, run: Run) -> Trained | Behind | Refused:
        """The upload; if the device cannot do what it was asked, why."""
        try:
            return self._train(order, run)
        except (Mix2fldError, MessageError, PayloadError) as error:
            reason, diverged = str(error), isinstance(error, DivergedError)
        except OSError as error:
            reason, diverged = f"a file cannot be used: {error}", False
        return Refused(order.run, order.round, reason, diverged)

    def _train(self, order: Order, run: Run) -> Trained | Behind:
        store, download = self._store(run), order.download
        if order.heard and download is None:
            download = store.download_of(order.heard)
        ask = Ask(
            device=self.number,
            round=order.round,
            uploaded=order.uploaded,
            last_turn=order.last_turn,
            watched=order.watched,
            catch_up=order.catch_up,
            download=download,
            bit_budget=order.bit_budget,
        )
        lacks = order.heard and download is None
        if lacks or is_behind(ask, store.up_to(ask.last_turn)):
            return Behind(order.run, order.round, store.last_download())
        samples = self._read_samples(run)
        if self._learning is None:
            self._learning = self._make_learning(run.config, run.samples, run.num_labels)
        if order.start is not None and isinstance(self._learning.stepper, SmallStepper):
            self._learning.stepper.start = order.start
        try:
            message, scores, seconds = take_turn(ask, self._learning, samples, store)
        except NeedsStartError:
            return Behind(order.run, order.round, store.last_download(), needs_start=True)
        return Trained(
            order.run,
            order.round,
            message.samples,
            message.body.bits,
            seconds,
            scores,
            message.body.data,
            message.once.data if message.once else None,
        )

    def _read_samples(self, run: Run) -> Dataset:
        try:
            return self._source(run.samples, run.num_labels)
        except InputError as error:
            raise error.renamed("dataset", "data") from None

    def _send(self, line: Line, answer: Message) -> None:
        line.publish(topics.uploads(self.number), pack(answer), qos=1)

    def _store(self, run: Run) -> Store:
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


def _without_seconds(answer: Message) -> Message:
    """An answer that is given again took no computing."""
    return answer._replace(seconds=0.0) if isinstance(answer, Trained) else answer
