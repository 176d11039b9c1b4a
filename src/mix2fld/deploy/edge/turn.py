"""A device's turn: from what is on its disk and what the server asks to its upload."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.codecs import PayloadError
from mix2fld.deploy.edge.learning import NeedsStartError, SmallStepper
from mix2fld.deploy.edge.messages import Behind, MessageError, Refused, Trained, TrainOrder
from mix2fld.deploy.edge.store import Store, StoredState
from mix2fld.engine.device_turn import (
    SEEDS_DUE,
    Rows,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.engine.divergence import DivergedError, check_devices
from mix2fld.engine.local_phase import Learner, train_phase
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import Turn, with_secret_noise
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.replay import Extra
from mix2fld.tasks.stepper import TestSet
from mix2fld.types import Dataset, Samples, State

Answered = TypeVar("Answered")


def answer(
    device: int,
    order: TrainOrder,
    store: Store,
    learn: Callable[[], Learning],
    read_samples: Callable[[], Dataset],
) -> Trained | Behind | Refused:
    """The upload that is asked for; if the device cannot do it, why.

    ``learn`` and ``read_samples`` are called only if there is something to train.
    """

    def work() -> Trained | Behind:
        download = order.download
        if order.heard and download is None:
            download = store.download_of(order.heard)
        lacks = order.heard and download is None
        if lacks or _is_behind(order, store.up_to(order.last_turn)):
            return Behind(order.run, order.round, store.last_download())
        samples, learning = _renamed(read_samples), learn()
        if order.start is not None and isinstance(learning.stepper, SmallStepper):
            learning.stepper.start = order.start
        try:
            return _take_turn(device, order._replace(download=download), learning, samples, store)
        except MissingStateError:
            return Behind(order.run, order.round, store.last_download())
        except NeedsStartError:
            return Behind(order.run, order.round, store.last_download(), needs_start=True)

    return or_refused(work, order.run, order.round)


def or_refused(
    work: Callable[[], Answered], run: str = "", round_number: int = 0
) -> Answered | Refused:
    """What comes of some work; if it cannot be done, why."""
    try:
        return work()
    except (Mix2fldError, MessageError, PayloadError) as error:
        return Refused(run, round_number, str(error), isinstance(error, DivergedError))
    except OSError as error:
        return Refused(run, round_number, f"a file cannot be used: {error}")


class MissingStateError(Exception):
    """The download starts from a global state that the device does not have."""


def _is_behind(order: TrainOrder, own: StoredState | None) -> bool:
    """Whether the device missed a round, or lost its state, and was not told to continue."""
    return (own.round if own else 0) < order.last_turn and not order.catch_up


def _renamed(read_samples: Callable[[], Dataset]) -> Dataset:
    """The samples; what is wrong with them is told by the name of the device's setting."""
    try:
        return read_samples()
    except InputError as error:
        raise error.renamed("dataset", "data") from None


def _take_turn(
    device: int, order: TrainOrder, learning: Learning, samples: Dataset, store: Store
) -> Trained:
    """One local phase on the device's own samples, and the upload that follows it."""
    config = learning.config
    wire = Wire(get_protocol(config.protocol), learning)
    turn = Turn(learning.seed, order.round, device, order.bit_budget)
    state = _begin(wire, learning, device, order, store.up_to(order.last_turn))
    held, rows = _hold(wire, learning, samples, state)
    learner = Learner(state, rows, turn)
    result = train_phase(wire, learning, held, {device: learner}, device)
    check_devices(config, result.local, order.round, wire.rate_in(order.round))

    message, after = prepare_upload(
        wire, state, result.local[device], rows, turn, config.seeding.lost_seeds
    )
    used = [weights for _, weights in result.snapshots_in_use(wire, device)]
    tests = TestSet(learning.stepper, learning.task, samples.test_inputs, samples.test_values)
    scores = tests.scores(used if order.watched else used[-1:])
    upload, padding = message.body.data, 8 * len(message.body.data) - message.body.bits
    if wire.masks and upload:  # the numbers stay here until they are added
        store.keep_addends(order.round, upload)
        upload, padding = upload[:1], 0
    store.save(order.round, after)
    return Trained(
        order.run,
        order.round,
        message.samples,
        padding,
        result.seconds,
        [value for score in scores for value in score],
        upload,
        message.once.data if message.once else None,
    )


def _begin(
    wire: Wire, learning: Learning, device: int, order: TrainOrder, own: StoredState | None
) -> State:
    """The device as it was left, or as new; then its downloads, the latest last."""
    if own is None:
        state = with_secret_noise(start_device(wire, learning, device))
        if order.uploaded:  # the device has lost what it sent
            state = {**state, **wire.protocol.on_state_lost(state)}
    else:
        state = settle(own.state, delivered=order.uploaded == own.round)
    if order.uploaded and SEEDS_DUE in state:  # also if the device has lost that it sent them
        state = {**state, SEEDS_DUE: np.array(False)}
    for data in (own.download if own else None, order.download):
        if data is not None:
            state = receive(wire, state, wire.decode_download(data, [state]))
    if order.download is not None and not wire.has_taken(state, order.download):
        raise MissingStateError
    return state


def _hold(wire: Wire, learning: Learning, samples: Dataset, state: State) -> tuple[Any, Rows]:
    """What the stepper reads from, and which of it the device's steps use."""
    own = learning.task.samples(samples.train_inputs, samples.train_values)
    replayed = wire.replayed_samples(state)
    extra = None if replayed is None else Samples(replayed.inputs, replayed.targets)
    rows = Rows(
        np.arange(len(own.targets)),
        lambda: learning.task.labels(samples.train_values),
        lambda: (samples.train_inputs, samples.train_values),
        None if extra is None else Extra(len(own.targets), extra.targets),
    )
    return learning.stepper.hold(own, extra), rows
