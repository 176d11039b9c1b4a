"""Who trains in LiRA: the device, models of other samples, and shadow models, round by round."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.engine.device_turn import (
    SEEDS_DUE,
    prepare_upload,
    receive,
    settle,
    start_device,
)
from mix2fld.engine.device_turn import Rows as HeldRows
from mix2fld.engine.local_phase import Learner, train_phase
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import NOISE_KEY, Device, OwnSamples, Turn
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import one_hot
from mix2fld.tasks.stepper import Draws, draw_samples
from mix2fld.types import Local, Model, Samples, State, Tensors, Update
from mix2fld_lab.attacks.lira import margin
from mix2fld_lab.audit.attribution import coefficients, head_of
from mix2fld_lab.audit.ground import Ground, Rows
from mix2fld_lab.audit.predictions import logits
from mix2fld_lab.audit.seeds import strangers

Statistics = list[NDArray[np.float64]]
"""What the uploads of each learner say about every candidate: [learners][n, k]."""


class AttackedSetting(NamedTuple):
    """The run that is attacked."""

    ground: Ground
    learning: Learning
    model: Model


class MembershipCandidates(NamedTuple):
    """The samples that one device is asked about: its own, and as many outsiders."""

    rows: Rows  # of the training set; the device's own come first
    own: int
    device: int


class Learners(NamedTuple):
    """The device, models of other samples, then shadow models: who trains on what."""

    sets: Sequence[Rows]  # places among the samples held, one for each learner
    samples: Samples
    labels: NDArray[np.int32]
    held: Any
    saw: NDArray[np.bool_]  # [s, n], which candidates each shadow model sees


class AttackedPhase(NamedTuple):
    """A local phase of all learners: where they were, and what they learned."""

    wire: Wire
    states: list[State]
    trained: list[Local]
    turn: Turn


def make_learners(
    setting: AttackedSetting, candidates: MembershipCandidates, shadows: int
) -> Learners:
    """The device itself, some on other samples, and shadow models on halves of the candidates."""
    ground, learning, _ = setting
    dataset, own = ground.dataset, candidates.rows[: candidates.own]
    halves = [_shadow_samples(setting, candidates, number) for number in range(shadows)]
    sets = [own, *strangers(ground, own, learning.seed, candidates.device), *halves]
    every = np.unique(np.concatenate([candidates.rows, *sets]))
    labels = dataset.train_labels[every]
    samples = Samples(dataset.train_inputs[every], one_hot(labels, dataset.num_labels))
    places = [np.searchsorted(every, held) for held in sets]
    saw = np.stack([np.isin(candidates.rows, half) for half in halves])
    return Learners(places, samples, labels, learning.stepper.hold(samples), saw)


def first_states(
    setting: AttackedSetting, wire: Wire, device: int, learners: Learners
) -> list[State]:
    """Every learner as the device begins; seeds are attacked elsewhere."""
    begun = start_device(wire, setting.learning, device)
    state = {name: value for name, value in begun.items() if name != SEEDS_DUE}
    count = len(learners.sets)
    return [{**state, **_own_noise(state, number)} for number in range(count)]


def _own_noise(state: State, number: int) -> State:
    """The noise of a device is not known to the server: no two learners have the same."""
    return {NOISE_KEY: np.array([number, 1, 0, 0], np.uint32)} if NOISE_KEY in state else {}


def train(
    setting: AttackedSetting, wire: Wire, learners: Learners, states: Sequence[State], turn: Turn
) -> list[Local]:
    """One local phase of all learners; the device's own draws are not known to the server."""
    learning = setting.learning
    everyone = {
        number: Learner(
            state,
            _rows(learners, places),
            turn,
            None if number == 0 else _own_draws(learning, places, turn, number),
        )
        for number, (places, state) in enumerate(zip(learners.sets, states, strict=True))
    }
    return list(train_phase(wire, learning, learners.held, everyone).local.values())


def after(phase: AttackedPhase, learners: Learners, download: State) -> list[State]:
    """Every learner when its upload was delivered and the download of the run came."""
    wire, states, trained, turn = phase
    found = []
    for state, local, places in zip(states, trained, learners.sets, strict=True):
        _, after = prepare_upload(wire, state, local, _rows(learners, places), turn, "drop")
        found.append(receive(wire, settle(after, delivered=True), download))
    return found


def _shadow_samples(
    setting: AttackedSetting, candidates: MembershipCandidates, number: int
) -> Rows:
    """What a shadow model is trained on: a half of the candidates, as a device's own samples are.

    Two models in turn take both halves. A device's own and outsiders are treated alike, so that
    under the model of a stranger no test can tell them apart.
    """
    ground, learning, _ = setting
    rng = stream(learning.seed, "audit-shadow", candidates.device, number // 2)
    shuffled = rng.permutation(candidates.rows)
    labels = ground.dataset.train_labels[shuffled]
    return shuffled[np.argsort(labels, kind="stable")][number % 2 :: 2]


def _rows(learners: Learners, places: Rows) -> HeldRows:
    own_labels = partial(learners.labels.__getitem__, places)
    return HeldRows(places, own_labels, partial(_read, learners, places))


def _read(learners: Learners, places: Rows) -> OwnSamples:
    return learners.samples.inputs[places], learners.labels[places]


def _own_draws(learning: Learning, places: Rows, turn: Turn, number: int) -> Draws:
    """Draws that the attacker's models take: the device's own are not known to the server."""
    rng = stream(learning.seed, "audit-draws", turn.round_number, turn.device, number)
    settings = learning.config.learning
    drawn = draw_samples(rng, len(places), settings.local_steps, settings.batch_size)
    return np.asarray(places[drawn], np.int32)


def statistics(setting: AttackedSetting, phase: AttackedPhase, rows: Rows) -> Statistics:
    """What the upload of every learner says about each candidate, as the server decodes it."""
    wire, states, trained, turn = phase
    dataset = setting.ground.dataset
    labels = dataset.train_labels[rows]
    uploads = [
        wire.decode_body(wire.encode_body(_device(state, turn), local).data, turn)
        for state, local in zip(states, trained, strict=True)
    ]
    if isinstance(uploads[0], np.ndarray):  # mean outputs: the row of the candidate's label
        return [np.log(np.maximum(each[labels], 1e-12)).astype(np.float64) for each in uploads]
    begun = [state["weights"] for state in states]
    weights = [_weights(each, before) for each, before in zip(uploads, begun, strict=True)]
    return _of_weights(setting, rows, begun[0], weights)


def _device(state: State, turn: Turn) -> Device:
    """One whose upload depends on its local phase alone."""
    return Device(state, turn, _nothing, lambda: None)


def _nothing() -> OwnSamples:
    raise ValueError("uploads of what was trained need no samples")


def _of_weights(
    setting: AttackedSetting, rows: Rows, begun: Tensors, weights: Sequence[Tensors]
) -> Statistics:
    """The margin of each candidate, and its coefficient in the update of its label's row."""
    inputs, labels = setting.ground.dataset.train_inputs[rows], setting.ground.dataset.train_labels
    margins = margin(logits(setting.model, inputs, weights), labels[rows])[..., None]
    head = head_of(setting.learning, setting.model)
    if head is None:
        return list(margins)
    explained = coefficients(setting.model, head, inputs, begun, weights)
    of_label = np.take_along_axis(explained, labels[rows][None, :, None], axis=-1)
    return list(np.concatenate([margins, of_label], axis=-1))


def _weights(upload: Any, begun: Tensors) -> Tensors:
    if isinstance(upload, Update):
        return tuple(a + b for a, b in zip(begun, upload.tensors, strict=True))
    weights: Tensors = upload
    return weights
