"""What the runs come to in one sentence, drawn from their records."""

from collections.abc import Sequence
from typing import Any

from mix2fld.report.findings import never_delivered
from mix2fld.report.plans import plans_of
from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import Series, Setting
from mix2fld.report.units import in_a_row, in_bits, percent

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


def points(difference: float) -> str:
    """A difference of accuracies."""
    return f"{abs(100 * difference):.1f} points"


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
    order = sorted(ranked, key=lambda n: -rows[n]["accuracy"])
    lone = [n for n in order if series[n].protocol == ALONE]
    lone += [n for n in order if never_delivered(series[n])]
    alone = lone[0] if lone else None
    order = [n for n in order if n not in lone] or order
    first = order[0]
    best, row = title_of(series[first].protocol), rows[first]
    reached = f"{best} reaches {percent(row['accuracy'])}"
    if row["bits_up"]:
        reached += f" with {in_bits(row['bits_up'])} of uplink traffic"
    if len(ranked) == 1:
        return reached
    if alone is not None and rows[alone]["accuracy"] >= row["accuracy"]:
        lonely = percent(rows[alone]["accuracy"])
        return f"no protocol is more accurate than devices that learn alone ({lonely})"
    other = order[1] if alone is None else alone
    gain = row["accuracy"] - rows[other]["accuracy"]
    over = title_of(series[other].protocol) if alone is None else "devices that learn alone"
    within = " (less than the spread)" if 0 < gain < row["spread"] else ""
    if gain == 0:
        return f"{reached}, as much as {over}"
    return f"{reached} and gains {points(gain)} over {over}{within}"


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
            best = max(here, key=lambda n: rows[n]["accuracy"])
            winners.setdefault(title_of(series[best].protocol), []).append(setting.label)
    if not winners:
        best = max(ranked, key=lambda n: rows[n]["accuracy"])
        reached = percent(rows[best]["accuracy"])
        return f"{series[best].label} is the most accurate, with {reached}."
    if len(winners) == 1:
        (who,) = winners
        all_of_it = [rows[n]["accuracy"] for n in ranked if title_of(series[n].protocol) == who]
        low, high = percent(min(all_of_it)), percent(max(all_of_it))
        span = low if low == high else f"{low} to {high}"
        return f"{who} is the most accurate in every setting, with {span}."
    said = sorted(winners.items(), key=lambda item: -len(item[1]))
    return "Most accurate: " + "; ".join(f"{who} at {in_a_row(at)}" for who, at in said) + "."
