"""The page of robustness: costs are taken over the seeds that both runs have."""

from typing import Any

from benchmarks.robustness import SETTINGS, cases
from benchmarks.robustness_page import cost_of, render

from mix2fld.device.attacks import ATTACKS


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
    page = render(RECORDS, SETTINGS, 100)
    assert "100 runs takes about an hour of one core; 4 are recorded" in page
    assert "79.0 / 50.0 (1 of 5 seeds) (+1.0)" in page
    assert "or has not been run yet" in page
    assert "the preset costs 2.0 points at most (FL)" in page
    assert "more than 1: FL 2.0" in page


def test_no_run_of_the_grid_is_one_whose_attack_meets_nothing() -> None:
    grid = set(cases())
    assert {case.attack for case in grid} == {"none", *ATTACKS}
    assert not [c for c in grid if c.protocol in ("fl", "statistics") and "seed" in c.attack]
