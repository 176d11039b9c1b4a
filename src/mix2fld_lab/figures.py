"""The charts of the page as figures for publication, from the page's data: PDF, SVG and PNG."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from PIL import Image

from mix2fld.report.page_data import page_data
from mix2fld.report.run_view import DELIVERED, LOST, NOT_ASKED, NOTHING_SENT
from mix2fld.report.style import PAPER, save_figure, style_of
from mix2fld.runs.reader import FoundRuns
from mix2fld.tasks.metric import Metric
from mix2fld_lab.gallery import TOP

FORMATS = ("pdf", "svg", "png")
COLUMN = 3.5
"""Width of a column of an IEEE page, in inches."""
WRAPPED = 28
"""Characters of a line in the title of a small panel."""
SAMPLE_ROWS = 3
TINTS = {DELIVERED: 1.0, LOST: 0.6, NOT_ASKED: 0.2, NOTHING_SENT: 0.0}
"""How much of its colour a delivery has: told apart in greyscale too."""

Data = dict[str, Any]
Draw = Callable[[], Figure | None]


def draw_all(found: FoundRuns, folder: Path) -> list[Path]:
    """Write every chart into ``folder``; returns the files."""
    written: list[Path] = []
    with mpl.rc_context(PAPER):
        for name, draw in charts(page_data(found)):
            figure = draw()
            if figure is not None:
                files = [folder / f"{name}.{kind}" for kind in FORMATS]
                save_figure(figure, *files, field="figures")
                written += files
    return written


def charts(data: Data) -> Iterator[tuple[str, Draw]]:
    """Every chart of a page with its name; what has no data draws None."""
    series = data["views"].get("all", data["views"]["finished"])["series"]
    for measure in data["charts"]["curves"]["measures"]:
        for axis in data["charts"]["curves"]["axes"]:
            yield f"curves-{measure}-{axis}", partial(_curves, data, series, measure, axis)
    for name in ("time", "payload"):
        yield name, partial(_bars, data["charts"][name], name, series)
    for number, setting in enumerate(data["settings"]):
        own = [one for one in series if number in one["settings"]]
        runs = [data["runs"][one["runs"][0]] for one in own]
        mark = f"-setting{number + 1}" if len(data["settings"]) > 1 else ""
        yield f"deliveries{mark}", partial(_deliveries, data["charts"]["deliveries"], runs)
        yield f"devices{mark}", partial(_devices, own, runs, Metric(**data["metric"]))
        yield f"labels{mark}", partial(_labels, setting["labels"])
        yield f"samples{mark}", partial(draw_gallery, setting["gallery"])


def _panel(height: float = 2.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(COLUMN, height), layout="constrained")
    return figure, figure.add_subplot()


def _panels(count: int, columns: int, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Small multiples; ``height`` is that of a row."""
    rows = -(-count // columns)
    figure = Figure(figsize=(COLUMN, 0.55 + height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel().tolist()
    for unused in grid[count:]:
        unused.set_axis_off()
    return figure, grid[:count]


def _curves(data: Data, series: Sequence[Data], measure: str, axis: str) -> Figure | None:
    drawn = [
        (one, shape) for one in series for shape in one["curves"][measure] if axis in shape["x"]
    ]
    if not drawn:
        return None
    metric, several = Metric(**data["metric"]), len(data["settings"]) > 1
    across, up = (data["charts"]["curves"][kind] for kind in ("axes", "measures"))
    shown = sorted({n for one, _ in drawn for n in one["settings"]}) if several else [0]
    columns, height = (2, 1.4) if several else (1, 1.85)
    figure, grid = _panels(len(shown), columns, height, sharex=True, sharey=True)
    for axes, setting in zip(grid, shown, strict=True):
        own = [(one, shape) for one, shape in drawn if setting in one["settings"]]
        for one, shape in own:
            _line(axes, one, shape, axis, metric.factor)
        if several:
            axes.set_title(fill(data["settings"][setting]["label"], WRAPPED))
        if across[axis]["log"] and max(shape["x"][axis][-1] for _, shape in own) > 0:
            axes.set_xscale("log")
    if metric.is_share:
        last = max(shape["x"][axis][-1] for _, shape in drawn)
        late = [_late(shape, axis, 0.04 * last) for _, shape in drawn]
        grid[0].set_ylim(bottom=max(0.0, 100 * min(late) - 2))
    unit = f" ({metric.unit})" if metric.unit else ""
    words = across[axis]["title"], up[measure]["title"] + unit
    if several:
        figure.supxlabel(words[0], fontsize=8)
        figure.supylabel(words[1], fontsize=8)
    else:
        grid[0].set(xlabel=words[0], ylabel=words[1])
    named = {str(line.get_label()): line for axes in reversed(grid) for line in axes.get_lines()}
    order = list(dict.fromkeys(one["title"] for one, _ in drawn))
    figure.legend(
        [named[name] for name in order], order, loc="outside upper center", ncols=3,
        columnspacing=1.0, handlelength=2.4,
    )  # fmt: skip
    return figure


def _late(shape: Data, axis: str, start: float) -> float:
    """The lowest score after the first climb."""
    low, x = np.array(shape.get("low", shape["mean"])), np.array(shape["x"][axis])
    return float(low[x >= start].min(initial=1.0))


def _line(axes: Axes, one: Data, shape: Data, axis: str, factor: float) -> None:
    """A curve with its band, in steps: a score holds until the next one is measured."""
    style: Any = style_of(one["protocol"])
    x, mean = shape["x"][axis], np.array(shape["mean"])
    axes.plot(x, factor * mean, label=one["title"], drawstyle="steps-post", **style)
    low, high = (factor * np.array(shape.get(edge, mean)) for edge in ("low", "high"))
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0, step="post")
    if fired := shape["converged"][axis]:
        at, scores = zip(*fired, strict=True)
        marks: Any = {"s": 14, "facecolor": "white", "edgecolor": style["color"], "zorder": 3}
        axes.scatter(at, factor * np.array(scores), linewidth=0.8, **marks)


def _bars(chart: Data, name: str, series: Sequence[Data]) -> Figure:
    """A bar for each row of a series; its parts from left to right."""
    rows = [(one, row) for one in series for row in one["bars"][name]]
    figure, axes = _panel(0.9 + 0.24 * len(rows))
    for place, (one, row) in enumerate(rows):
        start = 0.0
        for part, value in row["parts"].items():
            own = chart["parts"].get(part, {"light": style_of(one["protocol"])["color"]})
            label = own.get("name") if place == 0 else None
            axes.barh(place, value, left=start, color=own["light"], label=label)
            start += value
    names = [": ".join(filter(None, (one["label"], row["label"]))) for one, row in rows]
    axes.set_yticks(range(len(rows)), [fill(text, WRAPPED) for text in names])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{chart['title']} ({chart['unit']})")
    if chart["parts"]:
        figure.legend(loc="outside upper center", ncols=2, columnspacing=1.0, handlelength=1.2)
    return figure


def _deliveries(chart: Data, runs: Sequence[Data]) -> Figure:
    figure, grid = _panels(len(runs), min(3, len(runs)), 1.25)
    kinds = "".join(TINTS)
    colours = [to_rgb(chart[kind]["light"]) for kind in TINTS]
    shades = [
        to_hex((1 - tint * (1 - red), 1 - tint * (1 - green), 1 - tint * (1 - blue)))
        for tint, (red, green, blue) in zip(TINTS.values(), colours, strict=True)
    ]
    look: Any = {"cmap": ListedColormap(shades), "vmin": 0,
                 "vmax": len(kinds), "interpolation": "nearest", "aspect": "auto"}  # fmt: skip
    for axes, run in zip(grid, runs, strict=True):
        cells = np.array([[kinds.index(letter) + 0.5 for letter in row] for row in run["up"]]).T
        extent = (0.5, run["rounds"][-1] + 0.5, len(run["devices"]) - 0.5, -0.5)
        axes.imshow(cells, extent=extent, **look)
        axes.set_title(run["protocol"])
        axes.grid(visible=False)
        for side in (axes.xaxis, axes.yaxis):
            side.set_major_locator(MaxNLocator(integer=True, nbins=4))
    figure.supxlabel("round", fontsize=8)
    figure.supylabel("device", fontsize=8)
    seen = {letter for run in runs for row in run["up"] for letter in row}
    patches = [
        Patch(facecolor=shade, edgecolor="black", linewidth=0.4, label=chart[kind]["name"])
        for kind, shade in zip(TINTS, shades, strict=True)
        if kind in seen
    ]
    figure.legend(handles=patches, loc="outside upper center", ncols=4, handlelength=1.0)
    return figure


def _devices(series: Sequence[Data], runs: Sequence[Data], metric: Metric) -> Figure:
    figure, axes = _panel(0.7 + 0.24 * len(runs))
    for row, (one, run) in enumerate(zip(series, runs, strict=True)):
        scores = metric.factor * np.array([s for s in run["scores"][-1] if s is not None])
        colour: Any = style_of(one["protocol"])["color"]
        axes.scatter(scores, np.full(len(scores), row), s=12, alpha=0.6, color=colour)
        axes.plot([scores.mean()] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=1.6)
    axes.set_yticks(range(len(series)), [one["title"] for one in series])
    axes.invert_yaxis()
    unit = f" ({metric.unit})" if metric.unit else ""
    axes.set_xlabel(f"{metric.name} of each device{unit}, seed {runs[0]['seed']}")
    return figure


def _labels(by_seed: dict[str, list[list[int]]]) -> Figure | None:
    if not by_seed:
        return None
    seed, counts = next(iter(by_seed.items()))
    figure, axes = _panel(min(6.0, 0.9 + 0.15 * len(counts)))
    image = axes.imshow(counts, cmap="cividis", aspect="auto", interpolation="nearest", vmin=0)
    axes.set(xlabel="label", ylabel=f"device, seed {seed}")
    axes.grid(visible=False)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label="samples")
    return figure


def draw_gallery(gallery: Data | None) -> Figure | None:
    """One row for each example: raw samples, their mixes, and the samples unmixed from them."""
    if gallery is None or not gallery["cards"]:
        return None
    rows = [_tiles(card) for card in gallery["cards"][:SAMPLE_ROWS]]
    figure = Figure(figsize=(COLUMN, 0.2 + 0.85 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for axes in panels.ravel():
        axes.set_axis_off()
    for row, tiles in zip(panels, rows, strict=True):
        for axes, (kind, tile) in zip(row, tiles, strict=False):
            _draw_tile(axes, tile)
            words = f"{kind}\n{'+'.join(map(str, tile['labels']))}"
            if tile.get("privacy") is not None:
                words += f" ({tile['privacy']:.2f})"
            axes.set_title(words, fontsize=5.5, pad=2)
    return figure


def _tiles(card: Data) -> list[tuple[str, Data]]:
    tiles = []
    for mix in card["mixes"]:
        tiles += [(f"device {mix['device']}", tile) for tile in mix["raw"]]
        tiles.append(("sent", mix["mixed"]))
    return tiles + [("unmixed", tile) for tile in card["made"]]


def _draw_tile(axes: Axes, tile: Data) -> None:
    if "image" in tile:
        pixels = Image.open(io.BytesIO(base64.b64decode(tile["image"].split(",", 1)[1])))
        axes.imshow(np.asarray(pixels), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        return
    axes.set_ylim(0, TOP)
    for line in tile["lines"]:
        axes.plot(line, linewidth=0.5)
