"""The page of robustness: costs are taken over the seeds that both runs have."""

from typing import Any

import pytest
from benchmarks.robustness import SETTINGS, cases, complete_seeds, outcome
from benchmarks.robustness_costs import FRESH, SEEDS, cost_of, findings, in_points, mild
from benchmarks.robustness_long import ADAPTIVE, render_long
from benchmarks.robustness_page import render

import mix2fld
from mix2fld.config.settings import PRESETS, Config
from mix2fld.engine.attacks import ATTACKS
from toys import toy_dataset


def run_of(defence: str, attack: str, seed: int, server: float, **more: Any) -> dict[str, Any]:
    attackers = 0 if attack == "none" else 2
    row = {"protocol": "fl", "defence": defence, "attack": attack, "attackers": attackers}
    return {**row, "seed": seed, "server": server, "devices": 0.5, **more}


RECORDS = [
    run_of("mean", "none", 0, 0.90),
    run_of("mean", "none", 1, 0.80),
    run_of("robust", "none", 0, 0.88),
    run_of("robust", "sign-flip", 1, 0.79),
]


def test_other_seeds_do_not_change_a_cost() -> None:
    assert cost_of(RECORDS, "fl", "none", 0) == 100 * (0.90 - 0.88)
    assert cost_of(RECORDS, "fl", "sign-flip", 2) == 100 * (0.80 - 0.79)
    assert cost_of(RECORDS, "fl", "scaling", 2) is None


def test_the_page_says_what_is_missing_and_what_a_defence_costs() -> None:
    page = render(RECORDS, SETTINGS, 100, complete=0)
    assert "100 runs takes about half an hour of one idle core; 4 are\nrecorded" in page
    assert "or over as many as a cell says" in page
    assert "79.0 / 50.0 (1 of 5 seeds) (+1.0)" in page
    assert "or has not been run yet" in page
    assert "the preset costs 2.0 points at most (FL)" in page
    assert "more than 1: FL 2.0" in page


def test_no_run_of_the_grid_is_one_whose_attack_meets_nothing() -> None:
    grid = set(cases())
    assert {case.attack for case in grid} == {"none", *ATTACKS} - set(ADAPTIVE)
    assert not [c for c in grid if c.protocol in ("fl", "statistics") and "seed" in c.attack]
    assert {c.seed for c in grid if c.seed >= SEEDS} == set(FRESH)


def test_a_page_of_some_complete_seeds_leaves_out_the_others() -> None:
    recorded = [case for case in set(cases()) if case.seed != 3]
    assert complete_seeds(set(cases()), recorded) == 3
    assert complete_seeds(set(cases()), set(cases())) == SEEDS
    three = [run_of("mean", "none", seed, 0.9) for seed in range(3)]
    more = [run_of("mean", "none", 4, 0.1), run_of("robust", "sign-flip", 4, 0.1)]
    page = render(three + more, SETTINGS, 100, complete=3)
    assert "Means over 3 seeds of the random generator, 0 to 2" in page
    assert "| no attack | 90.0 |" in page
    assert "10.0" not in page


def test_fresh_seeds_are_shown_by_themselves_and_together_with_the_others() -> None:
    def run(seed: int, defence: str, attack: str, server: float) -> dict[str, Any]:
        found = run_of(defence, attack, seed, server, protocol="mix2fld")
        caught = {"left_out": {"attackers": found["attackers"], "honest": 0}}
        return {**found, **(caught if defence == "robust" else {})}

    records = [run(seed, "mean", "none", 0.90) for seed in (0, 5, 6)]
    costly = {5: 0.85, 6: 0.87}
    records += [run(seed, "robust", "seed-label-shift", costly[seed]) for seed in costly]
    page = render([*records, run(0, "robust", "seed-label-shift", 0.91)], SETTINGS, 100, 0)
    assert "86.0 (2 of 5 seeds) **(4.0 ± 1.0)** | 2.3 ± 1.8 |" in page
    assert "the seeds of 4 of 4 attackers were left out, and those of 0 honest devices" in page
    assert "more do: Mix2FLD `seed-label-shift` 4.0 ± 1.0 (by seed: 5.0, 3.0)" in page
    assert in_points([1.0]) == "1.0"


@pytest.mark.parametrize("attack", ["none", "scaling", "label-shift"])
def test_measuring_at_the_end_changes_no_number(attack: str) -> None:
    few = {"devices": 4, "rounds": 3, "local_steps": 20, "server_steps": 20, "link": "ideal"}
    config = Config.of(
        **few, samples_per_device=40, seed_samples=6, inverse_samples=6, model="mlp",
        protocol="mixfld", attack=attack, **PRESETS["robust"],
    )  # fmt: skip
    found = outcome(config, toy_dataset())
    (whole,) = mix2fld.run(config, dataset=toy_dataset())
    accuracy = whole.summary["scores"]
    assert (found["server"], found["devices"]) == (accuracy["global"], accuracy["mean"])
    assert set(found["left_out"]) == {"attackers", "honest"}


def test_a_run_that_stops_costs_more_than_any_other() -> None:
    """Seeds that survive an attack say nothing for those that do not."""
    stops = run_of("mean", "scaling", 1, 0.0) | {"server": None, "stopped": "not finite"}
    records = [
        *RECORDS[:2],
        run_of("mean", "scaling", 0, 0.90),
        stops,
        run_of("robust", "scaling", 0, 0.90),
        run_of("robust", "scaling", 1, 0.79),
    ]
    assert mild(records, "fl", "scaling", 2, "robust")
    assert not mild(records, "fl", "scaling", 2, "mean")
    assert "1 of 1 pairs of protocol and attack cost at most 2 points" in findings(records)
    assert "with the preset, 0 of 1 without any defence." in findings(records)


def test_the_long_runs_say_who_lost_what_and_who_was_named() -> None:
    def run(defence: str, attack: str, server: float, **fields: Any) -> dict[str, Any]:
        ours = {"fleet": "ten", "protocol": "fl", "defence": defence, "attack": attack, "seed": 0}
        reached = {"server": server, "worst": server - 0.1, "honest_named": 0, "attackers_named": 0}
        return {**ours, **reached, **fields}

    page = render_long(
        [
            run("mean", "none", 0.9),
            run("mean", "min-max", 0.8),
            {**run("mean", "sign-flip", 0.1), "stopped": "why", "server": None},
            run("clipped-median", "none", 0.9),
            run("clipped-median", "min-max", 0.88, attackers_named=30),
        ]
    )
    assert "| FL | mean | 90.0 / 80.0 | stops, 1 of 1 |" in page
    assert "80.0 / 70.0 **(+10.0)**" in page
    assert "88.0 / 78.0 " in page
