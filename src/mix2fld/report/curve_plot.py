"""Learning curves of finished runs as one picture: a panel for each protocol."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import describe_setting
from mix2fld.report.style import as_text, style_of
from mix2fld.runs.results import RunResult
from mix2fld.runs.summary import device_scores
from mix2fld.tasks.metric import ACCURACY, Metric, metric_of

Floats = NDArray[np.float64]
SAMPLES = 800
DROP = 1.0
"""Points by which a download lowers the accuracy of a device, from which it is marked."""
ALONE = "#7f7f7f"
SECONDS = "simulated seconds"


@dataclass(frozen=True)
class CurveTrace:
    """One run: scores as they are shown, with the simulated seconds at which they were reached."""

    ends: Floats
    """Seconds at the end of each local phase."""
    devices: Floats
    """Mean of all devices there."""
    seconds: Floats
    """Every measurement of the reference device."""
    reference: Floats
    downloads: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds, and the reference device before and after."""
    converged: int | None = None
    """The round in which the stopping rule fired, from 1."""
    metric: Metric = ACCURACY


@dataclass(frozen=True)
class System:
    """What a panel shows: the runs of all seeds."""

    title: str
    colour: str
    traces: Sequence[CurveTrace]


def trace_of(
    curve: Sequence[dict[str, Any]],
    means: Sequence[float],
    converged: int | None,
    metric: Metric = ACCURACY,
) -> CurveTrace:
    """From the points of the reference device, and the mean of all devices in each round."""
    seconds = np.array([point["communication"] + point["computing"] for point in curve])
    reference = metric.factor * np.array([point["score"] for point in curve])
    phase = curve[-1]["step"] // len(means)
    ends = [_end_of(curve, seconds, phase * (number + 1)) for number in range(len(means))]
    downloads = [
        (float(seconds[place]), float(reference[place - 1]), float(reference[place]))
        for place, point in enumerate(curve)
        if point["event"] == "download" and place
    ]
    scores = metric.factor * np.array(means)
    return CurveTrace(np.array(ends), scores, seconds, reference, downloads, converged, metric)


def _end_of(curve: Sequence[dict[str, Any]], seconds: Floats, step: int) -> float:
    return next(
        float(at)
        for at, point in zip(seconds, curve, strict=True)
        if point["step"] >= step and point["event"] == "local"
    )


def draw_systems(
    figure: Any, grid: Sequence[Axes], systems: Sequence[System], alone: System | None
) -> None:
    """A panel for each system; ``alone`` is drawn into all of them, to compare with."""
    limits = _limits(systems)
    last = max(float(each.seconds[-1]) for system in systems for each in system.traces)
    for axes, system in zip(grid, systems, strict=True):
        if alone is not None:
            _steps(axes, alone, {"color": ALONE, "linewidth": 1.0, "linestyle": (0, (1, 1))})
        _draw_system(axes, system, limits)
        title: dict[str, Any] = {"color": as_text(system.colour), "loc": "left", "weight": "bold"}
        axes.set_title(system.title, fontsize=9, **title)
        axes.set_ylim(*limits)
        axes.set_xlim(0, 1.03 * last)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    for axes in (each for each in grid if _is_lowest(each, grid)):
        axes.set_xlabel(SECONDS, fontsize=8)
        axes.tick_params(labelbottom=True)
    _legend(figure, systems, alone)


def _is_lowest(axes: Axes, grid: Sequence[Axes]) -> bool:
    """Whether no other panel stands below in the same column."""
    place = axes.get_subplotspec()
    columns = [(each.get_subplotspec(), each) for each in grid]
    below = [each for other, each in columns if place and other
             and other.colspan.start == place.colspan.start
             and other.rowspan.start > place.rowspan.start]  # fmt: skip
    return not below


def _draw_system(axes: Axes, system: System, limits: tuple[float, float]) -> None:
    colour = system.colour
    times, within = _held([(each.seconds, each.reference) for each in system.traces])
    axes.plot(times, within.mean(axis=0), color=colour, linewidth=0.7, alpha=0.45)
    _steps(axes, system, {"color": colour, "linewidth": 2.0}, band=len(system.traces) > 1)
    _mark_drops(axes, system, limits[0])
    fired = [each for each in system.traces if each.converged is not None]
    if fired:
        x = float(np.mean([each.ends[_place(each)] for each in fired]))
        y = float(np.mean([each.devices[_place(each)] for each in fired]))
        axes.plot(x, y, "o", ms=7, mfc="white", mec=colour, mew=1.4, zorder=4)
    last = float(np.mean([each.devices[-1] for each in system.traces]))
    end = max(float(each.seconds[-1]) for each in system.traces)
    top = max(last, *(float(each.devices[-2:].max()) for each in system.traces))
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.5}
    style: dict[str, Any] = {"fontsize": 8, "color": as_text(colour), "ha": "right", "zorder": 5}
    place: dict[str, Any] = {"textcoords": "offset points", "bbox": box}
    shown = system.traces[0].metric.text(last / system.traces[0].metric.factor)
    axes.annotate(shown, (end, top), (0, 5), **place, **style)


def _steps(axes: Axes, system: System, style: dict[str, Any], *, band: bool = False) -> None:
    """Mean over seeds of the mean of all devices, held until the next local phase is over."""
    last = max(float(each.seconds[-1]) for each in system.traces)
    times, values = _held([(each.ends, each.devices) for each in system.traces], last)
    axes.plot(times, values.mean(axis=0), **style)
    if band:
        low, high = values.min(axis=0), values.max(axis=0)
        axes.fill_between(times, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _held(lines: Sequence[tuple[Floats, Floats]], last: float | None = None) -> tuple[Floats, Any]:
    """Each line at common times: the value of the last measurement before."""
    first = max(float(seconds[0]) for seconds, _ in lines)
    end = last if last is not None else min(float(seconds[-1]) for seconds, _ in lines)
    times = np.linspace(first, end, SAMPLES)
    places = [np.searchsorted(seconds, times, side="right") - 1 for seconds, _ in lines]
    values = [line[np.maximum(place, 0)] for (_, line), place in zip(lines, places, strict=True)]
    return times, np.stack(values)


def _mark_drops(axes: Axes, system: System, bottom: float) -> None:
    """Where downloads lower the accuracy of the reference device, on average over seeds."""
    if not system.traces[0].metric.is_share:
        return
    fewest = min(len(each.downloads) for each in system.traces)
    for number in range(fewest):
        found = np.array([each.downloads[number] for each in system.traces]).mean(axis=0)
        at, before, after = (float(value) for value in found)
        if before - after < DROP:
            continue
        axes.vlines(at, max(after, bottom), before, color=system.colour, linewidth=0.8, alpha=0.6)
        axes.plot(at, max(after, bottom), "v", ms=5, color=system.colour, clip_on=False, zorder=4)


def _place(trace: CurveTrace) -> int:
    assert trace.converged is not None
    return min(trace.converged, len(trace.ends)) - 1


def _limits(systems: Sequence[System]) -> tuple[float, float]:
    """Room for all bold lines and the label above; drops below are marked at the edge."""
    values = np.concatenate([each.devices for system in systems for each in system.traces])
    low, high = float(values.min()), float(values.max())
    if not systems[0].traces[0].metric.is_share:
        margin = 0.08 * ((high - low) or abs(high) or 1.0)
        return low - 2 * margin, high + 3 * margin
    margin = 0.08 * max(high - low, 2.0)
    return max(0.0, low - 2 * margin), high + 3 * margin


def _legend(figure: Figure, systems: Sequence[System], alone: System | None) -> None:
    dark = "#333333"
    handles: list[Any] = [
        Line2D([], [], color=dark, linewidth=2, label="mean of all devices after local steps"),
        Line2D([], [], color=dark, linewidth=0.7, alpha=0.6, label="reference device"),
    ]
    if any(len(system.traces) > 1 for system in systems):
        handles.append(Patch(color=dark, alpha=0.18, linewidth=0, label="lowest to highest seed"))
    if any(each.converged is not None for system in systems for each in system.traces):
        mark: dict[str, Any] = {"marker": "o", "linestyle": "none", "mfc": "white", "mec": dark}
        handles.append(Line2D([], [], label="stopping rule holds", **mark))
    if any(before - after >= DROP for each in systems for t in each.traces
           for _, before, after in t.downloads):  # fmt: skip
        drop: dict[str, Any] = {"marker": "v", "linestyle": "none", "color": dark}
        handles.append(Line2D([], [], label=f"download costs {DROP:g} point or more", **drop))
    if alone is not None:
        line: dict[str, Any] = {"color": ALONE, "linestyle": (0, (1, 1))}
        handles.append(Line2D([], [], label=alone.title, **line))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


COLUMNS = 4
PANEL = (2.6, 2.3)
"""Inches."""


def draw_curves(results: Sequence[RunResult], target: Path | BinaryIO) -> None:
    """Score over simulated seconds, in steps: mean and range over seeds."""
    systems = [
        _system(protocol, [run for run in results if run.config.protocol == protocol])
        for protocol in dict.fromkeys(result.config.protocol for result in results)
    ]
    alone = next((system for system in systems if system.title == title_of("isolated")), None)
    systems = [system for system in systems if system is not alone] or systems
    columns = min(COLUMNS, len(systems))
    rows = -(-len(systems) // columns)
    size = (max(5.2, PANEL[0] * columns), 1.1 + PANEL[1] * rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for unused in grid.ravel()[len(systems) :]:
        unused.set_axis_off()
    draw_systems(figure, list(grid.ravel()[: len(systems)]), systems, alone)
    seeds = len({result.config.seed for result in results})
    words = "one seed" if seeds == 1 else f"{seeds} seeds"
    figure.suptitle(f"{describe_setting(results[0].config)}; {words}", fontsize=10)
    metric = metric_of(results[0].summary["scores"])
    figure.supylabel(f"test {metric.title.replace(' in ', ', ')}", fontsize=9)
    figure.savefig(target, dpi=150, format="png")
    plt.close(figure)


def _system(protocol: str, runs: Sequence[RunResult]) -> System:
    colour = style_of(protocol)["color"]
    return System(title_of(protocol), colour, [_trace(run) for run in runs])


def _trace(result: RunResult) -> CurveTrace:
    points = [point for info in result.rounds for point in info["curve"]]
    means = [float(np.mean(device_scores(info["scores"]))) for info in result.rounds]
    metric = metric_of(result.summary["scores"])
    return trace_of(points, means, result.summary["converged_round"], metric)
