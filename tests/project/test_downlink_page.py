"""The page of both directions has the accuracies of its committed runs."""

import json

from benchmarks import downlink
from benchmarks.downlink_trials import TRIALS

RUNS = [json.loads(line) for line in downlink.RUNS.read_text(encoding="utf-8").splitlines()]


def test_accuracies_of_the_page_are_those_of_the_runs() -> None:
    page = downlink.PAGE.read_text(encoding="utf-8")
    for words in (downlink.accuracy_table(), downlink.coded_finding()):
        assert words in page


def test_every_trial_was_run_with_the_same_seeds() -> None:
    seeds: dict[str, set[int]] = {trial.key: set() for trial in TRIALS}
    for run in RUNS:
        seeds[run["key"]].add(run["seed"])
    assert set(map(frozenset, seeds.values())) == {frozenset(downlink.SEEDS)}


def test_eden_has_so_many_bits_each_way() -> None:
    """Each way, beside 89 bits of a step's head a round."""
    found = {run["key"]: (run["up"] // 10, run["down"]) for run in RUNS if "eden" in run["key"]}
    few, one = (5 * 1262, 5 * (1262 + 89)), (5 * 12_560, 5 * (12_560 + 89))
    assert found == {"eden-0.1": few, "eden-0.1-edges": few, "eden-1": one, "eden-1-edges": one}


def test_weights_are_compared_where_only_the_downlink_differs() -> None:
    rows = [line.split(" | ") for line in downlink.accuracy_table().splitlines()[2:]]
    unlike = [row[0] for row in rows if row[4] == "-"]
    assert len(unlike) == 2
    assert all("EDEN, 1 bit" in title for title in unlike)
