"""Seeds are judged by the seeds of others: what is left out, and that a resume judges alike."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.config.settings import PRESETS, Config
from mix2fld.engine.attacks import mislabel, plant_backdoor
from mix2fld.engine.one_round import run_round
from mix2fld.protocols.seed_screening import NO_VERDICT, judge_seeds
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.replay import REPLAY
from mix2fld.types import Seeds
from stored_runs import check_resumed
from toys import BARS, bars


def config_of(**fields: object) -> Config:
    small = {"devices": 6, "samples_per_device": 60, "partition": "iid", "model": "mlp"}
    steps = {"local_steps": 40, "server_steps": 150, "learning_rate": 0.05, "seed_samples": 16}
    rest = {"rounds": 3, "link": "ideal", "inverse_samples": 16, **PRESETS["robust"]}
    return Config.of(**{**small, **steps, **rest, "protocol": "fld", **fields})


def seeds_of(config: Config) -> tuple[object, dict[int, Seeds]]:
    scenario, fleet = make_simulation(config, bars())
    made = {d: scenario.wire.make_once(d, *fleet.own(d)) for d in range(scenario.devices)}
    return scenario.learning, made


@pytest.mark.parametrize("protocol", ["fld", "mixfld", "mix2fld"])
@pytest.mark.parametrize("spoil", [mislabel, plant_backdoor])
def test_false_seeds_are_left_out_and_only_they(
    protocol: str, spoil: Callable[[Seeds, int], Seeds]
) -> None:
    learning, seeds = seeds_of(config_of(protocol=protocol))
    honest = judge_seeds(seeds, learning)
    assert honest.left_out == ()
    assert set(honest.agreement) == set(seeds)
    for bad in ((1,), (0, 4)):
        spoilt = {d: spoil(own, BARS) if d in bad else own for d, own in seeds.items()}
        found = judge_seeds(spoilt, learning)
        assert found.left_out == bad
        assert max(found.agreement[d] for d in bad) < 0.5 * found.typical
        assert found.steps >= honest.steps + learning.config.learning.server_steps


def test_half_of_the_labels_being_false_is_enough_to_be_left_out() -> None:
    """Far below what shares of so many labels scatter by, though above half of what is typical."""
    learning, seeds = seeds_of(config_of(seed_samples=48))
    spoilt = {**seeds, 3: mislabel(seeds[3], BARS, 0.45)}
    found = judge_seeds(spoilt, learning)
    assert found.agreement[3] > 0.5 * found.typical
    assert found.left_out == (3,)
    assert judge_seeds({**seeds, 3: mislabel(seeds[3], BARS, 0.05)}, learning).left_out == ()


def test_nothing_is_judged_unless_it_is_wanted_or_by_too_few() -> None:
    learning, seeds = seeds_of(config_of(seed_check="none"))
    assert judge_seeds(seeds, learning) == NO_VERDICT
    learning, seeds = seeds_of(config_of())
    two = judge_seeds({0: seeds[0], 1: mislabel(seeds[1], BARS)}, learning)
    assert two.left_out == ()
    assert two.agreement == {}


def test_never_half_of_all_are_left_out() -> None:
    learning, seeds = seeds_of(config_of())
    spoilt = {d: mislabel(own, BARS) if d < 4 else own for d, own in seeds.items()}
    assert len(judge_seeds(spoilt, learning).left_out) <= 2


def test_a_judge_votes_on_labels_that_it_knows() -> None:
    """Devices with two labels each: those who share a label judge each other."""
    learning, seeds = seeds_of(config_of())
    halves = {}
    for device, own in seeds.items():
        kept = np.isin(own.labels[:, 0], (0, 1) if device % 2 else (2, 3))
        rows = np.flatnonzero(kept)[np.arange(16) % kept.sum()]
        halves[device] = Seeds(own.inputs[rows], own.labels[rows])
    found = judge_seeds(halves, learning)
    assert found.left_out == ()
    assert min(found.agreement.values()) > 0.7


@pytest.mark.parametrize("protocol", ["fld", "mix2fld"])
def test_the_student_is_spared_and_the_record_says_so(protocol: str) -> None:
    config = config_of(protocol=protocol, attack="seed-label-shift", attackers=1)
    accuracies = {}
    for name, changes in (("off", {"seed_check": "none"}), ("on", {})):
        (result,) = mix2fld.run(config.replace(**changes), dataset=bars())
        accuracies[name] = result.summary["scores"]["global"]
    assert accuracies["on"] >= accuracies["off"]
    first, *later = result.rounds
    (suspect,) = [s for s in first["suspects"] if s["upload"] == "seeds"]
    assert suspect["agreement"] < 0.5 * suspect["typical"]
    assert all(info["left_out"] == [suspect["device"]] for info in (first, *later))
    assert not [s for info in later for s in info["suspects"] if s["upload"] == "seeds"]
    learning, clock = config.learning, config.clock
    judged = first["seconds"]["computing"] - later[0]["seconds"]["computing"]
    steps = judged / (clock.server_step_us * 1e-6)
    assert steps == pytest.approx(round(steps / learning.server_steps) * learning.server_steps)
    assert steps > 0


def test_a_resumed_run_judges_as_the_first_did(tmp_path: Path) -> None:
    """The same bytes: also the seconds that judging takes are counted once."""
    check_resumed(tmp_path, config_of(attack="seed-label-shift", attackers=1), 1, dataset=bars())


def test_seeds_that_come_later_are_judged_with_all_others() -> None:
    learning, seeds = seeds_of(config_of())
    spoilt = {**seeds, 2: mislabel(seeds[2], BARS)}
    assert judge_seeds({d: spoilt[d] for d in (1, 2)}, learning).left_out == ()
    assert judge_seeds(spoilt, learning).left_out == (2,)


def test_seeds_that_are_left_out_are_not_replayed() -> None:
    """Murmur-Mix multicasts the seeds that it holds: those of an attacker reach no device."""
    attack = {"attack": "seed-label-shift", "attackers": 1}
    simulation = make_simulation(config_of(protocol="murmur-mix", **attack), bars())
    state, info = run_round(*simulation, simulation.start())
    (bad,) = info.left_out
    assert set(state.server.seeds) == set(range(6))
    for device in range(6):
        held = state.devices[device][REPLAY]["held"]
        assert np.flatnonzero(~held).tolist() == [bad]


def test_a_bad_choice_is_named() -> None:
    with pytest.raises(InputError, match="seed_check = 'maybe'"):
        Config.of(seed_check="maybe")
