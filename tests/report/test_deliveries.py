"""Devices asked and transfers delivered, from records."""

from pathlib import Path
from typing import Any

import pytest

from mix2fld.config.settings import Config
from mix2fld.report.run_view import delivered, deliveries
from mix2fld.runs.reader import LoadedRun
from mix2fld_lab.gallery import seeds_delivered


def record(up: list[int], asked: list[int], attempted: int = 1) -> dict[str, Any]:
    transfer = {"attempted": attempted, "delivered": len(up), "devices": up}
    nothing = {"attempted": 0, "delivered": 0, "devices": []}
    return {"asked": asked, "uploads": transfer, "downloads": nothing}


def test_every_device_has_a_letter() -> None:
    info = record([0, 2], asked=[0, 1, 2, 3])
    assert delivered(info, "uploads") == {0, 2}
    assert deliveries(info, "uploads", range(4)) == "dldl"
    assert deliveries(info, "uploads", [0, 3]) == "dl"
    assert deliveries(info, "downloads", range(4)) == "----"


def test_a_device_that_was_not_asked_is_not_lost() -> None:
    info = record([2], asked=[1, 2])
    assert deliveries(info, "uploads", range(4)) == "nldn"
    assert deliveries(record([], asked=[1], attempted=0), "uploads", range(3)) == "n-n"


@pytest.mark.parametrize(("lost_seeds", "expected"), [("resend", [0, 1, 2]), ("drop", [0, 2])])
def test_seeds_go_with_the_first_upload_or_are_resent(lost_seeds: str, expected: list[int]) -> None:
    """Device 1 is delivered only the second time it is asked; device 2 is first asked later."""
    rounds = [record([0], asked=[0, 1]), record([1, 2], asked=[1, 2]), record([], asked=[3])]
    config = Config.of(devices=4, lost_seeds=lost_seeds)
    assert seeds_delivered(LoadedRun(Path(), config, rounds, finished=True)) == expected
