"""What ``mix2fld advise`` prints: its table, where gains come from, who is excluded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from mix2fld.advice.measured import MeasuredPoint, MeasuredSetting
    from mix2fld.advice.ranking import Case, Option
    from mix2fld.advice.scarcity import Scarce

MORE_SETTINGS = 2
"""Settings that are named beside the nearest one, if they are close too."""


def options_table(options: "Sequence[Option]", scarce: "Scarce") -> "Table":
    """What each option costs and gains, in the order of the ranking."""
    from rich.table import Table

    from mix2fld.advice.scarcity import WORDS
    from mix2fld.report.protocol_view import title_of
    from mix2fld.report.tables import PLAIN
    from mix2fld.report.units import in_joules, in_time, percent

    measured = any(option.over_alone for option in options)
    least = f"the least {WORDS[scarce.resource]} first"
    caption = f"{least}; per round and device; nothing was measured of them"
    if measured:
        caption = (
            f"within a point of accuracy, {least}; per round and device; alone: nothing uploaded; "
            "ideal FL: every upload delivered; gains in points of accuracy ± 95 % interval, as "
            "measured"
        )
    title = "Protocols for this link, the most promising first"
    table = Table(title=title, caption=caption, **PLAIN)
    table.add_column("protocol", no_wrap=True)
    for heading in (
        "kbit\nup",
        "kbit\ndown",
        "deliv-\nered",
        "on\nair",
        "radio",
        "rounds/\nbattery",
        *(("over\nalone", "over\nideal FL") if measured else ()),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for option in options:
        gains = (option.over_alone, option.over_fl) if measured else ()
        table.add_row(
            title_of(option.point.protocol),
            _kilobits(option.bits_per_round),
            _kilobits(option.bits_down),
            percent(option.chance) if option.bits_per_round else "-",
            in_time(option.seconds),
            in_joules(option.joules),
            "-" if option.battery_rounds is None else f"{option.battery_rounds:,.0f}",
            *("-" if gain is None else _gain(gain) for gain in gains),
            style="" if option.suits else "red",
        )
    return table


def _gain(spread: Any) -> str:
    mean = f"{round(spread.mean, 1) + 0.0:+.1f}"  # no negative zero
    if spread.low == float("-inf"):
        return mean
    return f"{mean} ± {(spread.high - spread.low) / 2:.1f}"


def _kilobits(bits: float) -> str:
    return f"{bits / 1e3:,.0f}" if bits >= 1e5 else f"{bits / 1e3:.3g}"


def _described(setting: "MeasuredSetting") -> str:
    seeds = "one seed" if setting.seeds == 1 else f"{setting.seeds} seeds"
    return (
        f"{setting.title} ({setting.devices} devices, {setting.weights:,} weights, "
        f"{setting.rounds} rounds, {seeds})"
    )


def remarks(
    case: "Case",
    near: "MeasuredSetting",
    others: "Sequence[MeasuredSetting]",
    options: "Sequence[Option]",
    measured: "Mapping[str, MeasuredSetting]",
) -> list[str]:
    """Which measured setting the gains come from, and what does not suit."""
    if not near.has_gains:
        task = case.sizes.task
        return [
            f"your case: {task.name}, {case.sizes.dims.num_weights:,} weights",
            f"nothing was measured for {task.name}: ranked by costs on this link alone; --pilot "
            f"compares {task.metric.name} on your data",
            *_exclusions(options),
        ]
    skew = f"label skew {case.skew:.2f}" if case.kind == "labels" else "devices are sources"
    lines = [f"your case: {skew}, {case.sizes.dims.num_weights:,} weights"]
    lines.append(f"nearest measured setting: {_described(near)}")
    close = [setting for setting in others if not case.outside(setting)]
    if close:
        lines.append(f"also close: {'; '.join(map(_described, close[:MORE_SETTINGS]))}")
    outside = case.outside(near)
    if outside:
        lines.append(
            f"outside what was measured: {'; '.join(outside)}; a pilot gives a better estimate"
        )
    return [*lines, *_with_features(case, measured), *_exclusions(options)]


def left_out(points: "Sequence[MeasuredPoint]", options: "Sequence[Option]") -> list[str]:
    """Who was named, and cannot run with these samples and this model."""
    from mix2fld.report.protocol_view import title_of

    possible = {option.point.protocol for option in options}
    names = dict.fromkeys(one.protocol for one in points if one.protocol not in possible)
    titles = ", ".join(title_of(name) for name in names)
    return [f"not possible with these samples and this model: {titles}"] if names else []


def _with_features(case: "Case", measured: "Mapping[str, MeasuredSetting]") -> list[str]:
    """What a pre-trained network is worth where the case is nearest to a setting with one."""
    from mix2fld.advice.ranking import IDEAL_FL, cheapest_like_fl
    from mix2fld.report.units import in_bits, percent

    frozen = [one for one in measured.values() if one.features != "none" and one.kind == case.kind]
    near = min(frozen, key=lambda one: abs(one.skew - case.skew), default=None)
    best = None if near is None else cheapest_like_fl(near)
    if near is None or best is None:
        return []
    point = near.point(IDEAL_FL)
    assert point is not None
    shown = [percent(sum(one.devices) / len(one.devices)) for one in (best, point, near.alone)]
    return [
        f"with a pre-trained network (--features {near.features}), {best.title} needed "
        f"{in_bits(best.bits)} of a device in all for {shown[0]}; FL {in_bits(point.bits)} for "
        f"{shown[1]}, devices alone {shown[2]} ({near.title})"
    ]


def _exclusions(options: "Sequence[Option]") -> list[str]:
    """Who does not suit; those with the same reasons in one line."""
    from mix2fld.report.protocol_view import title_of

    by_reason: dict[str, list[str]] = {}
    for option in options:
        if not option.suits:
            who = title_of(option.point.protocol)
            by_reason.setdefault("; ".join(option.reasons), []).append(who)
    lines = [f"not suitable: {', '.join(who)}: {why}" for why, who in by_reason.items()]
    if lines and not any(option.suits and option.bits_per_round for option in options):
        lines.append("no protocol that uploads is suitable: devices train alone")
    return lines
