"""LiRA on what devices upload after training: weights, updates and mean outputs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.audit.ground import Ground, Rows
from mix2fld.audit.predictions import logits
from mix2fld.device.uplinks import Turn
from mix2fld.learning.losses import label_loss, one_hot
from mix2fld.learning.make_task import make_task
from mix2fld.learning.stepper import Draws, Start, Watch, draw_samples, local_results
from mix2fld.learning.task import Task
from mix2fld.models import make_model
from mix2fld.privacy.lira import likelihood_ratios, margin
from mix2fld.privacy.rates import FALSE_POSITIVES, Scores, above, threshold
from mix2fld.protocol import get_protocol
from mix2fld.round.device_turn import Own, begin_phase, start_device
from mix2fld.round.device_turn import Rows as HeldRows
from mix2fld.round.wire import Wire
from mix2fld.streams import stream
from mix2fld.types import Inputs, Local, Model, Samples, Tensors, Update

STRANGERS = 16
"""Models of other samples altogether: half of them set thresholds, half are the null experiment."""
SEEN_BY = 4
"""One of so many shadow models sees a candidate."""
ROUND = 1
"""The attack is on the upload of the first round, which starts from weights that all know."""
Told = Callable[[int], None]


class Setting(NamedTuple):
    """The run that is attacked."""

    ground: Ground
    task: Task
    model: Model


class Candidates(NamedTuple):
    """The samples that one device is asked about: its own, and as many outsiders."""

    rows: Rows  # of the training set; the device's own come first
    own: int


class Trained(NamedTuple):
    """Models trained like one device, and which candidates each has seen."""

    target: Local
    strangers: list[Local]  # trained on other samples altogether
    shadows: list[Local]
    saw: NDArray[np.bool_]  # [s, n]


class Attacked(NamedTuple):
    """Scores of a device's own samples, and of candidates that a model has not seen."""

    own: Scores
    outside: Scores  # of outsiders, under the same upload
    calibrating: Scores  # of all candidates, under uploads of other samples
    null: Scores  # the same, under others again


def attack_uploads(
    ground: Ground, protocols: Sequence[str], seed: int, devices: Sequence[int], shadows: int,
    told: Told = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """True-positive rates of LiRA on the first upload of each protocol, by false positives."""
    dataset = ground.dataset
    config = ground.config.replace(seed=seed, protocols=protocols[:1])
    task = make_task(config, dataset.samples, dataset.num_labels)
    model = make_model(config.learning.model, dataset.sample_shape, dataset.num_labels)
    setting = Setting(ground, task, model)
    wires = {name: Wire(get_protocol(name), task) for name in protocols}
    attacked: dict[str, list[Attacked]] = {name: [] for name in protocols}
    for number, device in enumerate(devices):
        own = ground.parts(seed)[device]
        rng = stream(seed, "audit-candidates", device)
        rows = np.concatenate([own, ground.like(own, ground.outside, rng)])
        candidates = Candidates(rows, len(own))
        recipes: dict[Any, Trained] = {}
        for name, wire in wires.items():
            if wire.training not in recipes:
                recipes[wire.training] = _train(setting, wire, candidates, device, shadows)
            trained = recipes[wire.training]
            attacked[name].append(_attack(setting, wire, candidates, device, trained))
        told(number + 1)
    return {name: _rates(found) for name, found in attacked.items()}


def _train(
    setting: Setting, wire: Wire, candidates: Candidates, device: int, shadows: int
) -> Trained:
    """The device itself, some on other samples, and shadow models on parts of the candidates."""
    ground, task, _ = setting
    dataset, own = ground.dataset, candidates.rows[: candidates.own]
    strangers = [
        ground.like(own, ground.public, stream(task.seed, "audit-null", device, number))
        for number in range(STRANGERS)
    ]
    halves = [_shadow_samples(setting, candidates, device, number) for number in range(shadows)]
    sets = [own, *strangers, *halves]
    saw = np.stack([np.isin(candidates.rows, half) for half in halves])
    every = np.unique(np.concatenate([candidates.rows, *strangers, *halves]))
    labels = dataset.train_labels[every]
    samples = Samples(dataset.train_inputs[every], one_hot(labels, dataset.num_labels))
    state = start_device(wire, task, device)
    turn = Turn(task.seed, ROUND, device)
    starts: list[Start] = []
    draws: list[Draws] = []
    for number, held in enumerate(sets):
        places = np.searchsorted(every, held)
        own_labels = partial(labels.__getitem__, places)
        rows = HeldRows(places, own_labels, partial(_read, samples.inputs, labels, places))
        start, chosen = begin_phase(wire, task, state, rows, turn)
        starts.append(start)
        draws.append(chosen if number == 0 else _own_draws(task, places, device, number))
    steps = task.config.learning.local_steps
    held = task.stepper.hold(samples)
    learned = task.stepper.train(label_loss, held, starts, draws, Watch(0, (steps,)))
    target, *rest = local_results(learned.phases)
    return Trained(target, rest[:STRANGERS], rest[STRANGERS:], saw)


def _shadow_samples(setting: Setting, candidates: Candidates, device: int, number: int) -> Rows:
    """What a shadow model is trained on: a part of the candidates, and as many public samples.

    Parts of SEEN_BY models are all candidates. Without public samples these models would be more
    alike than a stranger's is, and a stranger's would seem to have seen what it has not.
    """
    ground, task, _ = setting
    rng = stream(task.seed, "audit-shadow", device, number // SEEN_BY)
    shuffled = rng.permutation(candidates.rows)
    labels = ground.dataset.train_labels[shuffled]
    part = shuffled[np.argsort(labels, kind="stable")][number % SEEN_BY :: SEEN_BY]
    fill = stream(task.seed, "audit-public", device, number)
    return np.concatenate([part, ground.like(part, ground.public, fill)])


def _read(inputs: Inputs, labels: NDArray[np.int32], places: Rows) -> Own:
    return inputs[places], labels[places]


def _own_draws(task: Task, places: Rows, device: int, number: int) -> Draws:
    """Draws that the attacker's models take: the device's own are not known to the server."""
    rng = stream(task.seed, "audit-draws", device, number)
    learning = task.config.learning
    drawn = draw_samples(rng, len(places), learning.local_steps, learning.batch_size)
    return np.asarray(places[drawn], np.int32)


def _attack(
    setting: Setting, wire: Wire, candidates: Candidates, device: int, trained: Trained
) -> Attacked:
    """Likelihood ratios of all candidates, from what the server decodes of each upload."""
    ground, task, _ = setting
    state, turn = start_device(wire, task, device), Turn(task.seed, ROUND, device)

    def seen(local: Local) -> Any:
        return wire.decode_knowledge(wire.encode_knowledge(state, local, turn).data, turn)

    uploads = [seen(local) for local in (trained.target, *trained.strangers, *trained.shadows)]
    labels = ground.dataset.train_labels[candidates.rows]
    target, *rest = _statistics(setting, uploads, state["weights"], candidates.rows)
    groups = labels if target.shape[1] > 1 else np.zeros_like(labels)
    shadows = np.stack(rest[STRANGERS:])
    real, *others = (
        likelihood_ratios(each, shadows, trained.saw, groups)
        for each in (target, *rest[:STRANGERS])
    )
    calibrating, null = np.split(np.concatenate(others), 2)
    return Attacked(real[: candidates.own], real[candidates.own :], calibrating, null)


def _statistics(
    setting: Setting, uploads: Sequence[Any], begun: Tensors, rows: Rows
) -> list[NDArray[np.float64]]:
    """What every upload says about each candidate: [uploads][n, k]."""
    dataset = setting.ground.dataset
    labels = dataset.train_labels[rows]
    if isinstance(uploads[0], np.ndarray):  # mean outputs: the row of the candidate's label
        return [np.log(np.maximum(each[labels], 1e-12)).astype(np.float64) for each in uploads]
    weights = [_weights(each, begun) for each in uploads]
    outputs = logits(setting.model, dataset.train_inputs[rows], weights)
    return list(margin(outputs, labels)[..., None])


def _weights(upload: Any, begun: Tensors) -> Tensors:
    if isinstance(upload, Update):
        return tuple(a + b for a, b in zip(begun, upload.tensors, strict=True))
    weights: Tensors = upload
    return weights


def _rates(found: Sequence[Attacked]) -> dict[str, Any]:
    """Shares above thresholds that models of strangers decide; or outsiders of the same upload."""
    own, outside, calibrating, null = (
        np.concatenate([getattr(each, name) for each in found]) for name in Attacked._fields
    )
    rates = {}
    for rate in FALSE_POSITIVES:
        limit = threshold(calibrating, rate)
        shares = {
            "device": above(own, limit),
            "outside": above(outside, limit),
            "null": above(null, limit),
            "by_outsiders": above(own, threshold(outside, rate)),
        }
        rates[f"{rate:g}"] = {name: share.as_record() for name, share in shares.items()}
    return rates
