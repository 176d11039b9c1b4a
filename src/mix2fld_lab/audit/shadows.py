"""LiRA on what devices upload after training: weights, updates and mean outputs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mix2fld.base.streams import stream
from mix2fld.engine.wire import Wire
from mix2fld.models import make_model
from mix2fld.protocols.parts import Turn
from mix2fld.protocols.table import as_spelled, get_protocol
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Local, State
from mix2fld_lab.attacks.lira import group_ratios, likelihood_ratios
from mix2fld_lab.attacks.rates import FALSE_POSITIVES, Scores
from mix2fld_lab.audit.ground import Ground
from mix2fld_lab.audit.learners import (
    AttackedPhase,
    AttackedSetting,
    Learners,
    MembershipCandidates,
    Statistics,
    after,
    first_states,
    make_learners,
    statistics,
    train,
)
from mix2fld_lab.audit.seeds import NULLS, Scored, rates_at

Told = Callable[[int], None]
Ratios = Callable[..., Scores]
"""Of the statistics of a target and of shadow models, who saw what, and groups of candidates."""


class Watched(NamedTuple):
    """Which devices of which run are attacked, and by how many shadow models."""

    ground: Ground
    seed: int
    devices: Sequence[int]
    shadows: int


def attack_uploads(
    watched: Watched, protocols: Sequence[str], told: Told = lambda _: None
) -> dict[str, Any]:
    """True-positive rates of LiRA on the first upload of each protocol, by false positives."""
    settings = {name: _setting(watched, name) for name in protocols}
    wires = {name: Wire(get_protocol(name), own.learning) for name, own in settings.items()}
    attacked: dict[str, list[Scored]] = {name: [] for name in protocols}
    by_margin: dict[str, list[Scored]] = {name: [] for name in protocols if _uploads_model(name)}
    for number, device in enumerate(watched.devices):
        candidates = _candidates(watched, device)
        learners = make_learners(settings[protocols[0]], candidates, watched.shadows)
        recipes: dict[Any, list[Local]] = {}
        for name, wire in wires.items():
            setting = settings[name]
            states = first_states(setting, wire, device, learners)
            if wire.training not in recipes:
                recipes[wire.training] = train(
                    setting, wire, learners, states, _turn(setting, device)
                )
            phase = AttackedPhase(wire, states, recipes[wire.training], _turn(setting, device))
            seen = statistics(setting, phase, candidates.rows)
            ratios = ratios_for(name)
            attacked[name].append(_attack(setting, candidates, learners, seen, ratios))
            if name in by_margin:
                margins = [each[:, :1] for each in seen]
                by_margin[name].append(_attack(setting, candidates, learners, margins, ratios))
        told(number + 1)
    alone = {name: {"by margin": _rates(found)} for name, found in by_margin.items()}
    return {name: {**_rates(found), **alone.get(name, {})} for name, found in attacked.items()}


def attack_rounds(
    watched: Watched, protocol: str, rounds: int, told: Told = lambda _: None
) -> dict[str, Any]:
    """The same on the first uploads of a protocol together: 1, 2, .. ``rounds`` of them.

    Shadow models receive what the devices of the run received: a download is made of uploads that
    the server has seen, so what an upload tells is counted given the download before it.
    """
    setting = _setting(watched, protocol, link="ideal")
    downloads = _downloads(setting, rounds - 1)
    wire = Wire(get_protocol(protocol), setting.learning)
    attacked: list[list[Scored]] = [[] for _ in range(rounds)]
    for number, device in enumerate(watched.devices):
        candidates = _candidates(watched, device)
        learners = make_learners(setting, candidates, watched.shadows)
        states, seen = first_states(setting, wire, device, learners), []
        for place in range(rounds):
            turn = _turn(setting, device, place + 1)
            trained = train(setting, wire, learners, states, turn)
            phase = AttackedPhase(wire, states, trained, turn)
            seen.append(statistics(setting, phase, candidates.rows))
            together = [np.concatenate(each, axis=1) for each in zip(*seen, strict=True)]
            scored = _attack(setting, candidates, learners, together, ratios_for(protocol))
            attacked[place].append(scored)
            if place < rounds - 1:
                states = after(phase, learners, downloads[place])
        told(number + 1)
    return {str(count + 1): _rates(found) for count, found in enumerate(attacked)}


def _uploads_model(name: str) -> bool:
    """Whether a protocol uploads a model, and not what it says."""
    return get_protocol(name).upload_kind != "outputs"


def _setting(watched: Watched, protocol: str, **changes: Any) -> AttackedSetting:
    dataset = watched.ground.dataset
    config = as_spelled(watched.ground.config.at(protocol, watched.seed)).replace(**changes)
    learning = make_learning(config, dataset.samples, Classification(dataset.num_labels))
    model = make_model(config.learning.model, dataset.sample_shape, dataset.num_labels)
    return AttackedSetting(watched.ground, learning, model)


def _turn(setting: AttackedSetting, device: int, number: int = 1) -> Turn:
    return Turn(setting.learning.seed, number, device)


def _candidates(watched: Watched, device: int) -> MembershipCandidates:
    ground, own = watched.ground, watched.ground.parts(watched.seed)[device]
    rng = stream(watched.seed, "audit-candidates", device)
    rows = np.concatenate([own, ground.like(own, ground.outside, rng)])
    return MembershipCandidates(rows, len(own), device)


def ratios_for(name: str) -> Ratios:
    """A candidate's own statistics in a model; of mean outputs, all of a label share a row."""
    return likelihood_ratios if _uploads_model(name) else group_ratios


def _attack(
    setting: AttackedSetting,
    candidates: MembershipCandidates,
    learners: Learners,
    seen: Statistics,
    ratios: Ratios,
) -> Scored:
    """Likelihood ratios of all candidates, from what the server decodes of each upload."""
    labels = setting.ground.dataset.train_labels[candidates.rows]
    target, *rest = seen
    shadows = np.stack(rest[NULLS:])
    (own, outside), *others = (
        np.split(ratios(each, shadows, learners.saw, labels), [candidates.own])
        for each in (target, *rest[:NULLS])
    )
    null_own, null_outside = (np.concatenate(each) for each in zip(*others, strict=True))
    return Scored([own], [outside], [null_own], [null_outside], [])


def _rates(found: Sequence[Scored]) -> dict[str, Any]:
    return {f"{rate:g}": rates_at(rate, found) for rate in FALSE_POSITIVES}


def _downloads(setting: AttackedSetting, rounds: int) -> list[State]:
    """What devices receive in each of the first rounds of the run itself."""
    learning, dataset = setting.learning, setting.ground.dataset
    simulation = make_simulation(
        learning.config.replace(evaluated_devices=1, curve_points=1), dataset
    )
    state, found = simulation.start(), []
    wire = simulation.scenario.wire
    for _ in range(rounds):
        state, _ = simulation.run_round(state)
        found.append(wire.decode_download(wire.encode_download(state.server).data))
    return found
