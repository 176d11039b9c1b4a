"""Learning curves over what was spent: one line for each series, with a band over its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.loading import LoadedRun

Floats = NDArray[np.float64]

AXES: dict[str, str] = {
    "seconds": "simulated seconds, computing and on air",
    "air": "simulated seconds on air",
    "rounds": "rounds",
    "bits": "Mbit sent up by all devices",
}
"""What a curve can be drawn over; the words stand at the axis."""
MEASURES: dict[str, str] = {
    "devices": "mean accuracy of all devices",
    "reference": "accuracy of the reference device",
    "server": "accuracy of the server's model",
}
"""Whose accuracy a curve can show."""
GRID = 240
MOST_POINTS = 600


@dataclass(frozen=True)
class Curve:
    """Mean, lowest and highest accuracy over seeds, at each x; how many seeds got that far."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]
    converged: list[tuple[float, float]]
    """Where the stopping rule fired: x and accuracy of a run."""


def curve(runs: Sequence[LoadedRun], axis: str, measure: str) -> Curve | None:
    """The curve of runs that differ in their seed only; None if there is nothing to measure."""
    lines = [line for run in runs if len((line := trace(run, axis, measure))[0])]
    if not lines:
        return None
    converged = [spot for run in runs if (spot := _convergence(run, axis, measure))]
    if len(lines) == 1:
        x, y = _thinned(*lines[0])
        return Curve(x, y, y, y, np.ones(len(x), np.int64), converged)
    grid = _grid(runs, lines, axis, measure)
    values = np.stack([np.interp(grid, x, y, right=np.nan) for x, y in lines])
    values[:, :] = np.where(_before_start(grid, lines), np.nan, values)
    seeds = np.isfinite(values).sum(axis=0)
    kept = seeds > 0
    values = values[:, kept]
    return Curve(
        grid[kept],
        np.nanmean(values, axis=0),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        seeds[kept],
        converged,
    )


def trace(run: LoadedRun, axis: str, measure: str) -> tuple[Floats, Floats]:
    """One run: what had been spent when an accuracy was measured, and that accuracy."""
    points = _within_rounds(run) if measure == "reference" else _once_a_round(run, measure)
    x = [point[axis] for point in points]
    return np.array(x, float), np.array([point["accuracy"] for point in points], float)


def _once_a_round(run: LoadedRun, measure: str) -> list[dict[str, float]]:
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
            accuracy = float(np.mean(info["accuracy"]["devices"]))
            local = [p["computing"] for p in info["curve"] if p["event"] == "local"]
            at = {**before, "computing": local[-1] if local else spent["computing"]}
        if accuracy is not None:
            points.append(_point(at, info["round"], accuracy))
    return points


def _within_rounds(run: LoadedRun) -> list[dict[str, float]]:
    """The reference device all along; it keeps its accuracy until a download replaces its model."""
    points: list[dict[str, float]] = []
    steps = run.config.learning.local_steps
    bits = 0.0
    for info in run.rounds:
        for point in info["curve"]:
            downloaded = point["event"] == "download"
            at = {
                "air": point["communication"],
                "computing": point["computing"],
                "bits": bits + (info["bits"]["up"] / 1e6 if downloaded else 0.0),
            }
            rounds = point["step"] / steps
            if downloaded and points:
                points.append(_point(at, rounds, points[-1]["accuracy"]))
            points.append(_point(at, rounds, point["accuracy"]))
        bits += info["bits"]["up"] / 1e6
    return points


def _point(at: dict[str, float], rounds: float, accuracy: float) -> dict[str, float]:
    seconds = at["air"] + at["computing"]
    return {**at, "seconds": seconds, "rounds": rounds, "accuracy": accuracy}


def _convergence(run: LoadedRun, axis: str, measure: str) -> tuple[float, float] | None:
    """The measured point of the round in which the stopping rule first fired."""
    fired = next((place for place, info in enumerate(run.rounds) if info["converged"]), None)
    if fired is None:
        return None
    upto = LoadedRun(run.folder, run.config, run.rounds[: fired + 1], run.finished)
    x, y = trace(upto, axis, measure)
    return (float(x[-1]), float(y[-1])) if len(x) else None


def _grid(
    runs: Sequence[LoadedRun], lines: Sequence[tuple[Floats, Floats]], axis: str, measure: str
) -> Floats:
    """As far as every finished run goes; without one, as far as any does."""
    ends = [trace(run, axis, measure)[0][-1:] for run in runs if run.finished]
    reached = [float(end[0]) for end in ends if len(end)]
    last = min(reached) if reached else max(float(x[-1]) for x, _ in lines)
    first = min(float(x[0]) for x, _ in lines)
    if axis == "rounds" and measure != "reference":
        return np.arange(first, last + 1)
    return np.linspace(first, last, GRID)


def _before_start(grid: Floats, lines: Sequence[tuple[Floats, Floats]]) -> NDArray[np.bool_]:
    return np.stack([grid < x[0] - 1e-12 for x, _ in lines])


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most ``MOST_POINTS`` of the points, the first and the last among them."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int))
    return x[kept], y[kept]


def as_plain(found: Curve) -> dict[str, Any]:
    """For JSON: rounded to what a screen can show."""
    return {
        "x": [float(f"{value:.6g}") for value in found.x],
        "mean": np.round(found.mean, 5).tolist(),
        "low": np.round(found.low, 5).tolist(),
        "high": np.round(found.high, 5).tolist(),
        "seeds": found.seeds.tolist(),
        "converged": [(float(f"{x:.6g}"), round(y, 5)) for x, y in found.converged],
    }
