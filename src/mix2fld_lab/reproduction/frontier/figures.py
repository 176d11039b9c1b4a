"""Accuracy against uplink bits, drawn from records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from mix2fld.base.spread import Spread
from mix2fld.protocols.table import get_protocol
from mix2fld.report.style import style_of
from mix2fld_lab.reproduction.frontier.contenders import FROM_EDGES
from mix2fld_lab.reproduction.frontier.points import FrontierPoint, frontier

ZERO = 20.0
"""Where no bits at all stand on the logarithmic axis."""
DPI = 130
MARKERS = {
    "topk": "s",
    "sign": "s",
    "fl4": "s",
    "cfd": "v",
    "murmur-mix": "D",
    "murmur-stat": "P",
    "own-statistics": "^",
    "statistics": "^",
}
"""For protocols that share a colour with a relative."""


def draw_frontier(title: str, points: Sequence[FrontierPoint], path: Path) -> None:
    """Devices and the server's model, each contender a mark with its spread over seeds."""
    figure, both = plt.subplots(
        1, 2, figsize=(10.4, 4.6), layout="constrained", sharex=True, sharey=True
    )
    _draw_marks(both[0], points, [point.devices for point in points])
    _draw_marks(both[1], points, [point.server for point in points])
    line = frontier(points)
    steps_x = [*(_place(point.bits) for point in line), _place(points[-1].bits)]
    steps_y = [*(point.devices.mean for point in line), line[-1].devices.mean]
    both[0].step(steps_x, steps_y, where="post", color="#555555", linewidth=1, zorder=1)
    both[0].set(title="mean of all devices; line: the frontier", ylabel="test accuracy, %")
    both[1].set(title="the server's model")
    low = min(point.devices.mean for point in points) - 3
    both[0].set_ylim(bottom=low)
    _mark_below(both[1], points, low)
    for axes in both:
        _log_axis(axes, points)
    named = dict.fromkeys(point.contender.protocol for point in points)
    handles = [
        Line2D([], [], linestyle="none", label=get_protocol(name).title, **_mark(name))
        for name in named
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=7, fontsize=8)
    legend = "± sample std over seeds; hollow: as published; black rim: from edges"
    figure.suptitle(f"{title}; {legend}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
    plt.close(figure)


def _draw_marks(
    axes: Axes, points: Sequence[FrontierPoint], values: Sequence[Spread | None]
) -> None:
    for point, value in zip(points, values, strict=True):
        if value is None:
            continue
        mark = _mark(point.contender.protocol)
        if point.contender.family is None:
            mark["mfc"] = "white"
        if point.contender.key.endswith(FROM_EDGES):
            mark |= {"mec": "black", "mew": 1.2}
        axes.errorbar(_place(point.bits), value.mean, value.std, capsize=2, **mark)


def _mark_below(axes: Axes, points: Sequence[FrontierPoint], low: float) -> None:
    """An arrow and the numbers, for models that are less accurate than all devices."""
    below: dict[float, list[FrontierPoint]] = {}
    for point in points:
        if point.server is not None and point.server.mean < low:
            below.setdefault(_place(point.bits), []).append(point)
    for place, each in below.items():
        numbers = ", ".join(f"{point.server.mean:.1f}" for point in each if point.server)
        style = {"color": style_of(each[0].contender.protocol)["color"], "fontsize": 8}
        at, offset = (place, low), (0, 4)
        axes.annotate(f"▼ {numbers}", at, offset, textcoords="offset points", ha="center", **style)


def _mark(protocol: str) -> dict[str, Any]:
    colour = style_of(protocol)["color"]
    return {"color": colour, "mfc": colour, "marker": MARKERS.get(protocol, "o"), "ms": 6}


def _log_axis(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    axes.set_xscale("log")
    top = _place(points[-1].bits)
    powers = [power for power in range(2, 9) if 10**power <= 2 * top]
    texts = {2: "100", 3: "1 k", 4: "10 k", 5: "100 k", 6: "1 M", 7: "10 M", 8: "100 M"}
    axes.set_xticks([ZERO, *(10**power for power in powers)], ["0", *(texts[p] for p in powers)])
    axes.minorticks_off()
    axes.set_xlabel("uplink bits of a device, all rounds")
    axes.grid(alpha=0.3)


def _place(bits: float) -> float:
    return max(bits, ZERO)
