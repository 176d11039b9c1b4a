"""Who leads where, how sure that is, and what the page may say of it."""

import json

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from frontier_points import point, unwrapped
from mix2fld_lab.reproduction.frontier.contenders import OURS
from mix2fld_lab.reproduction.frontier.overview import few_bits, how_sure, key_findings
from mix2fld_lab.reproduction.frontier.points import FrontierPoint
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from mix2fld_lab.reproduction.statistics import holm
from places import ROOT

RESULTS = ResultsFolder(ROOT / "results")


def summary(points: dict[str, list[FrontierPoint]]) -> str:
    return unwrapped("\n".join([how_sure(points), *key_findings(points)]))


def test_few_bits_are_compared_with_those_of_fl() -> None:
    each = [point("murmur-200", 0.95, 1000), point("fl8", 0.955, 5e5), point("isolated", 0.5, 0)]
    assert "500 times fewer bits than 8-bit FL (median of 1 settings; 500.0 to 500 times)" in (
        summary({"mnist-iid": each})
    )
    assert "8-bit FL" not in summary({"mnist-iid": each[:1]})


def test_the_overview_counts_who_wins() -> None:
    ours = [point("murmur-200", 0.95, 1000), point("mix2fld", 0.9, 3e5)]
    theirs = [point("murmur-200", 0.9, 1000), point("mix2fld", 0.95, 3e5)]
    told = summary({"mnist-iid": ours, "mnist-shards": theirs})
    assert "accurate with Murmur or a relative in 1 of 2 settings, clearly in 1. The" in told
    assert "best server's model is theirs in 1." in told
    assert "lead in: MNIST, two shards a device (Mix2FLD by 5.0 points, clearly)." in told
    assert "relatives are on the frontier only in: MNIST, two shards a device (Mix2FLD)." in told
    assert summary({"mnist-iid": ours}).endswith("in no setting.")


def reached(key: str, accuracies: list[float], bits: float = 1000) -> FrontierPoint:
    """A contender whose seeds have these accuracies."""
    one = point(key, 0.5, bits)
    del one.cell.runs[len(accuracies) :]
    for run, value in zip(one.cell.runs, accuracies, strict=True):
        run["summary"]["accuracy"]["mean"] = value
    return one


def test_the_overview_says_how_sure_a_lead_is() -> None:
    def told(*accuracies: float) -> str:
        ours = reached("murmur-200", [0.9] * len(accuracies))
        return unwrapped(summary({"mnist-iid": [ours, reached("fl8", list(accuracies), 5e5)]}))

    assert "(FL 8-bit by 0.5 points, not clearly)" in told(0.89, 0.92)
    assert "(FL 8-bit by less than 0.1 points, not clearly)" in told(0.89, 0.9102)
    assert "(FL 8-bit by 2.0 points, one seed)" in told(0.92)
    assert "in 1 of 1 settings, clearly in 0." in told(0.88, 0.91)


def test_a_lead_that_is_clear_alone_need_not_be_among_many() -> None:
    """p = 0.034 is below 0.05, with which Holm compares it alone, but not below half of that."""
    ours, other = [0.9, 0.9, 0.9, 0.9], [0.88, 0.89, 0.89, 0.895]
    assert 0.05 / 2 < stats.ttest_rel(ours, other).pvalue < 0.05
    lead = [reached("murmur-200", ours), reached("fl8", other, 5e5)]
    level = [reached("murmur-200", ours), reached("fl8", [0.88, 0.91, 0.89, 0.9], 5e5)]
    assert "1 of 1 settings, clearly in 1." in summary({"mnist-iid": lead})
    both = summary({"mnist-iid": lead, "mnist-shards": level})
    assert "2 of 2 settings, clearly in 0." in both
    assert "(uncorrected: 1 settings)" in both


def test_a_setting_that_repeats_the_runs_of_another_counts_once() -> None:
    each = [reached("murmur-200", [0.9, 0.91]), reached("fl8", [0.88, 0.892], 5e5)]
    other = [*each, reached("fl", [0.5, 0.5], 2e6)]
    told = summary({"mnist-non-iid": each, "mnist-non-iid-paper-link": other})
    assert "in 1 of 1 settings" in told
    assert "count once" in told
    assert f"not counted again: {SETTINGS['mnist-non-iid-paper-link'].title}." in told
    other[1] = reached("fl8", [0.88, 0.893], 5e5)
    told = summary({"mnist-non-iid": each, "mnist-non-iid-paper-link": other})
    assert "in 2 of 2 settings" in told
    assert "count once" not in told


@given(st.lists(st.floats(0, 0.06), min_size=1, max_size=8))
@example([0.04, 0.01, 0.02])
@example([0.02, 0.02, 0.04])
def test_holm_is_the_textbook_procedure(p_values: list[float]) -> None:
    """Adjusted p-values: the running maximum of (m - rank) p, in the order of p."""
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(
        [(len(order) - rank) * p_values[place] for rank, place in enumerate(order)]
    )
    expected = dict(zip(order.tolist(), (adjusted <= 0.05).tolist(), strict=True))
    found = holm(p_values)
    exact = [(len(order) - rank) * p_values[place] for rank, place in enumerate(order)]
    assume(all(abs(value - 0.05) > 1e-9 for value in exact))
    assert found == [expected[place] for place in range(len(p_values))]


def test_a_missing_p_value_is_never_rejected() -> None:
    assert holm([float("nan"), 0.001]) == [False, True]
    assert holm([]) == []


def test_the_p_value_is_that_of_the_paired_test() -> None:
    ours, other = [0.9, 0.92, 0.88, 0.95], [0.89, 0.9, 0.885, 0.93]
    found = reached("murmur-200", ours).lead_over(reached("fl8", other)).p_value
    assert found == pytest.approx(stats.ttest_rel(ours, other).pvalue, rel=1e-9)


def test_the_leads_of_the_committed_records_by_an_independent_count() -> None:
    """By SciPy's paired test, with adjusted p-values, from the files themselves."""
    best_two: dict[tuple[float, ...], float] = {}
    ahead = clear = 0
    for path in sorted(RESULTS.path.glob("records/frontier-*.json")):
        if path.stem.startswith("frontier-search") or path == RESULTS.measured:
            continue
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"].values()
        pair = []
        for mine in (True, False):
            means = [
                [run["summary"]["accuracy"]["mean"] for run in cell["runs"]]
                for cell in cells
                if (cell["protocol"] in OURS) == mine
            ]
            pair.append(max(means, key=np.mean))
        gap = np.mean(pair[0]) - np.mean(pair[1])
        sign = 1 if gap >= 0 else -1
        best_two[(*pair[0], *pair[1])] = sign * float(stats.ttest_rel(*pair).pvalue)
    p_values = sorted(best_two.values(), key=abs)
    still = True
    for rank, value in enumerate(p_values):
        ahead += value > 0
        still &= abs(value) * (len(p_values) - rank) <= 0.05
        clear += still and value > 0
    text = unwrapped(RESULTS.frontier.read_text(encoding="utf-8"))
    assert f"in {ahead} of {len(p_values)} settings, clearly in {clear}. The" in text


def test_no_table_mixes_links() -> None:
    """Where the link is ideal, what the paper's link would deliver is not beside accuracies."""
    page = RESULTS.frontier.read_text(encoding="utf-8")
    for setting in SETTINGS.values():
        section = page.split(f"\n## {setting.title}\n", 1)[1].split("\n## ", 1)[0]
        assert ("| delivered |" in section) == (setting.changes["link"] != "ideal")
        assert ("Over an ideal link." in section) == (setting.changes["link"] == "ideal")


def test_few_bits_have_rivals_or_the_page_says_so() -> None:
    ours, idle = point("murmur-200", 0.9, 1000), point("isolated", 0.8, 0)
    assert "Up to 1,000 bits, only Murmur" in unwrapped(
        few_bits({"x": [ours, idle, point("fl8", 0.9, 5e3)]})
    )
    assert few_bits({"x": [ours, idle, point("eden-0.1", 0.9, 80)]}) == ""
