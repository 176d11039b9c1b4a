"""The label distribution, samples of each label on each device: as a picture and as a table."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.report.style import save_figure

if TYPE_CHECKING:
    from rich.table import Table

Counts = NDArray[np.integer]  # [D, N_L]
_MOST_NUMBERED_DEVICES, _MOST_NUMBERED_LABELS = 20, 30
_MOST_LISTED_DEVICES, _MOST_LISTED_LABELS = 30, 20


def draw_label_map(counts: Counts, path: Path) -> None:
    """Save a heat map of ``counts`` [D, N_L]; with few devices it shows the counts as well."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    devices, labels = counts.shape
    size = (min(max(6.0, 0.55 * labels + 2.2), 16), min(max(3.2, 0.36 * devices + 1.6), 12))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    top = max(int(counts.max(initial=0)), 1)
    image = axes.imshow(
        counts, cmap="cividis", vmin=0, vmax=top, aspect="auto", interpolation="nearest"
    )
    axes.set(
        title="Label distribution: training samples by device", xlabel="label", ylabel="device"
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if labels <= _MOST_NUMBERED_LABELS:
        axes.set_xticks(range(labels))
    if devices <= _MOST_NUMBERED_DEVICES:
        axes.set_yticks(range(devices))
    if devices <= _MOST_NUMBERED_DEVICES and labels <= _MOST_NUMBERED_LABELS:
        for (device, label), count in np.ndenumerate(counts):
            shade = "black" if count > 0.45 * top else "white"
            axes.text(label, device, str(count), ha="center", va="center", color=shade, fontsize=8)
    figure.colorbar(image, ax=axes, label="samples")
    save_figure(figure, path, dpi=150)


def label_table(counts: Counts) -> "Table":
    """A terminal table of ``counts`` [D, N_L], shaded; many devices are summed up by label."""
    if counts.shape[0] > _MOST_LISTED_DEVICES or counts.shape[1] > _MOST_LISTED_LABELS:
        return _summary_table(counts)
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Label distribution: training samples by device", padding=(0, 0))
    table.add_column("device", justify="right")
    top = max(int(counts.max(initial=0)), 1)
    width = len(str(top))
    for label in range(counts.shape[1]):
        table.add_column(f" {label:>{width}} ")  # aligned here: rich would cut the shade short
    table.add_column("total", justify="right", style="bold")
    for device, row in enumerate(counts):
        cells = [Text(f" {count:>{width}} ", style=_shade(int(count) / top)) for count in row]
        table.add_row(str(device), *cells, str(row.sum()))
    return table


def _summary_table(counts: Counts) -> "Table":
    from rich.table import Table

    devices = counts.shape[0]
    table = Table(title=f"Label distribution over {devices} devices")
    for heading in ("label", "total", "devices without", "min", "median", "max"):
        table.add_column(heading, justify="right")
    for label, column in enumerate(counts.T):
        without = int((column == 0).sum())
        median = round(float(np.median(column)), 1)
        cells = (column.sum(), without, column.min(), median, column.max())
        table.add_row(str(label), *(f"{value:,}" for value in cells))
    return table


def _shade(fraction: float) -> str:
    grey = round(235 + 20 * fraction)
    ink = "black" if grey >= 244 else "bright_white"
    return f"{ink} on color({grey})"
