"""Who was asked and whose transfers arrived, from records of either format."""

from pathlib import Path
from typing import Any

import pytest

from mix2fld.config import Config
from mix2fld.report.deliveries import delivered, deliveries, seeds_delivered
from mix2fld.runs.reader import LoadedRun


def record(up: list[Any], asked: list[int] | None = None, attempted: int = 1) -> dict[str, Any]:
    transfer = {"attempted": attempted, "delivered": len(up), "devices": up}
    nothing = {"attempted": 0, "delivered": 0, "devices": []}
    info: dict[str, Any] = {"uploads": transfer, "downloads": nothing}
    return info if asked is None else {**info, "asked": asked}


@pytest.mark.parametrize("up", [[True, False, True, False], [0, 2]])
def test_both_formats_say_the_same(up: list[Any]) -> None:
    info = record(up)
    assert delivered(info, "uploads") == {0, 2}
    assert deliveries(info, "uploads", 4) == "1010"
    assert deliveries(info, "uploads", 2) == "10"
    assert deliveries(info, "downloads", 4) == "----"


def test_device_numbers_0_and_1_are_no_truth_values() -> None:
    assert delivered(record([1, 0]), "uploads") == {0, 1}
    assert delivered(record([0]), "uploads") == {0}
    assert delivered(record([]), "uploads") == set()


def test_a_device_that_was_not_asked_is_not_lost() -> None:
    info = record([2], asked=[1, 2])
    assert deliveries(info, "uploads", 4) == "x01x"
    assert deliveries(record([], asked=[1], attempted=0), "uploads", 3) == "x-x"


@pytest.mark.parametrize(("lost_seeds", "expected"), [("resend", [0, 1, 2]), ("drop", [0, 2])])
def test_seeds_go_with_the_first_upload_or_are_resent(lost_seeds: str, expected: list[int]) -> None:
    """Device 1 is delivered only the second time it is asked; device 2 is first asked later."""
    rounds = [record([0], asked=[0, 1]), record([1, 2], asked=[1, 2]), record([], asked=[3])]
    config = Config.of(devices=4, lost_seeds=lost_seeds)
    assert seeds_delivered(LoadedRun(Path(), config, rounds, finished=True)) == expected
