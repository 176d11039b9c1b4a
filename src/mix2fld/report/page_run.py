"""One run by device: scores, deliveries and times, round by round."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mix2fld.report.deliveries import deliveries, measured_devices
from mix2fld.report.run_state import state_record
from mix2fld.runs.metrics import seconds_by_part
from mix2fld.runs.reader import LoadedRun

MOST_DEVICES = 200
CELLS = 200_000
"""How many scores of devices a page holds at most, so that it stays small."""
TIMED_DEVICES, TIMED_CELLS = 30, 24_000
"""Devices of a run whose times are shown, and how many times a page holds at most."""


class Kept(NamedTuple):
    """How many rounds of each run fit on a page."""

    rounds: int
    timed: int


def rounds_kept(runs: Sequence[LoadedRun]) -> Kept:
    """Fewer rounds of more runs and devices."""
    devices = [run.config.devices_evaluated for run in runs]
    shown = sum(min(count, MOST_DEVICES) for count in devices)
    timed = 3 * sum(min(count, TIMED_DEVICES) for count in devices)
    return Kept(max(1, CELLS // max(1, shown)), max(1, TIMED_CELLS // max(1, timed)))


def run_record(run: LoadedRun, kept: Kept) -> dict[str, Any]:
    """A run with evenly spaced rounds, as many as are kept."""
    devices = measured_devices(run)[:MOST_DEVICES]
    rounds = [run.rounds[place] for place in _places(run, kept.rounds)]
    return {
        **state_record(run),
        "rounds": [info["round"] for info in rounds],
        "devices": devices,
        "scores": [
            [None if value is None else _short_score(value) for value in _shown_scores(info)]
            for info in rounds
        ],
        "up": [deliveries(info, "uploads", devices) for info in rounds],
        "down": [deliveries(info, "downloads", devices) for info in rounds],
        "timing": _timing(run, kept.timed, devices[:TIMED_DEVICES]),
    }


def _timing(run: LoadedRun, kept: int, devices: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of each part of a round, and of each device where the record says so."""
    parts = seconds_by_part(run.rounds)
    timed = []
    for place in _places(run, kept):
        info = run.rounds[place]
        own = {
            way: [_short(value) for value in values[: len(devices)]]
            for way, values in info.get("timing", {}).items()
        }
        whole = {name: _short(value) for name, value in parts[place].items()}
        up, down = (deliveries(info, way, devices) for way in ("uploads", "downloads"))
        timed.append({"round": info["round"], "parts": whole, **own, "arrived": [up, down]})
    return timed


def _places(run: LoadedRun, kept: int) -> list[int]:
    places: list[int] = np.unique(
        np.linspace(0, len(run.rounds) - 1, kept).round().astype(int)
    ).tolist()
    return places


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _short_score(value: float) -> float:
    """Four decimals of a share; of a large value six digits."""
    return round(value, 4) if abs(value) < 100 else float(f"{value:.6g}")


def _shown_scores(info: dict[str, Any]) -> list[float | None]:
    scores: list[float | None] = info["scores"]["devices"]
    return scores[:MOST_DEVICES]
