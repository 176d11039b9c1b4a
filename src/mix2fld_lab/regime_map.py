"""The regime map: who was measured best, by uplink bits and by how much devices differ."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mix2fld.advice.measured import MeasuredPoint, MeasuredSetting
from mix2fld.advice.ranking import Case, nearest
from mix2fld.report.protocol_view import title_of
from mix2fld.report.style import save_figure, style_of

PER_ROUND = (0, 20, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Uplink bits of a device in a round, at most."""


def winner(setting: MeasuredSetting, bits_per_round: float) -> MeasuredPoint:
    """Whose devices were most accurate with at most so many bits in a mean round."""
    able = [point for point in setting.points if point.bits <= bits_per_round * setting.rounds]
    return max(able, key=lambda point: float(np.mean(point.devices)))


def draw_regime_map(measured: Mapping[str, MeasuredSetting], case: Case | None, path: Path) -> None:
    """A row for each measured setting, the most different devices on top; the case is marked."""
    order = {"labels": 0, "sources": 1}
    rows = sorted(measured.values(), key=lambda one: (order[one.kind], one.skew))
    figure = Figure(figsize=(10.4, 1.4 + 0.42 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for y, setting in enumerate(rows):
        for x, width, point in _stretches([winner(setting, budget) for budget in PER_ROUND]):
            _draw_stretch(axes, (x, y), width, point)
    near = nearest(case, measured)[0] if case else None
    labels = [
        f"{'► ' if setting is near else ''}{setting.title} ({_differs(setting)})"
        for setting in rows
    ]
    axes.set_yticks([y + 0.5 for y in range(len(rows))], labels, fontsize=8)
    heads = ["0", *(f"≤ {budget:,}" for budget in PER_ROUND[1:])]
    axes.set_xticks([x + 0.5 for x in range(len(PER_ROUND))], heads, fontsize=8)
    axes.set(
        xlim=(0, len(PER_ROUND)), ylim=(0, len(rows)), xlabel="uplink bits of a device in a round"
    )
    axes.tick_params(length=0)
    figure.suptitle(
        "most accurate protocol at each uplink budget; mean accuracy of devices"
        + ("; ► nearest to your case" if case else ""),
        fontsize=10,
    )
    save_figure(figure, path, dpi=130)


def _differs(setting: MeasuredSetting) -> str:
    return "people differ" if setting.kind == "sources" else f"label skew {setting.skew:.2f}"


def _stretches(winners: Sequence[MeasuredPoint]) -> list[tuple[int, int, MeasuredPoint]]:
    """Where each winner begins, over how many budgets it wins, and who it is."""
    found, start = [], 0
    for point, same in groupby(winners):
        width = len(list(same))
        found.append((start, width, point))
        start += width
    return found


def _draw_stretch(axes: Axes, corner: tuple[int, int], width: int, point: MeasuredPoint) -> None:
    colour = style_of(point.protocol)["color"]
    box = Rectangle(corner, width, 1, facecolor=colour, alpha=0.28, edgecolor="white", lw=2)
    axes.add_patch(box)
    text = f"{title_of(point.protocol)}\n{100 * float(np.mean(point.devices)):.1f} %"
    middle = corner[0] + width / 2, corner[1] + 0.5
    axes.text(*middle, text, ha="center", va="center", fontsize=7.5)
