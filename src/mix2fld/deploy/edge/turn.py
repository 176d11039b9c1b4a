"""A device's turn: from what is on its disk and what the server asks to its upload."""

from typing import Any, NamedTuple

import numpy as np

from mix2fld.deploy.edge.store import Store, StoredState
from mix2fld.engine.checks import check_devices
from mix2fld.engine.device_turn import (
    SEEDS_DUE,
    Rows,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.engine.local_phase import Learner, train_phase
from mix2fld.engine.messages import Message
from mix2fld.engine.wire import Wire
from mix2fld.protocols.noise import with_secret_noise
from mix2fld.protocols.parts import Turn
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.replay import Extra
from mix2fld.tasks.stepper import TestSet
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
    bit_budget: int | None = None
    """Bits that the upload may take, if their number is automatic."""


class TurnResult(NamedTuple):
    """What came of it."""

    message: Message
    scores: list[float]
    seconds: float


def is_behind(ask: Ask, own: StoredState | None) -> bool:
    """Whether the device missed a round, or lost its state, and was not told to continue."""
    return (own.round if own else 0) < ask.last_turn and not ask.catch_up


def take_turn(ask: Ask, learning: Learning, samples: Dataset, store: Store) -> TurnResult:
    """One local phase on the device's own samples, and the upload that follows it."""
    config = learning.config
    wire = Wire(get_protocol(config.protocol), learning)
    turn = Turn(learning.seed, ask.round, ask.device, ask.bit_budget)
    state = _begin(wire, learning, ask, store.up_to(ask.last_turn))
    held, rows = _hold(wire, learning, samples, state)
    learner = Learner(state, rows, turn)
    result = train_phase(wire, learning, held, {ask.device: learner}, ask.device)
    check_devices(config, result.local, ask.round)

    message, after = prepare_upload(
        wire, state, result.local[ask.device], rows, turn, config.seeding.lost_seeds
    )
    used = [weights for _, weights in result.snapshots_in_use(wire, ask.device)]
    tests = TestSet(learning.stepper, learning.task, samples.test_inputs, samples.test_labels)
    scores = tests.scores(used if ask.watched else used[-1:])
    store.save(ask.round, after)
    return TurnResult(message, scores, result.seconds)


def _begin(wire: Wire, learning: Learning, ask: Ask, own: StoredState | None) -> State:
    """The device as it was left, or as new; then what came down, the latest last."""
    if own is None:
        state = with_secret_noise(start_device(wire, learning, ask.device))
        if ask.uploaded:  # the device has lost what it sent
            state = {**state, **wire.protocol.on_state_lost(state)}
    else:
        state = settle(own.state, delivered=ask.uploaded == own.round)
    if ask.uploaded and SEEDS_DUE in state:  # also if the device has lost that it sent them
        state = {**state, SEEDS_DUE: np.array(False)}
    for data in (own.download if own else None, ask.download):
        if data is not None:
            state = receive(wire, state, wire.decode_download(data))
    return state


def _hold(wire: Wire, learning: Learning, samples: Dataset, state: State) -> tuple[Any, Rows]:
    """What the stepper reads from, and which of it the device's steps use."""
    own = learning.task.samples(samples.train_inputs, samples.train_labels)
    replayed = wire.replayed_samples(state)
    extra = None if replayed is None else Samples(replayed.inputs, replayed.targets)
    rows = Rows(
        np.arange(len(own.targets)),
        lambda: samples.train_labels,
        lambda: (samples.train_inputs, samples.train_labels),
        None if extra is None else Extra(len(own.targets), extra.targets),
    )
    return learning.stepper.hold(own, extra), rows
