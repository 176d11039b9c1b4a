"""Figures of a record, pass by pass."""

import statistics
from collections.abc import Iterable
from typing import Any


def values(record: dict[str, Any], name: str, field: str = "us_per_step") -> dict[int, float]:
    """A figure of a contender in each pass."""
    rows = [row for row in record["records"] if row["name"] == name]
    return {row["pass"]: row[field] for row in rows}


def ratios(record: dict[str, Any], name: str, base: str) -> list[float]:
    """A contender's time as a multiple of another's, pass by pass."""
    over, under = values(record, name), values(record, base)
    return [over[number] / under[number] for number in over if number in under]


def spread(figures: Iterable[float], digits: int = 1) -> str:
    """Median, and smallest to largest."""
    found = sorted(figures)
    if not found:
        return ""
    middle, low, high = (
        f"{x:,.{digits}f}" for x in (statistics.median(found), found[0], found[-1])
    )
    return f"{middle} ({low}–{high})"
