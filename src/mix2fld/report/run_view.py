"""One run as the report shows it: its state, its deliveries, its scores and times by device."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from mix2fld.base.locks import is_locked
from mix2fld.report.protocol_view import title_of
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun
from mix2fld.runs.summary import seconds_by_part

Direction = Literal["uploads", "downloads"]

DELIVERED, LOST, NOT_ASKED, NOTHING_SENT = "d", "l", "n", "-"
"""What happened between one device and the server in one direction of one round."""
MEANINGS = {
    DELIVERED: "delivered",
    LOST: "lost",
    NOT_ASKED: "not asked",
    NOTHING_SENT: "nothing sent",
}


def asked(info: dict[str, Any]) -> set[int]:
    """Devices that were asked to take part."""
    return set(info["asked"])


def delivered(info: dict[str, Any], direction: Direction) -> set[int]:
    """Devices whose transfer was delivered."""
    return set(info[direction]["devices"])


def measured_devices(run: LoadedRun) -> list[int]:
    """The devices whose score is measured: those that are shown one by one."""
    measured: list[int] = run.rounds[-1]["scores"]["measured"]
    return measured


def deliveries(info: dict[str, Any], direction: Direction, devices: Sequence[int]) -> str:
    """A letter for each of ``devices``, one of ``MEANINGS``."""
    taking_part = info.get("waiting", {}).get("ended", asked(info))
    arrived = delivered(info, direction)
    otherwise = LOST if info[direction]["attempted"] else NOTHING_SENT
    return "".join(
        NOT_ASKED if device not in taking_part else DELIVERED if device in arrived else otherwise
        for device in devices
    )


State = Literal["finished", "running", "stopped", "failed", "waiting", "not started"]


@dataclass(frozen=True)
class Standing:
    """The state of a run, with the reason if it failed, and the time of its last round."""

    state: State
    reason: str | None
    updated: str | None


def standing_of(run: LoadedRun) -> Standing:
    """Read from the run's files and from its lock, which dies with the process that holds it."""
    files = RunFiles(run.folder)
    updated = _last_write(files)
    if run.finished:
        return Standing("finished", None, updated)
    if is_locked(run.folder):
        return Standing("running" if run.rounds else "waiting", None, updated)
    reason = _text(files)
    if reason:
        return Standing("failed", reason, updated)
    return Standing("stopped" if run.rounds else "not started", None, updated)


def state_record(run: LoadedRun) -> dict[str, Any]:
    """The state of a run, as the page has it."""
    standing = standing_of(run)
    return {
        "protocol": title_of(run.protocol),
        "seed": run.seed,
        "folder": run.folder.name,
        "place": run.folder.parent.name,
        "finished": run.finished,
        "state": standing.state,
        "reason": standing.reason,
        "updated": standing.updated,
        "done": len(run.rounds),
        "planned": run.config.rounds,
    }


def _last_write(files: RunFiles) -> str | None:
    """When the last round was kept; None before the first, and for a run that is gone."""
    try:
        at = files.rounds.stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _text(files: RunFiles) -> str | None:
    try:
        if not files.failure.is_file():
            return None
        return files.failure.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


MOST_DEVICES = 200
CELLS = 200_000
"""How many scores of devices a page holds at most, so that it stays small."""
TIMED_DEVICES, TIMED_CELLS = 30, 24_000
"""Devices of a run whose times are shown, and how many times a page holds at most."""


class RoundsShown(NamedTuple):
    """How many rounds of each run fit on a page."""

    rounds: int
    timed: int


def rounds_kept(runs: Sequence[LoadedRun]) -> RoundsShown:
    """Fewer rounds of more runs and devices."""
    devices = [run.config.devices_evaluated for run in runs]
    shown = sum(min(count, MOST_DEVICES) for count in devices)
    timed = 3 * sum(min(count, TIMED_DEVICES) for count in devices)
    return RoundsShown(max(1, CELLS // max(1, shown)), max(1, TIMED_CELLS // max(1, timed)))


def run_record(run: LoadedRun, kept: RoundsShown) -> dict[str, Any]:
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
        own |= _own_times(info.get("waiting", {}), devices)
        timed.append({"round": info["round"], "parts": whole, **own, "arrived": [up, down]})
    return timed


def _own_times(waiting: dict[str, Any], devices: Sequence[int]) -> dict[str, Any]:
    """Who computed and transmitted when, in a round in which each did at its own times."""
    stale = list(waiting.get("staleness", {}).values())
    found = {
        "policy": waiting.get("policy"),
        "idle": _short(waiting.get("idle")),
        "stale": [sum(map(bool, stale)), max(stale, default=0)],
    }
    if "spans" in waiting:
        spans = {device: own for device, *own in waiting["spans"]}
        found["spans"] = [[_short(at) for at in spans.get(d, [])] for d in devices]
        found["until"] = _short(waiting["until"])
    return found if waiting else {}


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
