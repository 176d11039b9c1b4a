"""What the runs come to in one sentence, drawn from their records."""

from collections.abc import Sequence
from typing import Any

from mix2fld.report.findings import never_delivered
from mix2fld.report.headline import gain_of
from mix2fld.report.plans import plans_of
from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import Series, Setting
from mix2fld.report.units import in_a_row, in_bits, percent
from mix2fld.tasks.metric import ACCURACY, Metric, metric_of

Row = dict[str, Any]
ALONE = "isolated"
OFTEN_LOST = 0.5
"""Share of delivered uploads below which a protocol is said to lose them."""


def conclusion(settings: Sequence[Setting], series: Sequence[Series], rows: Sequence[Row]) -> str:
    """One or two statements: whose uploads are lost, and what the best protocol gains."""
    ranked = [n for n, one in enumerate(series) if one.ranked]
    if not ranked:
        return "No run is finished, so nothing is ranked."
    if len(settings) > 1:
        return _over_settings(settings, series, rows, ranked)
    statements = [*_losses([series[n] for n in ranked]), _gain(series, rows, ranked)]
    sentence = "; ".join(statement for statement in statements if statement)
    return sentence[:1].upper() + sentence[1:] + "."


def points(difference: float, metric: Metric = ACCURACY) -> str:
    """A difference of scores."""
    if metric.unit == "%":
        return f"{metric.number(abs(difference))} points"
    return f"{metric.text(abs(difference))} of {metric.name}"


def _most(metric: Metric, comparative: str = "") -> str:
    """Who is best, or with what is compared: in words of the metric."""
    if metric == ACCURACY:
        return comparative or "the most accurate"
    return f"the best in {metric.name}" if not comparative else f"better in {metric.name}"


def _losses(series: Sequence[Series]) -> list[str]:
    """Protocols whose uploads mostly do not arrive, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in series:
        attempted, arrived = one.uploads
        if attempted and arrived / attempted < OFTEN_LOST:
            by_reason.setdefault(_reason(one), []).append(title_of(one.protocol))
    return [
        reason.format(who=in_a_row(who), need="needs" if len(who) == 1 else "need",
                      its="its" if len(who) == 1 else "their")
        for reason, who in by_reason.items()
    ]  # fmt: skip


def _reason(one: Series) -> str:
    if never_delivered(one):
        share = "none of {its} uploads arrive"
    else:
        attempted, arrived = one.uploads
        share = f"{percent(arrived / attempted)} of {{its}} uploads arrive"
    uploads = [p.budget for p in plans_of(one.runs[0]) if p.budget.direction == "uplink"]
    largest = max(uploads, key=lambda budget: budget.bits, default=None)
    if largest is None or largest.slots_needed is None:
        return f"{{who}}: {share}"
    if not largest.fits:
        return f"{{who}} {{need}} more than the {largest.max_slots:,} slots allowed: {share}"
    return f"{{who}} {{need}} {largest.slots_needed:,} of {largest.max_slots:,} slots: {share}"


def _gain(series: Sequence[Series], rows: Sequence[Row], ranked: Sequence[int]) -> str:
    """What the most accurate one gains over devices alone, or over the runner-up.

    Devices whose uploads never arrive learn alone, too.
    """
    order = sorted(ranked, key=lambda n: -gain_of(rows[n]))
    lone = [n for n in order if series[n].protocol == ALONE]
    lone += [n for n in order if never_delivered(series[n])]
    alone = lone[0] if lone else None
    order = [n for n in order if n not in lone] or order
    first = order[0]
    best, row = title_of(series[first].protocol), rows[first]
    reached = f"{best} reaches {_reached(row)}"
    if row["bits_up"]:
        reached += f" with {in_bits(row['bits_up'])} of uplink traffic"
    if len(ranked) == 1:
        return reached
    if alone is not None and gain_of(rows[alone]) >= gain_of(row):
        lonely = _reached(rows[alone])
        better = _most(metric_of(row), "more accurate")
        return f"no protocol is {better} than devices that learn alone ({lonely})"
    other = order[1] if alone is None else alone
    gain = gain_of(row) - gain_of(rows[other])
    over = title_of(series[other].protocol) if alone is None else "devices that learn alone"
    within = " (less than the spread)" if 0 < gain < row["spread"] else ""
    if gain == 0:
        return f"{reached}, as much as {over}"
    return f"{reached} and gains {points(gain, metric_of(row))} over {over}{within}"


def _over_settings(
    settings: Sequence[Setting], series: Sequence[Series], rows: Sequence[Row],
    ranked: Sequence[int],
) -> str:  # fmt: skip
    """Which protocol is most accurate in which settings."""
    winners: dict[str, list[str]] = {}
    for number, setting in enumerate(settings):
        here = [n for n in ranked if number in series[n].settings]
        here = [n for n in here if not never_delivered(series[n])] or here
        if len(here) > 1:
            best = max(here, key=lambda n: gain_of(rows[n]))
            winners.setdefault(title_of(series[best].protocol), []).append(setting.label)
    if not winners:
        best = max(ranked, key=lambda n: gain_of(rows[n]))
        reached, metric = _reached(rows[best]), metric_of(rows[best])
        return f"{series[best].label} is {_most(metric)}, with {reached}."
    if len(winners) == 1:
        (who,) = winners
        own = [rows[n] for n in ranked if title_of(series[n].protocol) == who]
        own.sort(key=lambda row: float(row["score"]))
        low, high = _reached(own[0]), _reached(own[-1])
        span = low if low == high else f"{low} to {high}"
        return f"{who} is {_most(metric_of(own[0]))} in every setting, with {span}."
    said = sorted(winners.items(), key=lambda item: -len(item[1]))
    first = _most(metric_of(rows[0])).removeprefix("the ")
    return (
        f"{first[:1].upper()}{first[1:]}: "
        + "; ".join(f"{who} at {in_a_row(at)}" for who, at in said)
        + "."
    )


def _reached(row: Row) -> str:
    return metric_of(row).text(row["score"])
