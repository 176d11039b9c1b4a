"""Learning curves over time, rounds or traffic: a line for each series, with a band over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.runs.metrics import device_accuracies, device_seconds
from mix2fld.runs.reader import LoadedRun

Floats = NDArray[np.float64]
Point = dict[str, float]

AXES: dict[str, str] = {
    "seconds": "simulated seconds, computing and on air",
    "air": "simulated seconds on air",
    "rounds": "rounds",
    "bits": "uplink traffic of all devices in Mbit",
}
"""What a curve can be drawn over, with the label of the axis."""
MEASURES: dict[str, str] = {
    "devices": "mean accuracy of devices",
    "reference": "accuracy of the reference device",
    "server": "accuracy of the server's model",
}
"""Whose accuracy a curve can show."""
GRID = 240
MOST_POINTS = 600


@dataclass(frozen=True)
class Curve:
    """Mean, lowest and highest accuracy over seeds at each x, and the number of seeds there."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]
    converged: list[tuple[float, float]]
    """Where the stopping rule fired: x and accuracy, one pair for each run in which it did."""


def curve(runs: Sequence[LoadedRun], axis: str, measure: str) -> Curve | None:
    """The curve of runs that differ in their seed only; None if nothing was measured."""
    measured = [(run, points) for run in runs if (points := _points(run, axis, measure))]
    if not measured:
        return None
    lines = [points for _, points in measured]
    converged = [point for run in runs if (point := _convergence(run, axis, measure))]
    if len(lines) == 1:
        x, y = _thinned(*line(lines[0], axis))
        return Curve(x, y, y, y, np.ones(len(x), np.int64), converged)
    if _is_within_rounds(axis, measure):
        finished = [line(points, axis) for run, points in measured if run.finished]
        x, values = _on_grid([line(points, axis) for points in lines], finished)
    else:
        x, values = _by_round(lines, axis)
    return Curve(
        x,
        np.nanmean(values, axis=0),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        np.isfinite(values).sum(axis=0),
        converged,
    )


def with_holds(
    events: Sequence[str], accuracies: Sequence[float]
) -> tuple[NDArray[np.int64], Floats]:
    """The line through measured points, as the point that each corner belongs to and its height.

    A device keeps its accuracy while it waits, until a download replaces its model: a point with
    the event ``download`` has two corners, the first as high as the point before it. With ``x`` at
    the points, ``x[corners]`` and the heights are what to draw.
    """
    corners: list[int] = []
    heights: list[float] = []
    for place, (event, accuracy) in enumerate(zip(events, accuracies, strict=True)):
        if event == "download" and heights:
            corners.append(place)
            heights.append(heights[-1])
        corners.append(place)
        heights.append(accuracy)
    return np.array(corners, np.int64), np.array(heights, np.float64)


def reference_points(rounds: Sequence[dict[str, Any]], local_steps: int) -> list[Point]:
    """The reference device throughout a run, also within rounds, with holds at downloads."""
    measured = [point for info in rounds for point in info["curve"]]
    corners, heights = with_holds(
        [point["event"] for point in measured], [point["accuracy"] for point in measured]
    )
    points = []
    for corner, accuracy in zip(corners, heights, strict=True):
        point = measured[corner]
        at = {"air": point["communication"], "computing": point["computing"]}
        points.append(_point(at, point["step"] / local_steps, accuracy))
    return points


def line(points: Sequence[Point], axis: str) -> tuple[Floats, Floats]:
    """The points over one axis: x and accuracies."""
    return np.array([p[axis] for p in points]), np.array([p["accuracy"] for p in points])


def _is_within_rounds(axis: str, measure: str) -> bool:
    """Whether a curve has several points for each round; bits are sent only once a round."""
    return measure == "reference" and axis != "bits"


def _points(run: LoadedRun, axis: str, measure: str) -> list[Point]:
    """Each accuracy of this run, with the time and traffic up to its measurement."""
    if _is_within_rounds(axis, measure):
        return reference_points(run.rounds, run.config.learning.local_steps)
    return _once_a_round(run, measure)


def _once_a_round(run: LoadedRun, measure: str) -> list[Point]:
    """Devices at the end of their local phase, before they upload; the server after its step."""
    points = []
    spent = {"air": 0.0, "computing": 0.0, "bits": 0.0}
    for info in run.rounds:
        before = dict(spent)
        spent["air"] += info["seconds"]["communication"]
        spent["computing"] += info["seconds"]["computing"]
        spent["bits"] += info["bits"]["up"] / 1e6
        if measure == "server":
            accuracy, at = info["accuracy"]["global"], spent
        else:
            own = info["accuracy"]
            mean = np.mean(device_accuracies(own))
            accuracy = own["reference"] if measure == "reference" else mean
            trained = before["computing"] + device_seconds(info, before["computing"])
            at = {**before, "computing": trained}
        if accuracy is not None:
            points.append(_point(at, info["round"], accuracy))
    return points


def _point(at: dict[str, float], rounds: float, accuracy: float) -> Point:
    seconds = at["air"] + at["computing"]
    return {**at, "seconds": seconds, "rounds": float(rounds), "accuracy": float(accuracy)}


def _convergence(run: LoadedRun, axis: str, measure: str) -> tuple[float, float] | None:
    """The measured point of the round in which the stopping rule first fired."""
    fired = next((place for place, info in enumerate(run.rounds) if info["converged"]), None)
    if fired is None:
        return None
    upto = LoadedRun(run.folder, run.config, run.rounds[: fired + 1], run.finished)
    points = _points(upto, axis, measure)
    return (points[-1][axis], points[-1]["accuracy"]) if points else None


def _by_round(lines: Sequence[Sequence[Point]], axis: str) -> tuple[Floats, Floats]:
    """Mean x of each round, and the accuracy of each run in it: [runs, rounds]."""
    rounds = sorted({point["rounds"] for points in lines for point in points})
    spent = np.full((len(lines), len(rounds)), np.nan)
    values = spent.copy()
    for row, points in enumerate(lines):
        for point in points:
            place = rounds.index(point["rounds"])
            spent[row, place], values[row, place] = point[axis], point["accuracy"]
    return np.nanmean(spent, axis=0), values


def _on_grid(
    lines: Sequence[tuple[Floats, Floats]], finished: Sequence[tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Even steps up to the end of the shortest finished run; without one, of the longest run."""
    last = min((x[-1] for x, _ in finished), default=max(x[-1] for x, _ in lines))
    grid = np.linspace(min(x[0] for x, _ in lines), last, GRID)
    return grid, np.stack([np.interp(grid, x, y, right=np.nan) for x, y in lines])


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most ``MOST_POINTS`` of the points, including the first and the last."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int))
    return x[kept], y[kept]


def as_plain(found: Curve) -> dict[str, Any]:
    """For JSON, rounded to the resolution of a screen."""
    return {
        "x": [float(f"{value:.6g}") for value in found.x],
        "mean": np.round(found.mean, 5).tolist(),
        "low": np.round(found.low, 5).tolist(),
        "high": np.round(found.high, 5).tolist(),
        "seeds": found.seeds.tolist(),
        "converged": [(float(f"{x:.6g}"), round(y, 5)) for x, y in found.converged],
    }
