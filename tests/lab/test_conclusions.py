"""What the ledger concludes follows from its records: other records, another sentence."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache

import pytest
from invented_records import COSTS, a_world, privacy

from mix2fld.base.spread import spread
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.claims import judge
from mix2fld_lab.reproduction.conclusions import (
    against,
    by_both,
    change,
    listed,
    out_of,
    outcome,
    share_of_paper,
    standing,
)
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.experiments import SETTINGS
from mix2fld_lab.reproduction.ledger import write_ledger
from mix2fld_lab.reproduction.ledger_answers import enough_inverse_samples, privacy_against_accuracy
from mix2fld_lab.reproduction.ledger_reasons import reasons
from mix2fld_lab.reproduction.ledger_summary import by_channels, findings, in_short
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from mix2fld_lab.reproduction.uplink import uplink_payloads
from places import ROOT

UP, DOWN, LEVEL = spread([7.0, 7.4, 7.8]), spread([-3.0, -3.2, -3.4]), spread([-0.5, 0.5, 0.3])
HARD, EASY = "asymmetric-non-iid", "symmetric-non-iid"
WHY = f"{HARD}/why"


@cache
def measured() -> Evidence:
    return ResultsFolder(ROOT / "results").evidence()


def shifted(cell: CellRecord, by: float) -> CellRecord:
    """The same cell with every accuracy of its summaries so much higher, in points."""
    other = deepcopy(cell)
    for run in other.runs:
        found = run["summary"]["accuracy"]
        for name in ("mean", "reference", "global"):
            if found[name] is not None:
                found[name] += by / 100
    return other


def with_shifts(**points: float) -> Evidence:
    """The committed records, with some cells shifted by so many points."""
    evidence = measured()
    moved = {key: shifted(evidence.cells[key], by) for key, by in points.items()}
    return Evidence({**evidence.cells, **moved}, evidence.privacy, evidence.costs)


def words(write: Callable[[Evidence], str], evidence: Evidence) -> str:
    """The text without its line breaks."""
    return " ".join(write(evidence).split())


# --- from a difference to words


def test_a_difference_in_words() -> None:
    assert [standing(each) for each in (UP, DOWN, LEVEL)] == ["above", "below", "level"]
    assert against(UP, "FL") == "7.4 points above FL"
    assert against(DOWN, "FL") == "3.2 points below FL"
    assert against(LEVEL, "FL") == "level with FL within the spread (+0.1 points)"
    assert against(spread([7.4]), "FL") == "level with FL one seed, no spread (+7.4 points)"
    assert change(UP) == "gains 7.4 points"
    assert change(DOWN) == "loses 3.2 points"
    assert change(LEVEL) == "stays level within the spread (+0.1 points)"


@pytest.mark.parametrize(
    ("found", "verb"),
    [
        ((UP, UP), "wins"),
        ((DOWN,), "loses"),
        ((LEVEL, LEVEL), "is level"),
        ((UP, LEVEL), "wins in part"),
        ((UP, DOWN), "loses to some"),
    ],
)
def test_an_outcome_is_a_verb(found: tuple[object, ...], verb: str) -> None:
    assert outcome(found) == verb  # type: ignore[arg-type]


def test_shares_and_counts() -> None:
    shown = "50 % of the paper's 14.8 % if that means points, 60 % if it is relative"
    assert share_of_paper(UP, spread([8.8, 8.9, 8.94]), 14.8) == shown
    for found in (LEVEL, DOWN):
        assert share_of_paper(found, found, 14.8) == "the paper reports 14.8 %"


def test_by_both_measures() -> None:
    assert by_both(UP, UP, "FL") == "7.4 points above FL (7.4 by the reference device)"
    parted = "3.2 points below FL, by the reference device 7.4 points above FL"
    assert by_both(UP, DOWN, "FL") == parted


def test_other_counts() -> None:
    assert out_of([True] * 3) == "all 3"
    assert out_of([False] * 3) == "none of 3"
    assert out_of([True, False, True]) == "2 of 3"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


# --- other records, other sentences


def said(evidence: Evidence) -> str:
    return " ".join((*findings(evidence), in_short(evidence)))


CASES: list[tuple[Callable[[Evidence], str], dict[str, float], str, str]] = [
    (said, {f"{HARD}/fl": 30, f"{HARD}/fd": 30}, "**Mix2FLD wins**", "**Mix2FLD loses**"),
    (said, {f"{HARD}/fl": 30}, "8.2 points above FL", "21.8 points below FL"),
    (reasons, {f"{HARD}/fl": -9.29}, "(44 % of the paper's 16.7 %", "(100 % of the paper's 16.7 %"),
    (by_channels, {f"{HARD}/fl": 30}, "8.2 points above FL", "21.8 points below FL"),
    (by_channels, {f"{EASY}/fl": -8.7}, "FL wins**,", "by the reference device: is level"),
    (said, {f"{EASY}/fl": -20}, "**FL wins** with", "**FL loses** with"),
    (said, {f"{EASY}/fl": -8.14}, "**FL wins** with", "level with Mix2FLD within the spread"),
    (said, {f"{HARD}/fl8": -20}, "ends 8.1 points above", "ends 11.9 points below"),
    (
        said,
        {f"{WHY}/beta-0/mix2fld": -6},
        "mostly from the labelled seeds",
        "mostly from the uploaded outputs",
    ),
    (
        said,
        {f"{WHY}/beta-0/mix2fld": 3},
        "mostly from the labelled seeds",
        "outputs cost Mix2FLD",
    ),
    (
        said,
        {f"{HARD}/mix2fld-50-100": -20},
        "Mix2FLD's gain comes",
        "gains nothing over isolated",
    ),
    (
        said,
        {f"{HARD}/mixfld-50": -20},
        "MixFLD is not worse than FD",
        "worse than FD in some settings",
    ),
    (
        said,
        {f"{s}/fd": 30 for s in SETTINGS},
        "MixFLD is not worse than FD** after a local phase: it is below in none of 4",
        "MixFLD is worse than FD** after a local phase: it is below in all 4",
    ),
    (
        said,
        {"privacy-accuracy/mix2fld-0.49-8bit": 90},
        "model falls from",
        "model stays level, moving",
    ),
    (reasons, {f"{WHY}/beta-0/mixfld": -40}, "none of 10 readings", "1 of 10 readings"),
    (
        reasons,
        {f"{WHY}/hard-labels/mixfld": -9},
        "mostly their soft labels",
        "6.4 points below MixFLD with soft labels",
    ),
    (
        reasons,
        {f"{s}/fd": -40 for s in SETTINGS},
        "come closer to the paper than",
        "makes no difference to this order",
    ),
    (
        reasons,
        {f"{HARD}/fl": 20},
        "(44 % of the paper's 16.7 %",
        "(the paper reports 16.7 %)",
    ),
    (
        reasons,
        {f"{WHY}/beta-1/mix2fld": -5},
        "a β of 100 times the paper's suits it better",
        "Mix2FLD loses 3.5 points.",
    ),
    (
        reasons,
        {f"{EASY}/fl-literal": 20},
        "lies between these two readings",
        "and Mix2FLD is 12.6 points below FL",
    ),
    (
        reasons,
        {f"{WHY}/slots-110/fl": -20},
        "So Mix2FLD is ahead of FL where",
        "15.0 points below Mix2FLD.",
    ),
    (
        privacy_against_accuracy,
        {"privacy-accuracy/mix2fld-0.3-8bit": 9},
        "the more accurate at its best λ",
        "So unmixing pays in accuracy",
    ),
    (
        privacy_against_accuracy,
        {"privacy-accuracy/mix2fld-0.3-8bit": 0.8},
        "the more accurate at its best λ",
        "unmixing gains no accuracy over mixing alone",
    ),
    (
        enough_inverse_samples,
        {"inverse-count/50-20": 30},
        "200 with N_S = 50 (the largest",
        "20 with N_S = 50 (although distinct pairs cover 200)",
    ),
    (
        enough_inverse_samples,
        {"inverse-count/50-500": 30},
        "200 with N_S = 50 (the largest",
        "500 with N_S = 50 (beyond the 242",
    ),
]


@pytest.mark.parametrize(("write", "points", "now", "then"), CASES)
def test_other_records_other_words(
    write: Callable[[Evidence], str], points: dict[str, float], now: str, then: str
) -> None:
    before, after = words(write, measured()), words(write, with_shifts(**points))
    assert now in before
    assert now not in after
    assert then in after
    assert then not in before


def test_the_share_of_uploads_is_that_of_the_attempts() -> None:
    key = f"{WHY}/slots-110/fl"
    cell = deepcopy(measured().cells[key])
    for run in cell.runs:
        run["summary"]["uploads"]["attempted"] = 25
    evidence = Evidence({**measured().cells, key: cell}, measured().privacy, measured().costs)
    assert "110 slots 19.6 % of FL's uploads" in words(reasons, measured())
    assert "110 slots 39.2 % of FL's uploads" in words(reasons, evidence)


def test_times_follow_from_the_rounds_in_which_the_rule_fired() -> None:
    key = f"{EASY}/fl"
    cell = deepcopy(measured().cells[key])
    for run in cell.runs:
        run["summary"]["converged_round"] = None
    evidence = Evidence({**measured().cells, key: cell}, measured().privacy, measured().costs)
    assert "fires in round 6 for FL and in round 3 for Mix2FLD" in words(reasons, measured())
    assert "fires never for FL and in round 3 for Mix2FLD" in words(reasons, evidence)


@pytest.mark.parametrize(
    ("lift", "headline", "agreement"),
    [
        (1.0, "Mix2up's distances are above Mixup's at every λ", "The records agree on none"),
        (-1.0, "Mix2up's distances are not above Mixup's", "The records agree on none"),
    ],
)
def test_sample_privacy_in_words(lift: float, headline: str, agreement: str) -> None:
    evidence = Evidence(measured().cells, privacy(lift), measured().costs)
    assert f"**{headline}**" in words(said, evidence)
    assert agreement in words(reasons, evidence)
    assert "Mixup's only at some λ" in words(said, measured())
    assert "The records agree:" in words(reasons, measured())


def test_uplink_payloads_are_those_of_the_records() -> None:
    found = uplink_payloads(measured())
    assert (found.weights, found.outputs, found.seeds) == (401_408, 3200, 62_800)
    key = "symmetric-iid/fl"
    halved = deepcopy(measured().cells[key])
    for run in halved.runs:
        run["summary"]["bits"]["up"] //= 2
    evidence = Evidence({**measured().cells, key: halved}, measured().privacy, measured().costs)
    verdict = {claim.name: claim.verdict for claim in judge(evidence)}
    assert verdict["C6"] == "not reproduced"
    assert "21.2 times fewer bits" in words(said, evidence)


def test_the_ledger_of_a_world_without_differences() -> None:
    """Nothing wins where everything is the same."""
    evidence = Evidence(a_world(), measured().privacy, COSTS)
    text = words(lambda found: write_ledger(found, 5), evidence)
    assert "**Mix2FLD is level**" in text
    assert "**FL is level**" in text
    assert " wins" not in text
    assert "Mix2FLD gains nothing over isolated devices" in text


def test_a_preview_has_no_conclusions() -> None:
    one = {
        key: CellRecord(cell.label, cell.protocol, cell.changes, cell.runs[:1])
        for key, cell in measured().cells.items()
    }
    evidence = Evidence(one, measured().privacy, measured().costs)
    text = words(lambda found: write_ledger(found, 1), evidence)
    assert "**A preview.**" in text
    assert " wins" not in text
    assert "within the spread" not in text
