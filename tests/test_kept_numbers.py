"""Short runs of every protocol have the accuracies, bits, slots and seconds of version 0.1.0."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from make_kept_numbers import KEPT, LOSSY, mnist_numbers, processor, toy_numbers

MADE = json.loads(KEPT.read_text())
CASES: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "toy": toy_numbers,
    "lossy": lambda protocol: toy_numbers(protocol, LOSSY),
    "mnist": mnist_numbers,
}
CHANGES_WITH_PROCESSOR = ("accuracy", "curve", "change", "converged")
ROUNDING = 1e-6
"""Of ``change``, a distance of float32 weights: another version's kernel may add in another order.

Version 0.2.0 does so on processors without AVX-512, where GCC vectorises its loss differently.
"""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("protocol", MADE["toy"])
def test_numbers_are_kept_to_the_digit(case: str, protocol: str) -> None:
    found = json.loads(json.dumps(CASES[case](protocol)))
    kept = MADE[case][protocol]
    assert len(found) == len(kept)
    for mine, before in zip(found, kept, strict=True):
        if processor() == MADE["processor"]:
            change = before["change"]
            assert mine["change"] == (change and pytest.approx(change, rel=ROUNDING))
            assert {**mine, "change": None} == {**before, "change": None}
            continue
        for name in before:
            if name not in CHANGES_WITH_PROCESSOR:
                assert mine[name] == before[name]
        close = pytest.approx(before["accuracy"]["devices"], abs=0.05)
        assert mine["accuracy"]["devices"] == close
