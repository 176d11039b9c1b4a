"""The samples that the server sees, as a figure for publication."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from mix2fld.report.dataset import UnavailableDataError
from mix2fld.report.gallery import gallery
from mix2fld.report.page_data import most_informative
from mix2fld.report.sample_pictures import TOP
from mix2fld.runs.reader import LoadedRun

SHOWN = 3


def draw_gallery(runs: Sequence[LoadedRun]) -> Figure | None:
    """One row for each example: raw samples, their mixes, and the samples unmixed from them."""
    run = most_informative(runs)
    try:
        seen = None if run is None else gallery(run)
    except UnavailableDataError:
        return None
    if seen is None or not seen["cards"]:
        return None
    rows = [_row(card) for card in seen["cards"][:SHOWN]]
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(3.5, 0.2 + 0.85 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for axes in panels.ravel():
        axes.set_axis_off()
    for row, tiles in zip(panels, rows, strict=True):
        for axes, (kind, tile) in zip(row, tiles, strict=False):
            _draw(axes, tile)
            words = f"{kind}\n{'+'.join(map(str, tile['labels']))}"
            if tile.get("privacy") is not None:
                words += f" ({tile['privacy']:.2f})"
            axes.set_title(words, fontsize=5.5, pad=2)
    return figure


def _row(card: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    tiles = []
    for mix in card["mixes"]:
        tiles += [(f"device {mix['device']}", tile) for tile in mix["raw"]]
        tiles.append(("sent", mix["mixed"]))
    return tiles + [("unmixed", tile) for tile in card["made"]]


def _draw(axes: Axes, tile: dict[str, Any]) -> None:
    if "image" in tile:
        axes.imshow(_pixels(tile), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        return
    axes.set_ylim(0, TOP)
    for line in tile["lines"]:
        axes.plot(line, linewidth=0.5)


def _pixels(tile: dict[str, Any]) -> Any:
    data = base64.b64decode(tile["image"].split(",", 1)[1])
    return np.asarray(Image.open(io.BytesIO(data)))
