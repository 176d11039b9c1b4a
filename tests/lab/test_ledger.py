"""How the ledger judges records: numbers over seeds, verdicts, and what is committed."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from invented_records import COSTS, a_world, as_the_paper_says, privacy, record
from numpy.testing import assert_allclose
from scipy import stats

from mix2fld.base.spread import sample_variance, spread
from mix2fld.config.settings import Config
from mix2fld.runs.link_plan import plan_link
from mix2fld_lab.reproduction.cell_records import CellRecord, load_records
from mix2fld_lab.reproduction.claims import CLAIMS, judge
from mix2fld_lab.reproduction.evidence import Claim, Evidence, Statement, sized
from mix2fld_lab.reproduction.experiments import EXPERIMENTS, FULL
from mix2fld_lab.reproduction.ledger import SEEDS_THAT_FIT
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from mix2fld_lab.reproduction.statistics import gain, relative_gain
from mix2fld_lab.reproduction.step_costs import StepCost
from mix2fld_lab.reproduction.times import jumps, rounds_to_final, times_longer
from places import ROOT

RESULTS = ResultsFolder(ROOT / "results")


# --- numbers over seeds


def test_spread_is_students_interval() -> None:
    values = [1.0, 2.5, 2.0, 4.0, 3.0]
    found = spread(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert_allclose((found.mean, found.low, found.high), (2.5, low, high))
    assert_allclose(found.std, np.std(values, ddof=1))
    assert_allclose(sample_variance(values), np.var(values, ddof=1))
    assert not spread([1.0]).above_zero


def test_times_at_other_costs() -> None:
    cell = record(0.8, converged=5, seconds=2.0)
    double = record(0.8, converged=10, seconds=2.0)
    for cost in (StepCost("air", 0, 0), StepCost("stated", 100, 100), StepCost("slow", 1000, 1)):
        assert_allclose(times_longer(double, cell, cost).value, 2.0)
    fast_link = record(0.8, converged=5, seconds=1.0)
    assert_allclose(times_longer(cell, fast_link, StepCost("air", 0, 0)).value, 2.0)
    stated = (1.0 + 4.8) / (0.5 + 4.8)
    assert_allclose(times_longer(cell, fast_link, StepCost("stated", 100, 100)).value, stated)
    no_server = (1.0 + 5 * 6.4) / (0.5 + 5 * 6.4)
    assert_allclose(times_longer(cell, fast_link, StepCost("slow", 1000, 0)).value, no_server)
    never = times_longer(record(0.8, converged=None, seconds=2.0), cell, StepCost("air", 0, 0))
    assert never.at_least
    assert_allclose(never.value, 2.0)


@pytest.mark.parametrize("downloads", [True, False])
def test_jumps_by_hand(downloads: bool) -> None:
    found = jumps(record(0.8, jump=-0.05, later=0.02, downloads=downloads))
    assert found.count == 5 * 9
    expected = -5.0 if downloads else -5.0 + 2.0 - 2.0
    assert_allclose((found.at_update, found.after_next_phase), (expected, 2.0))


def test_jumps_of_all_devices_by_hand() -> None:
    cell = record(0.8, jump=-0.05, later=0.02)
    for run in cell.runs:
        run["rounds"]["mean"] = [each + 0.01 for each in run["rounds"]["mean"]]
    found = jumps(cell, "mean")
    assert found.count == 5 * 9
    assert_allclose((found.at_update, found.after_next_phase), (-6.0, 2.0))
    cell.runs[0]["summary"]["downloads"]["delivered"] -= 1
    assert jumps(cell, "mean").count == 4 * 9  # not all devices have the server's model
    assert jumps(record(0.8, downloads=False), "mean").count == 0


def test_a_relative_gain_is_taken_seed_by_seed() -> None:
    found = relative_gain(record(0.88, noise=0.0), record(0.8, noise=0.0))
    assert_allclose((found.mean, found.std), (10.0, 0.0), atol=1e-9)


def test_rounds_to_final() -> None:
    assert_allclose(rounds_to_final(record(0.8, later=0.0)), 1)
    assert_allclose(rounds_to_final(record(0.8, later=0.004)), 8)  # 2 steps of 0.4 points away


# --- verdicts


def verdicts(world: dict[str, CellRecord], lift: float = 1.0) -> dict[str, str]:
    evidence = Evidence(world, privacy(lift), COSTS)
    return {claim.name: claim.verdict for claim in judge(evidence)}


def test_a_world_in_which_the_paper_is_right() -> None:
    found = verdicts(as_the_paper_says())
    assert found == dict.fromkeys(CLAIMS, "reproduced") | {"C2": found["C2"]}
    assert found["C2"] == "partly reproduced"  # five times the air time of FD is not 2.5 % more


def test_a_world_in_which_mix2fld_is_worst() -> None:
    world = a_world(fl=0.9, fd=0.9, mixfld=0.9, mix2fld=0.5)
    found = verdicts(world, lift=-1.0)
    assert {found[name] for name in ("C4", "C5")} == {"not reproduced"}
    assert "reproduced" not in {found[name] for name in ("C1", "C2", "C7", "C8", "C10")}


def test_a_difference_within_the_noise_is_none() -> None:
    noisy = record(0.81, noise=0.0)
    for run, shift in zip(noisy.runs, (0.1, -0.1, 0.09, -0.08, 0.0), strict=True):
        run["summary"]["accuracy"]["reference"] += shift
    assert sized(gain(noisy, record(0.8, noise=0.0)), wanted=1.0) == "no"
    assert sized(gain(record(0.81), record(0.8)), wanted=1.0) == "yes"
    assert sized(gain(record(0.81), record(0.8)), wanted=10.0) == "weaker"


def test_gains_are_taken_seed_by_seed() -> None:
    ours, other = record(0.81, noise=0.01), record(0.8, noise=0.01)
    whole = gain(ours, other)
    assert (whole.mean, whole.std) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9))
    del other.runs[:2]
    part = gain(ours, other)
    assert (part.mean, part.std) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9))


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (("yes", "yes"), "reproduced"),
        (("no", "no"), "not reproduced"),
        (("yes", "no"), "partly reproduced"),
        (("weaker",), "partly reproduced"),
    ],
)
def test_a_verdict_follows_from_the_parts(parts: tuple[Any, ...], verdict: str) -> None:
    assert (
        Claim("C0", tuple(Statement("", "", "", holds) for holds in parts), "").verdict == verdict
    )


# --- what is committed


def test_the_ledger_is_up_to_date() -> None:
    assert RESULTS.report.read_text(encoding="utf-8") == RESULTS.ledger()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_records_are_complete_and_of_these_experiments(name: str) -> None:
    path = RESULTS.records(name)
    assert json.loads(path.read_text(encoding="utf-8"))["scale"] == "full"
    cells = load_records(path)
    assert {key: cell.changes for key, cell in cells.items()} == {
        cell.key: json.loads(json.dumps(cell.changes)) for cell in EXPERIMENTS[name].cells
    }
    for cell in cells.values():
        assert tuple(run["seed"] for run in cell.runs) == FULL.seeds


def test_every_figure_is_on_its_page_and_small() -> None:
    comparisons = [RESULTS.path / f"{name}.md" for name in ("WAITING", "AIR")]
    pages = (RESULTS.report, *comparisons, RESULTS.readme)
    text = "".join(page.read_text(encoding="utf-8") for page in pages).replace("results/", "")
    frontier = RESULTS.frontier.read_text(encoding="utf-8")
    pictures = sorted((RESULTS.path / "figures").glob("*.png"))
    assert pictures
    for picture in pictures:
        page = frontier if picture.name.startswith("frontier-") else text
        assert f"(figures/{picture.name})" in page
        assert picture.stat().st_size < 300_000


def test_the_ledger_needs_neither_jax_nor_the_simulator() -> None:
    """Judging and drawing from records is possible where nothing can be simulated."""
    modules = "ledger, ledger_figures, results_folder, experiments"
    heavy = "('jax', 'optax', 'mix2fld.runs.simulation')"
    code = f"import sys; from mix2fld_lab.reproduction import {modules}; "
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_slots_named_beside_figure_3_are_those_of_the_link() -> None:
    for seeds, words in ((10, "need 83 of 105 slots"), (50, "would need 397")):
        config = Config.of(
            protocol="mix2fld", devices=50, seed_samples=seeds, uplink_power_dbm=40.0
        )
        [first] = [plan for plan in plan_link(config) if plan.transfer == "first upload"]
        assert str(first.budget.slots_needed) in words
        assert words in SEEDS_THAT_FIT
