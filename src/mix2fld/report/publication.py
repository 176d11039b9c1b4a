"""Every chart of the report as a figure for publication: PDF, SVG and PNG in one style."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from mix2fld.base.files import writing
from mix2fld.report.curves import AXES, MEASURES, Curve, curve
from mix2fld.report.dataset import UnavailableDataError, data_of, label_map
from mix2fld.report.deliveries import (
    DELIVERED,
    LOST,
    MEANINGS,
    NOT_ASKED,
    NOTHING_SENT,
    deliveries,
    measured_devices,
)
from mix2fld.report.page_series import payload
from mix2fld.report.protocol_view import title_of
from mix2fld.report.publication_samples import draw_gallery
from mix2fld.report.series import Series, common_metric, group
from mix2fld.report.style import PAPER, PART_COLOURS, style_of
from mix2fld.runs.metrics import PARTS, device_scores, seconds_by_part
from mix2fld.runs.reader import Found, LoadedRun
from mix2fld.tasks.metric import ACCURACY

FORMATS = ("pdf", "svg", "png")
COLUMN = 3.5
"""Width of a column of an IEEE page, in inches."""
WRAPPED = 28
"""Characters of a line in the title of a small panel."""
DELIVERY_COLOURS = {
    DELIVERED: "#0b63a5",
    LOST: "#e8954f",
    NOT_ASKED: "#dcdcdc",
    NOTHING_SENT: "#ffffff",
}
"""Told apart in greyscale too."""


@dataclass(frozen=True)
class Chart:
    """A figure that can be drawn."""

    name: str
    draw: Callable[[], Figure | None]


def draw_all(found: Found, folder: Path) -> list[Path]:
    """Write every chart into ``folder``; returns the files."""
    runs = [run for run in found.runs if run.rounds]
    settings, series = group(runs)
    written: list[Path] = []
    with mpl.rc_context(PAPER):
        for chart in charts(series, [one.label for one in settings]):
            figure = chart.draw()
            if figure is not None:
                written += _save(figure, folder, chart.name)
    return written


def charts(series: Sequence[Series], labels: Sequence[str]) -> Iterator[Chart]:
    """Every chart of ``series``; ``labels`` are those of the settings they come from."""
    settings = len(labels)
    for measure in MEASURES:
        for axis in AXES:
            draw = partial(_curves, series, measure, axis, labels if settings > 1 else [])
            yield Chart(f"curves-{measure}-{axis}", draw)
    yield Chart("time", partial(_time, series))
    yield Chart("payload", partial(_payload, series))
    for number in range(settings):
        own = [one for one in series if number in one.settings]
        mark = f"-setting{number + 1}" if settings > 1 else ""
        shown = [(one, one.runs[0]) for one in own]
        yield Chart(f"deliveries{mark}", partial(_deliveries, shown))
        yield Chart(f"devices{mark}", partial(_devices, shown))
        yield Chart(f"labels{mark}", partial(_labels, shown[0][1]))
        yield Chart(f"samples{mark}", partial(draw_gallery, [run for _, run in shown]))


def _save(figure: Figure, folder: Path, name: str) -> list[Path]:
    FigureCanvasAgg(figure)
    files = [folder / f"{name}.{kind}" for kind in FORMATS]
    with writing("figures", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            # Without dates, the same runs give the same bytes.
            dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(file.suffix)
            figure.savefig(file, metadata=dates)
    return files


def _panel(height: float = 2.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(COLUMN, height), layout="constrained")
    return figure, figure.add_subplot()


def _curves(
    series: Sequence[Series], measure: str, axis: str, labels: Sequence[str]
) -> Figure | None:
    several = bool(labels)
    drawn = [(one, found) for one in series if (found := curve(one.runs, axis, measure))]
    if not drawn:
        return None
    panels: list[int | None] = [None]
    if several:
        panels = [*sorted({n for one, _ in drawn for n in one.settings})]
    figure, grid = _panels(len(panels))
    for axes, setting in zip(grid, panels, strict=True):
        own = [(one, found) for one, found in drawn if setting is None or setting in one.settings]
        _lines(axes, own)
        if setting is not None:
            axes.set_title(fill(labels[setting], WRAPPED))
        if axis == "bits" and max(float(found.x[-1]) for _, found in own) > 0:
            axes.set_xscale("log")
    last = max(float(found.x[-1]) for _, found in drawn)
    metric = common_metric([run for one, _ in drawn for run in one.runs])
    if metric == ACCURACY:
        late = [100 * found.low[found.x >= 0.04 * last].min(initial=1.0) for _, found in drawn]
        grid[0].set_ylim(bottom=max(0.0, min(late) - 2))
    unit = f" ({metric.unit})" if metric.unit else ""
    _name_axes(
        figure, grid[0], AXES[axis], MEASURES[measure].format(metric=metric.name) + unit, several
    )
    named = {str(line.get_label()): line for axes in reversed(grid) for line in axes.get_lines()}
    order = list(dict.fromkeys(title_of(one.protocol) for one, _ in drawn))
    figure.legend(
        [named[name] for name in order], order, loc="outside upper center", ncols=3,
        columnspacing=1.0, handlelength=2.4,
    )  # fmt: skip
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Small multiples with common axes, two to a row."""
    if count == 1:
        figure, axes = _panel()
        return figure, [axes]
    rows = -(-count // 2)
    figure = Figure(figsize=(COLUMN, 0.6 + 1.4 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for unused in grid[count:]:
        unused.set_axis_off()
    return figure, grid[:count]


def _lines(axes: Axes, drawn: Sequence[tuple[Series, Curve]]) -> None:
    """The curves of one setting, each in the colour of its protocol.

    They are steps: a score holds until the next one is measured.
    """
    for one, found in drawn:
        style, factor = style_of(one.protocol), one.runs[0].metric.factor
        drawn_as: dict[str, Any] = {
            "label": title_of(one.protocol),
            "drawstyle": "steps-post",
            **style,
        }
        axes.plot(found.x, factor * found.mean, **drawn_as)
        band: dict[str, Any] = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
        band["step"] = "post"
        axes.fill_between(found.x, factor * found.low, factor * found.high, **band)
        marks = {"s": 14, "facecolor": "white", "edgecolor": style["color"], "zorder": 3}
        if found.converged:
            x, y = zip(*found.converged, strict=True)
            axes.scatter(x, factor * np.array(y), linewidth=0.8, **marks)


def _name_axes(figure: Figure, axes: Axes, x: str, y: str, several: bool) -> None:
    if several:
        figure.supxlabel(x, fontsize=8)
        figure.supylabel(y, fontsize=8)
    else:
        axes.set(xlabel=x, ylabel=y)


def _time(series: Sequence[Series]) -> Figure:
    figure, axes = _panel(0.9 + 0.24 * len(series))
    left = np.zeros(len(series))
    for part in PARTS:
        widths = np.array(
            [
                np.mean([sum(i[part] for i in seconds_by_part(run.rounds)) for run in one.runs])
                for one in series
            ]
        )
        axes.barh(range(len(series)), widths, left=left, label=part, color=PART_COLOURS[part])
        left += widths
    _name_rows(axes, series)
    axes.set_xlabel("total simulated time (s)")
    figure.legend(loc="outside upper center", ncols=4, columnspacing=1.0, handlelength=1.2)
    return figure


def _payload(series: Sequence[Series]) -> Figure:
    figure, axes = _panel(0.9 + 0.34 * len(series))
    kinds = {"first_bits": "first upload", "later_bits": "later uploads", "down_bits": "download"}
    sizes = [payload(one.runs, one.protocol) for one in series]
    for place, (kind, words) in enumerate(kinds.items()):
        rows = [row + 0.26 * (place - 1) for row in range(len(series))]
        values = [size[kind] or np.nan for size in sizes]
        axes.barh(rows, values, 0.24, label=words, color=("#332288", "#88ccee", "#cc6677")[place])
    axes.set_xscale("log")
    _name_rows(axes, series)
    axes.set_xlabel("bits per transfer")
    figure.legend(loc="outside upper center", ncols=3, columnspacing=1.0, handlelength=1.2)
    return figure


def _name_rows(axes: Axes, series: Sequence[Series]) -> None:
    axes.set_yticks(range(len(series)), [one.label for one in series])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _deliveries(shown: Sequence[tuple[Series, LoadedRun]]) -> Figure:
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(COLUMN, 0.5 + 1.25 * rows), layout="constrained")
    panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    kinds = "".join(DELIVERY_COLOURS)
    look = {"cmap": ListedColormap(list(DELIVERY_COLOURS.values())), "vmin": 0, "vmax": len(kinds)}
    seen = set()
    for axes, (_, run) in zip(panels, shown, strict=False):
        devices = measured_devices(run)
        letters = [deliveries(info, "uploads", devices) for info in run.rounds]
        seen |= set("".join(letters))
        cells = np.array([[kinds.index(letter) + 0.5 for letter in row] for row in letters]).T
        extent = (0.5, len(run.rounds) + 0.5, len(devices) - 0.5, -0.5)
        axes.imshow(cells, interpolation="nearest", aspect="auto", extent=extent, **look)
        axes.set_title(title_of(run.protocol))
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    figure.supxlabel("round", fontsize=8)
    figure.supylabel("device", fontsize=8)
    patches = [
        Patch(facecolor=colour, edgecolor="black", linewidth=0.4, label=MEANINGS[kind])
        for kind, colour in DELIVERY_COLOURS.items()
        if kind in seen
    ]
    figure.legend(handles=patches, loc="outside upper center", ncols=4, handlelength=1.0)
    return figure


def _devices(shown: Sequence[tuple[Series, LoadedRun]]) -> Figure:
    figure, axes = _panel(0.7 + 0.24 * len(shown))
    for row, (one, run) in enumerate(shown):
        scores = run.metric.factor * device_scores(run.rounds[-1]["scores"])
        colour: Any = style_of(one.protocol)["color"]
        axes.scatter(scores, np.full(len(scores), row), s=12, alpha=0.6, color=colour)
        axes.plot([scores.mean()] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=1.6)
    axes.set_yticks(range(len(shown)), [title_of(one.protocol) for one, _ in shown])
    axes.invert_yaxis()
    metric = shown[0][1].metric
    unit = f" ({metric.unit})" if metric.unit else ""
    axes.set_xlabel(f"{metric.name} of each device{unit}, seed {shown[0][1].seed}")
    return figure


def _labels(run: LoadedRun) -> Figure | None:
    try:
        counts = label_map(data_of(run), run.config)
    except UnavailableDataError:
        return None
    figure, axes = _panel(min(6.0, 0.9 + 0.15 * len(counts)))
    image = axes.imshow(counts, cmap="cividis", aspect="auto", interpolation="nearest", vmin=0)
    axes.set(xlabel="label", ylabel=f"device, seed {run.seed}")
    axes.grid(visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label="samples")
    return figure
