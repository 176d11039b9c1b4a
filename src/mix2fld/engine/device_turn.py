"""A device's part of a round, for any row of the table and wherever the device is.

A device keeps its weights and what its protocol's uplink, downlink and seeds asked for. After its
local phase it does not know yet whether its upload arrives: what changes if it does waits under
``pending`` until ``settle``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.codecs import Encoded
from mix2fld.engine.wire import Packet, Wire
from mix2fld.protocols.base import Turn
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.replay import REPLAY, Extra, merge_stocks, mixture_prior, with_replay
from mix2fld.tasks.stepper import Draws, Start, draw_samples
from mix2fld.tasks.training import base_rate, label_prior, logit_offset, rate_in_round
from mix2fld.types import Inputs, Local, State, Tensors

PENDING, SEEDS_DUE, UNTRAINED = "pending", "seeds_due", "untrained"
DUE, SENT = np.array(True), np.array(False)
"""Shared by all devices."""
Own = tuple[Inputs, NDArray[np.int32]]
"""Samples and labels that a device holds."""


class OwnSamples(NamedTuple):
    """How many samples a device holds, and how to read them, which only seeds need."""

    samples: int
    read: Callable[[], Own]


def start_device(wire: Wire, learning: Learning, device: int) -> State:
    """A device before its first round."""
    weights = learning.initial_weights(device)
    seeds = {} if wire.seeding is None else {SEEDS_DUE: DUE}
    first = {} if wire.first_model is None else {UNTRAINED: DUE}
    return {
        "weights": weights,
        **wire.downlink.start(learning.dims),
        **wire.uplink.start(weights),
        **seeds,
        **first,
    }


class Rows(NamedTuple):
    """Which of the samples that a stepper holds are a device's."""

    own: NDArray[np.integer[Any]]  # [n]
    labels: Callable[[], NDArray[np.int32]]  # [n], of its own samples
    read: Callable[[], Own]
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
    rate = rate_in_round(wire.training, turn.round_number, learning.config.rounds)
    start = Start(
        weights=_first_weights(wire, learning, state, rows),
        teacher=_teacher(state, learning.dims.num_labels),
        logit_offset=_logit_offset(wire, learning, rows),
        rate_factor=rate / base_rate(learning.config.learning),
        randomness=partial(integer, turn.seed, "model", turn.round_number, turn.device),
    )
    return start, np.asarray(draws, np.int32)


def _first_weights(wire: Wire, learning: Learning, state: State, rows: Rows) -> Tensors:
    """The device's weights; what it can make of its own samples if it has only untrained ones."""
    weights: Tensors = state["weights"]
    if wire.first_model is None or not state[UNTRAINED]:
        return weights
    return wire.first_model(*rows.read(), learning)


def local_draws(learning: Learning, round_number: int, device: int, samples: int) -> Draws:
    """Which of a device's own samples each of its steps uses: [K, B]."""
    config = learning.config.learning
    rng = stream(learning.seed, "draws", round_number, device)
    return draw_samples(rng, samples, config.local_steps, config.batch_size)


def _logit_offset(wire: Wire, learning: Learning, rows: Rows) -> NDArray[np.float32] | None:
    """What the local loss adds to the logits, by the labels of what is drawn."""
    if not wire.training.logit_adjustment:
        return None
    prior = label_prior(rows.labels(), learning.dims.num_labels)
    if rows.extra is not None:
        prior = mixture_prior(prior, rows.extra, wire.training.replay)
    return logit_offset(wire.training, prior)


def _teacher(state: State, num_labels: int) -> NDArray[np.float32]:
    """What the device is taught by; without a teacher, distillation is off."""
    teacher: NDArray[np.float32] | None = state.get("teacher")
    return np.zeros((num_labels, num_labels), np.float32) if teacher is None else teacher


def prepare_upload(
    wire: Wire, state: State, local: Local, own: OwnSamples, turn: Turn, lost_seeds: str
) -> tuple[Packet, State]:
    """What the device sends, if anything in this round, and the device after its local phase."""
    if not wire.uploads_in(turn.round_number):
        silent = Packet(Encoded(b"", 0), None, own.samples)
        return silent, _with_weights(state, local.weights)
    if wire.uplink.labels_seeds:
        local = local._replace(on_seeds=wire.seed_outputs(state, local.weights))
    if wire.uplink.measures_now(state):
        local = local._replace(measured=wire.measure_samples(*own.read()))
    knowledge = wire.encode_knowledge(state, local, turn)

    def read() -> Any:
        return wire.decode_knowledge(knowledge.data, turn)

    pending = wire.uplink.delivered(state, local, read)
    after = _with_weights(state, local.weights)
    seeds = None
    if state.get(SEEDS_DUE):
        made = wire.make_seeds(turn.device, *own.read())
        seeds = None if made is None else wire.encode_seeds(made)
        pending[SEEDS_DUE] = SENT
        if lost_seeds == "drop":  # decision 11
            after[SEEDS_DUE] = SENT
    if pending:
        after[PENDING] = pending
    return Packet(knowledge, seeds, own.samples), after


def _with_weights(state: State, weights: Tensors) -> State:
    """The device with other weights, which are not untrained."""
    done = {UNTRAINED: SENT} if UNTRAINED in state else {}
    return {**state, "weights": weights, **done}


def settle(state: State, delivered: bool) -> State:
    """The device when it knows whether its upload was delivered."""
    rest = {name: value for name, value in state.items() if name != PENDING}
    return {**rest, **state.get(PENDING, {})} if delivered else rest


def receive(wire: Wire, state: State, received: State) -> State:
    """The device with what came down; ``received`` is the decoded download (decision 12)."""
    replaced = {}
    if REPLAY in received:
        received = {**received, REPLAY: merge_stocks(state[REPLAY], received[REPLAY])}
    if "weights" in received:
        replaced = wire.uplink.replaced(state, received["weights"])
        state = _with_weights(state, received["weights"])
    return {**state, **received, **replaced}
