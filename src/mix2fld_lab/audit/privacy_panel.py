"""The privacy panel of the report: plain HTML and SVG, no script."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from mix2fld.report.dataset import UnavailableDataError
from mix2fld.report.units import in_percent
from mix2fld.runs.reader import FoundRuns
from mix2fld_lab.audit.seed_attack import attack_seeds
from mix2fld_lab.gallery import TOP

MOST_ATTACKED = 3
WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, ABOVE = 520, 300, 64, 44, 40, 14
HEADS = {
    "upload": "what the server receives",
    "minor": "minor part, recovered",
    "true minor": "minor part, true",
    "dominant": "dominant part, recovered",
    "true dominant": "dominant part, true",
}
STYLE = """<style>
#privacy table.seen td, #privacy table.seen th { text-align: center; white-space: normal; }
#privacy table.seen img { width: 84px; height: 84px; image-rendering: pixelated; }
#privacy .seen svg { width: 120px; height: 60px; }
#privacy .leaks { display: flex; flex-wrap: wrap; gap: 18px; }
#privacy .leaks svg { flex: 1 1 360px; max-width: 560px; min-width: 0; }
#privacy svg text { fill: var(--ink); font-size: 12px; }
#privacy svg line { stroke: var(--line); }
#privacy svg circle { fill: var(--accent); stroke: var(--accent); stroke-width: 1.5; }
#privacy svg circle.bound { fill: var(--card); }
#privacy svg text.on { fill: var(--accent-ink); font-size: 10px; text-anchor: middle; }
#privacy svg text.on.bound { fill: var(--ink); }
#privacy table.members :is(td, th):nth-child(2) { text-align: left; white-space: normal; }
@media (max-width: 600px) {
  #privacy svg text { font-size: 17px; }
  #privacy svg text.on { font-size: 12px; }
}
</style>"""
CLOSE = 16
"""Dots whose centres are nearer than this would hide each other's numbers."""
NO_AUDIT = (
    "How often members are found in the uploads of each protocol: not measured for this report. "
    "<code>mix2fld privacy audit --of-run RUN</code> measures it, and "
    "<code>mix2fld report --audits RECORD</code> shows it here."
)


class LeakPoint(NamedTuple):
    """One protocol of an audit: what leaks, what it reaches, and what it uploads."""

    dataset: str
    title: str
    words: str
    share: float
    """Of a device's samples found at 0.1 % false positives; the most that a guarantee allows."""
    bound: bool
    """Whether the share is what a guarantee allows, not what an attack found."""
    accuracy: float | None
    uplink_bits: float | None


def privacy_panel(found: FoundRuns, points: Sequence[LeakPoint] = ()) -> str:
    """The section of the page; empty if no run uploads mixes and there is no audit."""
    attacked = _attacked(found)
    if not attacked and not points:
        return ""
    leaks = _leaks(points) if points else f'<p class="muted">{NO_AUDIT}</p>'
    return (
        f'<section id="privacy" aria-labelledby="privacy-h">{STYLE}'
        '<h2 id="privacy-h">What the server can find out</h2>'
        + "".join(_taken_apart(one) for one in attacked)
        + leaks
        + "</section>"
    )


def _attacked(found: FoundRuns) -> list[dict[str, Any]]:
    """One run for each mixing ratio."""
    attacked: dict[float, dict[str, Any]] = {}
    for run in found.runs:
        ratio = run.config.seeding.ratios[0]
        if ratio in attacked or len(attacked) == MOST_ATTACKED or not run.rounds:
            continue
        try:
            one = attack_seeds(run)
        except UnavailableDataError:
            continue
        if one is not None:
            attacked[ratio] = one
    return list(attacked.values())


def _taken_apart(one: dict[str, Any]) -> str:
    """Mixes as they arrive beside what an attack makes of them."""
    minor, dominant = (one["identified"][part] for part in ("minor", "dominant"))
    head = "".join(f'<th scope="col">{escape(words)}</th>' for words in HEADS.values())
    body = "".join(_row(card) for card in one["cards"])
    return (
        f"<h3>{escape(one['protocol'])}, λ = {one['ratio']:g}: separating the mixes</h3>"
        '<p class="muted">Estimated from the uploads alone, without a trained network or other '
        "data: values must stay within their range, mixes that share a sample reveal it, and "
        "the mean of each label is taken from the mixes themselves. Nearest of "
        f"{one['candidates']:,} samples is the true one for {in_percent(minor)} % of the minor and "
        f"{in_percent(dominant)} % of the dominant parts of {one['mixes']:,} mixes. A network "
        "trained on public samples of the same kind finds more (docs/privacy.md).</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Separated mixes">'
        f'<table class="seen"><thead><tr><th scope="col">device and labels</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(card: dict[str, Any]) -> str:
    minor, dominant = card["labels"]
    cells = "".join(
        f"<td>{_drawing(card['pictures'][name], words)}</td>" for name, words in HEADS.items()
    )
    said = f"device {card['device']}<small>{escape(minor)} in {escape(dominant)}</small>"
    return f'<tr><th scope="row">{said}</th>{cells}</tr>'


def _drawing(picture: dict[str, Any], words: str) -> str:
    if "image" in picture:
        return f'<img src="{picture["image"]}" alt="{escape(words)}">'
    lines = "".join(
        '<polyline fill="none" stroke="var(--accent)" points="'
        + " ".join(f"{100 * n / max(1, len(line) - 1):.1f},{50 - 50 * y / TOP:.1f}"
                   for n, y in enumerate(line)) + '"/>'
        for line in picture["lines"]
    )  # fmt: skip
    return f'<svg viewBox="0 0 100 50" role="img" aria-label="{escape(words)}">{lines}</svg>'


def _leaks(points: Sequence[LeakPoint]) -> str:
    """All protocols on one axis of membership, against accuracy and bits; and as a table."""
    rows = "".join(
        f'<tr><th scope="row">{number}. {escape(one.title)}<small>{escape(one.dataset)}</small>'
        f"</th><td>{escape(one.words)}</td>"
        f"<td>{'–' if one.accuracy is None else in_percent(one.accuracy)}</td>"
        f"<td>{'–' if one.uplink_bits is None else f'{one.uplink_bits / 1000:,.1f}'}</td></tr>"
        for number, one in enumerate(points, 1)
    )
    heads = ("protocol", "found at 0.1 % false positives", "accuracy, %", "uplink, kbit")
    head = "".join(f'<th scope="col">{escape(words)}</th>' for words in heads)
    accuracies = [None if one.accuracy is None else 100 * one.accuracy for one in points]
    kilobits = [one.uplink_bits / 1000 if one.uplink_bits else None for one in points]
    return (
        "<h3>Members found in uploads</h3>"
        '<p class="muted">Share of a device’s samples that an honest-but-curious server finds at '
        "0.1 % false positives, against accuracy and uplink traffic. Hollow: no attack, but the "
        "most that a privacy budget allows an attacker who knows all samples but one. Numbers are "
        "those of the "
        "table; what uploads nothing has no place in the second chart.</p>"
        f'<div class="leaks">{_chart(points, accuracies, "mean device accuracy, %", _linear)}'
        f"{_chart(points, kilobits, 'uplink of a device, kbit', _logarithmic)}</div>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Members found, as a table">'
        f'<table class="members"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


class Axis(NamedTuple):
    """Where values are along an axis, from 0 to 1, and which are named."""

    place: Callable[[float], float]
    ticks: list[float]


def _linear(values: Sequence[float]) -> Axis:
    """Whole tens, or twenties if there are many, from below the smallest to above the largest."""
    step = 10 if max(values) - min(values) < 50 else 20
    low, high = step * math.floor(min(values) / step), step * (math.floor(max(values) / step) + 1)
    return Axis(
        lambda value: (value - low) / (high - low),
        [float(tick) for tick in range(low, high + 1, step)],
    )


def _logarithmic(values: Sequence[float]) -> Axis:
    """From the power of ten below the smallest value to that above the largest."""
    low, high = (math.floor(math.log10(end)) for end in (min(values), max(values)))
    return Axis(
        lambda value: (math.log10(value) - low) / (high + 1 - low),
        [10.0**power for power in range(low, high + 2)],
    )


def _from_zero(values: Sequence[float]) -> Axis:
    """From nothing to one, two or four times a power of ten above the largest value."""
    most = max(*values, 0.1)
    power = 10.0 ** math.floor(math.log10(most))
    high = next(power * factor for factor in (1, 2, 4, 10) if power * factor >= most)
    return Axis(lambda value: value / high, [high * n / 4 for n in range(5)])


def _chart(
    points: Sequence[LeakPoint],
    heights: Sequence[float | None],
    label: str,
    upwards: Callable[[Sequence[float]], Axis],
) -> str:
    """Membership to the right, another figure upwards; one numbered dot for each protocol."""
    numbered = enumerate(zip(points, heights, strict=True), 1)
    shown = [(number, one, height) for number, (one, height) in numbered if height is not None]
    if not shown:
        return ""
    across = _from_zero([100 * one.share for _, one, _ in shown])
    up = upwards([height for *_, height in shown])
    placed = [
        Dot(number, one, *_position(across.place(100 * one.share), up.place(height)))
        for number, one, height in shown
    ]
    dots = "".join(map(_circle, placed)) + "".join(map(_numbers, _together(placed)))
    words = f"{label}, against members found, %"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}">'
        f'<text x="4" y="{HEIGHT - 6}">members found, % · upwards: {escape(label)}</text>'
        f"{_grid(across, up)}{dots}</svg>"
    )


def _position(right: float, up: float) -> tuple[float, float]:
    """Coordinates of what is so far along both axes."""
    x = LEFT + (WIDTH - LEFT - RIGHT) * right
    return x, ABOVE + (HEIGHT - BOTTOM - ABOVE) * (1 - up)


def _grid(across: Axis, up: Axis) -> str:
    parts = []
    for tick in up.ticks:
        _, y = _position(0, up.place(tick))
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        )
    for tick in across.ticks:
        x, _ = _position(across.place(tick), 0)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{_tick(tick)}</text>"
        )
    return "".join(parts)


class Dot(NamedTuple):
    """A protocol's place in a chart."""

    number: int
    of: LeakPoint
    x: float
    y: float


def _circle(dot: Dot) -> str:
    return (
        f'<circle class="{_kind(dot)}" cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="8"><title>'
        f"{escape(dot.of.title)}: {escape(dot.of.words)}</title></circle>"
    )


def _together(dots: Sequence[Dot]) -> list[list[Dot]]:
    """Dots that would hide each other's numbers."""
    groups: list[list[Dot]] = []
    for dot in dots:
        near = [g for g in groups if any(math.dist(dot[2:], one[2:]) < CLOSE for one in g)]
        for group in near:
            groups.remove(group)
        groups.append([*(one for group in near for one in group), dot])
    return groups


def _numbers(group: Sequence[Dot]) -> str:
    """The number in a dot; those of several that overlap are listed beside them."""
    if len(group) == 1:
        (dot,) = group
        place = f'x="{dot.x:.1f}" y="{dot.y + 3.5:.1f}"'
        return f'<text class="on {_kind(dot)}" {place}>{dot.number}</text>'
    right, y = max(dot.x for dot in group) + 12, sum(dot.y for dot in group) / len(group) + 4
    listed = ", ".join(str(dot.number) for dot in sorted(group))
    return f'<text x="{right:.1f}" y="{y:.1f}">{listed}</text>'


def _kind(dot: Dot) -> str:
    return "bound" if dot.of.bound else "found"


def _tick(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
