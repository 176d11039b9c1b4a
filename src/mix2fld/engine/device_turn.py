"""A device's part of a round, for any row of the table and wherever the device is.

A device keeps its weights and what its protocol's uplink, downlink and seeds asked for. After its
local phase it does not know yet whether its upload arrives: what changes if it does waits under
``pending`` until ``settle``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.codecs import Encoded
from mix2fld.engine.messages import Message
from mix2fld.engine.wire import Wire
from mix2fld.protocols.downlink import follows
from mix2fld.protocols.parts import Device, OwnSamples, Turn
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.replay import REPLAY, Extra, merge_stocks, mixture_prior, with_replay
from mix2fld.tasks.stepper import Draws, Start, draw_samples
from mix2fld.tasks.training import base_rate, label_prior, logit_offset
from mix2fld.types import Local, State, Tensors

PENDING, SEEDS_DUE, UNTRAINED = "pending", "seeds_due", "untrained"
DUE, SENT = np.array(True), np.array(False)
"""Shared by all devices."""


def start_device(wire: Wire, learning: Learning, device: int) -> State:
    """A device before its first round."""
    weights = learning.initial_weights(device)
    once = {} if wire.protocol.once is None else {SEEDS_DUE: DUE}
    first = {} if wire.protocol.first_model is None else {UNTRAINED: DUE}
    return {"weights": weights, **wire.downlink.start(wire.shared(weights)), **once, **first}


class Rows(NamedTuple):
    """Which of the samples that a stepper holds are a device's."""

    own: NDArray[np.integer[Any]]  # [n]
    labels: Callable[[], NDArray[np.int32]]  # [n], of its own samples
    read: Callable[[], OwnSamples]
    extra: Extra | None = None
    """Those that it replays."""


def begin_phase(
    wire: Wire, learning: Learning, state: State, rows: Rows, turn: Turn
) -> tuple[Start, Draws]:
    """Where a device's local phase begins, and which of the samples held its steps use [K, B]."""
    draws = rows.own[local_draws(learning, turn.round_number, turn.device, len(rows.own))]
    if rows.extra is not None:
        rng = stream(turn.seed, "replay", turn.round_number, turn.device)
        draws = with_replay(rng, draws, rows.extra, wire.training.replay)
    start = Start(
        weights=_first_weights(wire, learning, state, rows),
        teacher=np.zeros(learning.dims.teacher_shape, np.float32),
        logit_offset=_logit_offset(wire, learning, rows),
        rate_factor=wire.rate_in(turn.round_number) / base_rate(learning.config.learning),
        randomness=partial(integer, turn.seed, "model", turn.round_number, turn.device),
    )
    return wire.protocol.begin(state, start), np.asarray(draws, np.int32)


def _first_weights(wire: Wire, learning: Learning, state: State, rows: Rows) -> Tensors:
    """The device's weights; what it can make of its own samples if it has only untrained ones."""
    weights: Tensors = state["weights"]
    first = wire.protocol.first_model
    if first is None or not state[UNTRAINED]:
        return weights
    return first(*rows.read(), learning)


def local_draws(learning: Learning, round_number: int, device: int, samples: int) -> Draws:
    """Which of a device's own samples each of its steps uses: [K, B]."""
    config = learning.config.learning
    rng = stream(learning.seed, "draws", round_number, device)
    return draw_samples(rng, samples, config.local_steps, config.batch_size)


def _logit_offset(wire: Wire, learning: Learning, rows: Rows) -> NDArray[np.float32] | None:
    """What the local loss adds to the logits, by the labels of what is drawn."""
    if not wire.training.logit_adjustment:
        return None
    labels = rows.labels()
    prior = label_prior(labels, learning.task.groups)
    if rows.extra is not None:
        prior = mixture_prior(prior, rows.extra, wire.training.replay)
    return logit_offset(wire.training, prior, len(labels))


class TrainedDevice(NamedTuple):
    """A device at the end of its local phase."""

    state: State
    """As it was before."""
    local: Local
    rows: Rows
    turn: Turn


def prepare_upload(
    wire: Wire, state: State, local: Local, rows: Rows, turn: Turn, lost_seeds: str
) -> tuple[Message, State]:
    """What the device sends, if anything in this round, and the device after its local phase."""
    (prepared,) = prepare_uploads(wire, [TrainedDevice(state, local, rows, turn)], lost_seeds)
    return prepared


def prepare_uploads(
    wire: Wire, trained: Sequence[TrainedDevice], lost_seeds: str
) -> list[tuple[Message, State]]:
    """The same of each of several devices, all in the same round."""
    if not trained or not wire.uploads_in(trained[0].turn.round_number):
        nothing = Encoded(b"", 0)
        return [(_message(own, nothing), _after_phase(wire, own)) for own in trained]
    devices = [_device(wire, own) for own in trained]
    local = [own.local._replace(weights=wire.shared(own.local.weights)) for own in trained]
    bodies = wire.encode_bodies(devices, local)
    each = zip(trained, devices, local, bodies, strict=True)
    return [_prepared(wire, *own, lost_seeds) for own in each]


def _device(wire: Wire, trained: TrainedDevice) -> Device:
    """A device as its protocol sees it: without the weights that stay on it."""
    state, rate = _as_sent(wire, trained.state), wire.rate_in(trained.turn.round_number)
    replayed = partial(wire.replayed_samples, state)
    steps = wire.protocol.learning.config.learning.local_steps
    return Device(state, trained.turn, trained.rows.read, replayed, rate, steps)


def _message(trained: TrainedDevice, body: Encoded, once: Encoded | None = None) -> Message:
    turn = trained.turn
    return Message(turn.device, turn.round_number, body, once, len(trained.rows.own))


def _prepared(
    wire: Wire, trained: TrainedDevice, device: Device, local: Local, body: Encoded, lost_seeds: str
) -> tuple[Message, State]:
    after, once = _after_phase(wire, trained), None

    def read() -> Any:
        return wire.decode_body(body.data, trained.turn)

    pending = wire.protocol.on_acknowledged(device.state, local, read)
    if trained.state.get(SEEDS_DUE):
        made = wire.make_once(trained.turn.device, *trained.rows.read())
        once = None if made is None else wire.encode_once(made)
        pending[SEEDS_DUE] = SENT
        if lost_seeds == "drop":  # decision 11
            after[SEEDS_DUE] = SENT
    if pending:
        after[PENDING] = pending
    return _message(trained, body, once), after


def _after_phase(wire: Wire, trained: TrainedDevice) -> State:
    """The device with what it trained, or as it was if it keeps to what it received."""
    if wire.training.device_model == "received":
        return dict(trained.state)
    return _with_weights(trained.state, trained.local.weights)


def _with_weights(state: State, weights: Tensors) -> State:
    """The device with other weights, which are not untrained."""
    done = {UNTRAINED: SENT} if UNTRAINED in state else {}
    return {**state, "weights": weights, **done}


def _as_sent(wire: Wire, state: State) -> State:
    """The device as its protocol sees it: without the weights that stay on it."""
    return {**state, "weights": wire.shared(state["weights"])}


def settle(state: State, delivered: bool) -> State:
    """The device when it knows whether its upload was delivered."""
    rest = {name: value for name, value in state.items() if name != PENDING}
    return {**rest, **state.get(PENDING, {})} if delivered else rest


def receive(wire: Wire, state: State, received: State) -> State:
    """The device with its download; ``received`` is the decoded download (decision 12)."""
    replaced, received = {}, follows(state, received)
    if REPLAY in received:
        received = {**received, REPLAY: merge_stocks(state[REPLAY], received[REPLAY])}
    if "weights" in received:
        replaced = wire.protocol.on_download(_as_sent(wire, state), received["weights"])
        weights = wire.completed(state["weights"], received["weights"])
        received = {**received, "weights": weights}
        state = _with_weights(state, weights)
    return {**state, **received, **replaced}
