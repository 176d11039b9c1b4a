"""Attackers of a simulation: what they send, and that the defence and the record see it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.cli.run import attackers
from mix2fld.config.settings import PRESETS, Config
from mix2fld.engine.attackers import replace_uploads
from mix2fld.engine.attacks import ATTACKS, CLAIM, TARGET, Known, with_pattern
from mix2fld.engine.fleet_interface import Order
from mix2fld.engine.fleets import local as local_fleet
from mix2fld.engine.scenario import attackers_of, reference_device
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.checkpoint import load_checkpoint
from mix2fld.runs.simulation import Simulation, make_simulation, resume_run
from mix2fld.types import Local, Seeds
from toys import toy_config, toy_dataset, toy_grid

ROBUST = PRESETS["robust"]

NO_WEIGHTS = {
    "isolated",
    "own-statistics",
    "dp-statistics",
    "dp-sum",
    "dp-seeds",
    "dp-seeds-sum",
    "cfd",
}
"""Protocols whose uploads are neither weights nor updates nor outputs nor statistics."""


def known(strength: float = 2.0) -> Known:
    honest = np.array([[1.0, 2.0], [3.0, 2.0]])
    return Known(
        np.array([1.0, -1.0]), honest, np.array([0.5, 0.0]), np.random.default_rng(0), strength
    )


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("sign-flip", [-2.0, 2.0]),
        ("scaling", [2.0, -2.0]),
        ("update-flip", [-0.5, 2.0]),
        ("little-is-enough", [0.0, 2.0]),
        ("sample-count", [0.0, 0.0]),
    ],
)
def test_what_is_sent_by_hand(name: str, sent: list[float]) -> None:
    upload = ATTACKS[name].upload
    assert upload is not None
    np.testing.assert_allclose(upload(known()), sent)


def _crowd(name: str) -> tuple[np.ndarray, Known]:
    """What attackers send among twenty honest devices, and what they know."""
    rng = np.random.default_rng(1)
    honest = rng.normal(1.0, 0.3, (20, 40))
    about = Known(rng.normal(-2.0, 1.0, 40), honest, np.zeros(40), rng, ATTACKS[name].strength)
    upload = ATTACKS[name].upload
    assert upload is not None
    return upload(about), about


@pytest.mark.parametrize(("name", "size"), [("min-max", np.max), ("min-sum", np.sum)])
def test_an_adaptive_upload_is_as_far_as_honest_ones_are_and_no_farther(name: str, size) -> None:
    sent, about = _crowd(name)
    apart = ((about.honest[:, None] - about.honest[None]) ** 2).sum(axis=2)
    mine = size(((about.honest - sent) ** 2).sum(axis=1))
    assert mine == pytest.approx(max(size(row) for row in apart), rel=1e-6)
    assert (sent < about.honest.mean(axis=0)).all()


@pytest.mark.parametrize("name", ["label-shift-inside", "back-inside"])
def test_what_stays_inside_a_filter_is_taken_by_it(name: str) -> None:
    """Just so: a tenth of the median distance farther, and it would not be."""
    sent, about = _crowd(name)
    middle = np.median(about.honest, axis=0)
    typical = np.median(np.linalg.norm(about.honest - middle, axis=1))
    assert np.linalg.norm(sent - middle) == pytest.approx(2.9 * typical)


def test_a_step_against_the_mean() -> None:
    sent, about = _crowd("inner-product")
    np.testing.assert_allclose(sent, -0.5 * about.honest.mean(axis=0))


def test_seeds_of_one_label_collude() -> None:
    relabel = ATTACKS["seed-one-label"].seeds
    assert relabel is not None
    seeds = Seeds(np.zeros((4, 2)), np.array([[1], [2], [0], [1]], np.int32))
    assert relabel(seeds, 4, 1.0).labels.tolist() == [[0], [2], [0], [0]]


def test_a_random_step_has_the_stated_length() -> None:
    upload = ATTACKS["random"].upload
    assert upload is not None
    own = known()
    step = upload(own) - own.last
    assert np.linalg.norm(step) == pytest.approx(2 * np.linalg.norm(own.own - own.last))


def test_the_catalogue_is_that_of_the_settings() -> None:
    named = Config.model_fields["attack"].default.__class__.model_fields["attack"].annotation
    assert set(named.__args__) == {"none", *ATTACKS}


def test_attackers_are_drawn_once_and_never_the_reference() -> None:
    for seed in range(30):
        config = toy_config(seed=seed, devices=6, attack="scaling", attackers=5)
        assert len(attackers_of(config)) == 5
        assert reference_device(config) not in attackers_of(config)
        fewer = config.replace(attackers=2)
        assert attackers_of(fewer) <= attackers_of(config)
    assert attackers_of(toy_config()) == frozenset()


@pytest.mark.parametrize("attackers", [4, 5])
def test_somebody_is_honest(attackers: int) -> None:
    with pytest.raises(InputError, match=f"attackers = {attackers}: must be below devices = 4"):
        toy_config(attack="scaling", attackers=attackers)


def test_an_attack_begins_before_the_run_ends() -> None:
    with pytest.raises(InputError, match="attack_from = 4: must be at most rounds = 3"):
        toy_config(attack="scaling", attack_from=4, rounds=3)


@pytest.mark.parametrize("flag", ["--attackers", "--attack-from", "--attack-strength"])
def test_a_flag_of_an_attack_needs_one(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", flag, "1"])
    name = flag[2:].replace("-", "_")
    assert f"{name}: has no effect with attack = none; must go with" in capsys.readouterr().err


def test_attackers_are_listed_below_the_table() -> None:
    config = toy_grid(attack="scaling", attackers=2, seed=[3, 4])
    three, four = attackers(config)
    one, other = sorted(attackers_of(config.at(seed=3)))
    assert three == f"seed 3: attackers (scaling), not measured: devices {one}, {other}"
    assert four.startswith("seed 4: ")
    assert attackers(toy_grid()) == []


def simulate(**fields: object) -> tuple[Simulation, dict[int, object], dict[int, object]]:
    """The uploads of a first round, as learned and as sent, decoded."""
    simulation = make_simulation(toy_config(**fields), toy_dataset())
    scenario, fleet = simulation
    state = simulation.start()
    devices = tuple(range(scenario.devices))
    evaluated = frozenset(scenario.evaluated)
    order = Order(1, devices, scenario.reference, evaluated, state.roster, lambda: None, {})
    _, trained = fleet.train(state.devices, order)
    sent = replace_uploads(scenario, state.server, 1, trained)
    return simulation, dict(trained.messages), dict(sent.messages)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in NO_WEIGHTS])
def test_every_attack_on_every_protocol_is_carried_or_refused(protocol: str, attack: str) -> None:
    """Bits charged are bits carried; all others send what they learned."""
    row = PROTOCOLS[protocol]
    if ATTACKS[attack].seeds and row.seeds is None:
        with pytest.raises(InputError, match=f"replaces seeds; {row.title} has none"):
            simulate(protocol=protocol, attack=attack, attackers=2)
        return
    simulation, learned, sent = simulate(protocol=protocol, attack=attack, attackers=2)
    wire, bad = simulation.scenario.wire, attackers_of(simulation.scenario.config)
    for device, message in sent.items():
        wire.check_bits(message)
        if device not in bad:
            assert message == learned[device]
    changed = {device for device in sent if sent[device] != learned[device]}
    expected = bad if ATTACKS[attack].upload or ATTACKS[attack].seeds else set()
    if attack == "scaling" and protocol in ("vote", "feedsign"):
        expected = set()  # signs have no length
    if protocol == "feedsign":  # any bit is the honest one every other time
        assert changed <= expected
        return
    if attack == "label-shift-inside":  # an upload that is inside already is left as it is
        assert changed <= expected
        return
    assert changed == expected


@pytest.mark.parametrize("protocol", ["fl", "fd", "statistics"])
def test_attackers_may_be_the_only_ones_who_send(protocol: str) -> None:
    """As statistics that were refused are, in the next round."""
    simulation = make_simulation(
        toy_config(protocol=protocol, attack="little-is-enough", attackers=2), toy_dataset()
    )
    scenario, fleet = simulation
    state, bad = simulation.start(), tuple(sorted(attackers_of(simulation.scenario.config)))
    evaluated = frozenset(scenario.evaluated)
    order = Order(1, bad, scenario.reference, evaluated, state.roster, lambda: None, {})
    _, trained = fleet.train(state.devices, order)
    sent = replace_uploads(scenario, state.server, 1, trained)
    for device in bad:
        scenario.wire.check_bits(sent.messages[device])


def test_a_lie_about_samples_is_sent() -> None:
    simulation, _, sent = simulate(protocol="fl", attack="sample-count")
    (liar,) = attackers_of(simulation.scenario.config)
    assert sent[liar].samples == CLAIM


def test_an_attack_begins_when_it_should() -> None:
    config = toy_config(protocol="fl", rounds=3, attack="sign-flip", attack_from=3)
    (attacked,) = mix2fld.run(config, dataset=toy_dataset())
    (honest,) = mix2fld.run(config.replace(attack="none"), dataset=toy_dataset())
    one, other = ([info["scores"] for info in run.rounds] for run in (attacked, honest))
    same = [a["global"] == b["global"] for a, b in zip(one, other, strict=True)]
    assert same == [True, True, False]
    (liar,) = attackers_of(config)
    assert [liar in a["measured"] for a in (one[0], other[0])] == [False, True]


def test_seeds_are_mislabelled_or_marked() -> None:
    seeds = Seeds(np.arange(32, dtype=np.uint8).reshape(2, 4, 4, 1), np.array([[3], [0]], np.int32))
    shift, mark = ATTACKS["seed-label-shift"].seeds, ATTACKS["seed-backdoor"].seeds
    assert shift is not None
    assert mark is not None
    np.testing.assert_array_equal(shift(seeds, 4).labels, [[0], [1]])
    marked = mark(seeds, 4)
    np.testing.assert_array_equal(marked.labels, [[TARGET], [TARGET]])
    assert (marked.inputs[:, :3, :3] == 31).all()
    np.testing.assert_array_equal(marked.inputs[:, 3], seeds.inputs[:, 3])
    mixed = mark(Seeds(seeds.inputs, np.array([[0, 2], [3, 1]], np.int32)), 4)
    np.testing.assert_array_equal(mixed.labels, [[1, TARGET], [3, TARGET]])
    assert with_pattern(np.ones((2, 5), np.float32)).shape == (2, 5)


def test_false_labels_are_learned_by_attackers_alone() -> None:
    config = toy_config(protocol="fld", devices=4, attackers=1, attack="label-shift")
    simulation, _, sent = simulate(protocol="fld", attackers=1, attack="label-shift")
    (liar,) = attackers_of(config)
    honest = make_simulation(config.replace(attack="none"), toy_dataset())
    wire = honest.scenario.wire
    for device in range(4):
        true = wire.make_once(device, *honest.fleet.own(device)).labels
        found = wire.decode_once(sent[device].once.data).labels
        np.testing.assert_array_equal(found, (true + 1) % 4 if device == liar else true)
    assert len(simulation.fleet.parts) == 4


def test_uploads_that_no_one_sends_are_left_out_and_the_run_continues() -> None:
    """Weights above a million are refused wherever they come from."""
    config = toy_config(protocol="fl", rounds=2, attack="scaling", attack_strength=1e9)
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    (liar,) = attackers_of(config)
    assert all(liar not in info["uploads"]["devices"] for info in result.rounds)


def test_scaled_weights_do_not_stop_a_robust_run_and_are_named() -> None:
    config = toy_config(protocol="fl", rounds=3, attack="scaling", **ROBUST)
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    (honest,) = mix2fld.run(config.replace(attack="none"), dataset=toy_dataset())
    (liar,) = attackers_of(config)
    for info in result.rounds:
        (suspect,) = info["suspects"]
        assert suspect["device"] == liar
        assert suspect["times"] > 100
    assert result.summary["scores"]["global"] > honest.summary["scores"]["global"] - 0.1


def test_a_model_that_all_refuse_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops with the reason and the device; what is resumed is the last good model."""
    config = toy_config(protocol="fl", rounds=4, attack="scaling", attack_from=2)

    def above_a_thousand(local: Mapping[int, Local]) -> Mapping[int, Local]:
        far = all(max(np.abs(w).max() for w in result.weights) > 1e3 for result in local.values())
        return {} if far else local

    monkeypatch.setattr(local_fleet, "without_diverged", above_a_thousand)
    (liar,) = attackers_of(config)
    words = (
        rf"round 3: all 4 devices that were asked diverge from the global model; in round 2, "
        rf"device {liar} uploaded weights \d.* times as far .*; the model before round 2 is kept"
    )
    with pytest.raises(InputError, match=words):
        mix2fld.run(config, tmp_path / "out", dataset=toy_dataset())
    folder = tmp_path / "out" / config.run_name
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert len(kept["rounds.jsonl"].splitlines()) == 1
    simulation = make_simulation(config, toy_dataset())
    state, _ = simulation.run_round(simulation.start())
    last = load_checkpoint(folder / "checkpoint.safetensors", simulation.start())
    for mine, theirs in zip(last.tree["server"]["weights"], state.server.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(InputError, match=words):
        resume_run(folder, toy_dataset())
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept
