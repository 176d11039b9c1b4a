"""Short runs of every protocol have the numbers, and send the bytes, that earlier versions did."""

import json
from typing import Any

import pytest

import mix2fld
from make_kept_numbers import CASES, KEPT, processor, protocols_of, sums_in_order

MADE = json.loads(KEPT.read_text())
ROWS = MADE["rows"]
CHANGES_WITH_PROCESSOR = ("accuracy", "curve", "change", "converged")
CHANGES_WITH_VALUES = ("bits", "slots", "seconds")
"""Of rows whose payloads have no fixed number of bits."""
ROUNDING = 1e-6
"""Of ``change``, a distance of float32 weights: another version's kernel may add in another order.

Version 0.2.0 does so on processors without AVX-512, where GCC vectorises its loss differently.
"""


@pytest.mark.parametrize(
    ("case", "protocol"), [(case, name) for case in CASES for name in protocols_of(case)]
)
def test_numbers_are_kept_to_the_digit(case: str, protocol: str) -> None:
    found = CASES[case](protocol)
    of_row = ROWS[case][protocol]
    numbers = json.loads(json.dumps(found.numbers))
    if protocol in MADE.get(case, {}):
        _compare(numbers, MADE[case][protocol], MADE["processor"], 0.05, CHANGES_WITH_PROCESSOR)
    else:
        may_change = CHANGES_WITH_PROCESSOR
        if protocol in ("topk", "stc"):
            may_change += CHANGES_WITH_VALUES
        _compare(numbers, of_row["rounds"], ROWS["processor"], 0.15, may_change)
    if processor() == ROWS["processor"] and sums_in_order():
        assert found.digests == of_row["digests"]


def _compare(
    found: list[dict[str, Any]],
    kept: list[dict[str, Any]],
    made_on: str,
    tolerance: float,
    may_change: tuple[str, ...],
) -> None:
    assert len(found) == len(kept)
    for mine, before in zip(found, kept, strict=True):
        if processor() == made_on:
            change = before["change"]
            assert mine["change"] == (change and pytest.approx(change, rel=ROUNDING))
            assert {**mine, "change": None} == {**before, "change": None}
            continue
        for name in before:
            if name not in may_change:
                assert mine[name] == before[name]
        close = pytest.approx(before["accuracy"]["devices"], abs=tolerance)
        assert mine["accuracy"]["devices"] == close


def test_every_row_of_the_table_is_kept() -> None:
    for case in CASES:
        assert set(ROWS[case]) == set(protocols_of(case))
    assert set(ROWS["toy"]) == set(mix2fld.PROTOCOLS)
