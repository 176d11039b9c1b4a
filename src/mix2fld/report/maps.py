"""Pictures of a cell with its delivery probabilities, and of a label distribution."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.engine.plan import PlannedTransfer
from mix2fld.report.protocol_view import title_of
from mix2fld.report.style import PAPER, save_figure
from mix2fld.report.units import in_bits, percent

FORMATS = (".png", ".svg", ".pdf")
COLUMNS = 4
PANEL_INCHES = 2.0
GOLDEN = math.pi * (3 - math.sqrt(5))
"""Turn from one device to the next; directions mean nothing to the link."""
LABELLED = 12
"""Devices up to which each is labelled with its chance."""
COLOURS = "cividis"
_MOST_NUMBERED_DEVICES, _MOST_NUMBERED_LABELS = 20, 30


def draw_cell(
    distances_m: NDArray[np.float64], plans: Sequence[PlannedTransfer], out: Path
) -> None:
    """Write a panel for the largest upload of each protocol."""
    check_format(out)
    uploads = _largest_uploads(plans)
    if not uploads:
        raise InputError(field="out", value=out, hint="no protocol uploads anything")
    columns = min(COLUMNS, len(uploads))
    rows = -(-len(uploads) // columns)
    with mpl.rc_context(PAPER):
        size = (PANEL_INCHES * columns, PANEL_INCHES * rows + 0.7)
        figure = Figure(figsize=size, layout="constrained")
        colours = ScalarMappable(Normalize(0, 1), COLOURS)
        axes = []
        for place, plan in enumerate(uploads, 1):
            panel = figure.add_subplot(rows, columns, place, projection="polar")
            assert isinstance(panel, PolarAxes)
            _draw_panel(panel, distances_m, plan, colours)
            axes.append(panel)
        bar = figure.colorbar(
            colours, ax=axes, location="bottom", shrink=min(1.0, 2 / columns), aspect=30, pad=0.02
        )
        bar.set_label("delivery probability of the upload")
        bar.set_ticks([0, 0.5, 1], labels=["0 %", "50 %", "100 %"])
        save_figure(figure, out)


def check_format(out: Path) -> None:
    """Refuse a file that no picture can be."""
    if out.suffix not in FORMATS:
        raise InputError(field="out", value=out, hint=f"must end in {', '.join(FORMATS)}")


def _largest_uploads(plans: Sequence[PlannedTransfer]) -> list[PlannedTransfer]:
    largest: dict[str, PlannedTransfer] = {}
    for plan in plans:
        before = largest.get(plan.protocol)
        bits = plan.budget.bits
        if plan.budget.direction == "uplink" and (before is None or bits > before.budget.bits):
            largest[plan.protocol] = plan
    return list(largest.values())


def _draw_panel(
    panel: PolarAxes,
    distances_m: NDArray[np.float64],
    plan: PlannedTransfer,
    colours: ScalarMappable,
) -> None:
    chances, far = plan.forecast.probability, float(distances_m.max())
    angles = GOLDEN * np.arange(len(distances_m), dtype=np.float64)
    many = len(distances_m) > LABELLED
    panel.scatter(
        angles, distances_m, c=colours.to_rgba(chances), s=14 if many else 46, zorder=3,
        edgecolors="black", linewidths=0.4,
    )  # fmt: skip
    panel.scatter([0], [0], marker="^", c="black", s=30, zorder=3)
    if not many:
        for angle, distance, one in zip(angles, distances_m, chances, strict=True):
            panel.annotate(
                f"{100 * one:.0f}", (angle, distance), (0, 5), textcoords="offset points",
                ha="center", va="bottom", fontsize=6,
            )  # fmt: skip
    panel.set_ylim(0, 1.18 * far)
    panel.set_rticks([far / 2, far], labels=[_metres(far / 2), _metres(far)], fontsize=6)
    panel.set_rlabel_position(math.degrees(_free_direction(angles)))
    for label in panel.get_yticklabels():
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.4})
    panel.set_xticks([])
    bits = in_bits(plan.budget.bits)
    chance = percent(float(chances.mean())) if plan.budget.fits else "never"
    panel.set_title(f"{title_of(plan.protocol)}, {bits}: {chance}", fontsize=8)


def _free_direction(angles: NDArray[np.float64]) -> float:
    """The middle of the widest gap between devices."""
    around = np.sort(angles % (2 * math.pi))
    gaps = np.diff(around, append=around[0] + 2 * math.pi)
    widest = int(np.argmax(gaps))
    return float(around[widest] + gaps[widest] / 2)


def _metres(distance: float) -> str:
    return f"{distance / 1000:.3g} km" if distance >= 1000 else f"{distance:.3g} m"


def draw_label_map(counts: NDArray[np.integer], path: Path, noun: str = "label") -> None:
    """Save a heat map of ``counts`` [D, N_L]; with few devices it shows the counts as well."""
    devices, labels = counts.shape
    size = (min(max(6.0, 0.55 * labels + 2.2), 16), min(max(3.2, 0.36 * devices + 1.6), 12))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    top = max(int(counts.max(initial=0)), 1)
    image = axes.imshow(
        counts, cmap="cividis", vmin=0, vmax=top, aspect="auto", interpolation="nearest"
    )
    axes.set(
        title=f"{noun.capitalize()} distribution: training samples by device",
        xlabel=noun,
        ylabel="device",
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
