"""Points of the frontier whose accuracies a test chooses."""

import dataclasses
from typing import Any

from invented_records import record

from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.frontier.contenders import CONTENDERS
from mix2fld_lab.reproduction.frontier.points import FrontierPoint

BY_KEY = {one.key: one for one in CONTENDERS}


def invented(accuracy: float, bits: float, **changes: Any) -> CellRecord:
    """A cell of ten devices whose runs upload so many bits in all."""
    cell = record(accuracy)
    for run in cell.runs:
        run["summary"]["bits"] = {"up": 10 * bits, "down": bits}
        run["summary"]["devices"] = {"all": 10, "measured": 10}
    return dataclasses.replace(cell, changes=changes)


def point(key: str, accuracy: float, bits: float) -> FrontierPoint:
    return FrontierPoint(BY_KEY[key], invented(accuracy, bits), bits)


def unwrapped(text: str) -> str:
    return " ".join(text.split())
