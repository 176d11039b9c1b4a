"""Learning curves over time, rounds or traffic: a line for each series, with a band over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.runs.reader import LoadedRun
from mix2fld.runs.summary import device_scores, device_seconds

Floats = NDArray[np.float64]

AXES: dict[str, str] = {
    "seconds": "simulated seconds, computing and on air",
    "air": "simulated seconds on air",
    "rounds": "rounds",
    "bits": "uplink traffic of all devices in Mbit",
}
"""What a curve can be drawn over, with the label of the axis."""
MEASURES: dict[str, str] = {
    "devices": "mean {metric} of devices",
    "reference": "{metric} of the reference device",
    "server": "{metric} of the server's model",
}
"""Whose score a curve can show."""
MOST_POINTS = 600
LOCAL, HOLD, DOWNLOAD = 0, 1, 2
"""Points of a round: measured while training; still the same at its end; after the download."""
WITHIN_ROUNDS = tuple(axis for axis in AXES if axis != "bits")
"""Axes along which the reference device has several points for each round."""


@dataclass(frozen=True)
class Shape:
    """Mean, lowest and highest score over seeds at each point, and the number of seeds there."""

    x: dict[str, Floats]
    """Where the points are on each axis."""
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]
    rounds: NDArray[np.int64]
    measured: NDArray[np.bool_]
    """False for points that only say that nothing changed."""
    converged: dict[str, list[tuple[float, float]]]
    """Where the stopping rule fired: x and score, one pair for each run in which it did."""


def shapes(runs: Sequence[LoadedRun], measure: str) -> list[Shape]:
    """The curves of a measure over all axes: one shape, or two if one axis has fewer points."""
    axes = ("seconds", "bits") if measure == "reference" else ("seconds",)
    return [found for axis in axes if (found := shape(runs, axis, measure))]


def shape(runs: Sequence[LoadedRun], axis: str, measure: str) -> Shape | None:
    """The shape that an axis belongs to."""
    within = measure == "reference" and axis in WITHIN_ROUNDS
    axes = WITHIN_ROUNDS if within else ("bits",) if measure == "reference" else tuple(AXES)
    points = [found for run in runs if (found := _points(run, measure, within))]
    if not points:
        return None
    keys = _thinned(sorted({point.key for own in points for point in own}))
    table = [_at(own, keys) for own in points]
    values = np.array([[math.nan if p is None else p.score for p in own] for own in table])
    fired = [point for run in runs if (point := _convergence(run, measure, within))]
    return Shape(
        {name: np.nanmean(_places(table, name), axis=0) for name in axes},
        np.nanmean(values, axis=0),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        np.isfinite(values).sum(axis=0),
        np.array([key[0] for key in keys], np.int64),
        np.array([key[2] != HOLD for key in keys]),
        {name: [(point.at[name], point.score) for point in fired] for name in axes},
    )


class CurvePoint(NamedTuple):
    """A score with all that was spent until then."""

    key: tuple[int, int, int]
    """Round, local steps since the start, and whether it is ``LOCAL``, ``HOLD`` or ``DOWNLOAD``."""
    at: dict[str, float]
    score: float


def _at(
    points: Sequence[CurvePoint], keys: Sequence[tuple[int, int, int]]
) -> list[CurvePoint | None]:
    """The point of each key; a device that had no download keeps its model instead."""
    own = {point.key: point for point in points}
    return [own.get(key) or (own.get((*key[:2], HOLD)) if key[2] else None) for key in keys]


def _places(table: Sequence[Sequence[CurvePoint | None]], axis: str) -> Floats:
    return np.array([[math.nan if p is None else p.at[axis] for p in own] for own in table])


def reference_points(rounds: Sequence[dict[str, Any]], local_steps: int) -> list[CurvePoint]:
    """The reference device throughout a run, also within rounds.

    It keeps its model while others compute and send, until a download replaces its model.
    """
    points: list[CurvePoint] = []
    spent = _Spent()
    for info in rounds:
        end = spent.after(info)
        held = math.nan
        for seen in info["curve"]:
            at = _Spent(seen["communication"], seen["computing"], spent.bits)
            step, score = seen["step"], seen["score"]
            if seen["event"] == "download":
                continue
            points.append(_point(info, step, LOCAL, at, step / local_steps, score))
            held = score
        step = points[-1].key[1]
        points.append(_point(info, step, HOLD, end, step / local_steps, held))
        for seen in info["curve"]:
            if seen["event"] == "download":
                new = seen["score"]
                points.append(_point(info, step, DOWNLOAD, end, step / local_steps, new))
        spent = end
    return points


def line(points: Sequence[CurvePoint], axis: str) -> tuple[Floats, Floats]:
    """The points over one axis: x and scores."""
    return np.array([p.at[axis] for p in points]), np.array([p.score for p in points])


class _Spent(NamedTuple):
    air: float = 0.0
    computing: float = 0.0
    bits: float = 0.0

    def after(self, info: dict[str, Any]) -> "_Spent":
        """What has been spent at the end of a round."""
        seconds = info["seconds"]
        return _Spent(
            self.air + seconds["communication"],
            self.computing + seconds["computing"],
            self.bits + info["bits"]["up"] / 1e6,
        )


def _point(
    info: dict[str, Any], step: int, kind: int, spent: _Spent, rounds: float, score: float
) -> CurvePoint:
    at = {**spent._asdict(), "seconds": spent.air + spent.computing, "rounds": float(rounds)}
    return CurvePoint((info["round"], step, kind), at, float(score))


def _points(run: LoadedRun, measure: str, within: bool) -> list[CurvePoint]:
    """Each score of this run, with the time and traffic up to its measurement."""
    if within:
        return reference_points(run.rounds, run.config.learning.local_steps)
    return _once_a_round(run, measure)


def _once_a_round(run: LoadedRun, measure: str) -> list[CurvePoint]:
    """Devices at the end of their local phase, before they upload; the server after its step."""
    points = []
    spent = _Spent()
    for info in run.rounds:
        before, spent = spent, spent.after(info)
        if measure == "server":
            score, at = info["scores"]["global"], spent
        else:
            own = info["scores"]
            mean = np.mean(device_scores(own))
            score = own["reference"] if measure == "reference" else mean
            trained = before.computing + device_seconds(info, before.computing)
            at = before._replace(computing=trained)
        if score is not None:
            points.append(_point(info, 0, LOCAL, at, info["round"], score))
    return points


def _convergence(run: LoadedRun, measure: str, within: bool) -> CurvePoint | None:
    """The measured point of the round in which the stopping rule first fired."""
    fired = next((place for place, info in enumerate(run.rounds) if info["converged"]), None)
    if fired is None:
        return None
    upto = LoadedRun(run.folder, run.config, run.rounds[: fired + 1], run.finished)
    points = _points(upto, measure, within)
    return next((p for p in reversed(points) if p.key[2] != HOLD), None)


def _thinned(keys: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """At most ``MOST_POINTS`` or so: of each round the end, and if need be not of every round."""
    if len(keys) <= MOST_POINTS:
        return keys
    last = {key[0]: key for key in keys if key[2] == LOCAL}
    ends = [key for key in keys if key[2] != LOCAL or last[key[0]] == key]
    rounds = np.array(sorted({key[0] for key in ends}))
    most = max(1, MOST_POINTS * len(rounds) // max(len(ends), MOST_POINTS))
    kept = set(rounds[np.unique(np.linspace(0, len(rounds) - 1, most).astype(int))].tolist())
    return [key for key in ends if key[0] in kept]


def as_plain(found: Shape) -> dict[str, Any]:
    """For JSON, rounded to the resolution of a screen; what one seed does not have is left out."""
    plain: dict[str, Any] = {
        "x": {axis: [float(f"{value:.5g}") for value in x] for axis, x in found.x.items()},
        "mean": np.round(found.mean, 4).tolist(),
        "round": found.rounds.tolist(),
        "converged": {
            axis: [(float(f"{x:.5g}"), round(y, 4)) for x, y in pairs]
            for axis, pairs in found.converged.items()
        },
    }
    if not found.measured.all():
        plain["measured"] = found.measured.astype(int).tolist()
    if found.seeds.max() > 1:
        plain["low"], plain["high"] = (
            np.round(found.low, 4).tolist(),
            np.round(found.high, 4).tolist(),
        )
        plain["seeds"] = found.seeds.tolist()
    return plain
