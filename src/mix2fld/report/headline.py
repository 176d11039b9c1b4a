"""What the runs come to in words, drawn from their records: the tiles and the sentence on top."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mix2fld.report.over_seeds import spread_words
from mix2fld.report.plans import plans_of
from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import Series, Setting
from mix2fld.report.units import in_a_row, in_bits, percent
from mix2fld.tasks.metric import ACCURACY, Metric, metric_of

Row = dict[str, Any]
"""A series as ``over_seeds`` sums it up."""


def never_delivered(row: Row) -> bool:
    """Whether uploads were sent and none was delivered: what devices reach, they reach alone."""
    return bool(row["attempted"]) and not row["delivered"]


def gain_of(row: Row, name: str = "score") -> float:
    """A score, turned so that more is better."""
    return metric_of(row).gain(row[name])


_BEST: dict[str, tuple[Callable[[Row], float | None], int]] = {
    "score": (lambda row: None if never_delivered(row) else gain_of(row), 1),
    "server": (lambda row: None if row["server"] is None else gain_of(row, "server"), 1),
    "bits_up": (lambda row: None if never_delivered(row) else row["bits_up"] or None, -1),
    "bits_down": (lambda row: row["bits_down"] or None, -1),
    "joules": (lambda row: row.get("joules"), -1),
    "delivered": (lambda row: row["delivered"] / row["attempted"] if row["attempted"] else None, 1),
}


def best_of(rows: Mapping[int, Row]) -> dict[str, list[int]]:
    """For each column the rows with its best value; none if more than half of them share it.

    ``close`` are the rows whose score is within the spread of the best one.
    """
    best: dict[str, list[int]] = {}
    for name, (value_of, sign) in _BEST.items():
        values = {n: value_of(row) for n, row in rows.items()}
        known = [sign * value for value in values.values() if value is not None]
        winners = [n for n, v in values.items() if v is not None and sign * v == max(known)]
        best[name] = winners if 0 < 2 * len(winners) <= len(rows) else []
    best["close"] = []
    if best["score"]:
        winner = rows[best["score"][0]]
        least = gain_of(winner) - winner["spread"]
        others = [n for n in rows if n not in best["score"] and not never_delivered(rows[n])]
        best["close"] = [n for n in others if gain_of(rows[n]) >= least]
    return best


def tiles(rows: Mapping[str, Row]) -> list[dict[str, str]]:
    """Key results of one setting, by protocol: a question, its answer, a remark."""
    if not rows:
        return []
    return [_best_reached(rows), _lowest_traffic(rows), _delivery(rows)]


def _best_reached(rows: Mapping[str, Row]) -> dict[str, str]:
    fair = [who for who, row in rows.items() if not never_delivered(row)] or list(rows)
    row = rows[max(fair, key=lambda who: gain_of(rows[who]))]
    equal = [who for who in fair if rows[who]["score"] == row["score"]]
    least = gain_of(row) - row["spread"]
    close = [who for who in fair if who not in equal and gain_of(rows[who]) >= least]
    metric = metric_of(row)
    remark = f"{metric.text(row['score'])} on average over devices, "
    remark += f"± {metric.number(row['spread'])} "
    remark += f"({spread_words([row])})"
    if close:
        remark += f"; within that spread: {', '.join(close)}"
    which = "Highest" if metric.better == "higher" else "Lowest"
    return _tile(f"{which} {metric.name}", ", ".join(equal), remark)


def _lowest_traffic(rows: Mapping[str, Row]) -> dict[str, str]:
    """Among protocols whose uploads arrive: a lost upload is no saving."""
    sending = [who for who, row in rows.items() if row["delivered"]]
    if not sending:
        why = (
            "no upload was delivered"
            if any(r["bits_up"] for r in rows.values())
            else ("no protocol uploads anything")
        )
        return _tile("Lowest uplink traffic", "None", why)
    first = min(sending, key=lambda who: rows[who]["bits_up"])
    most = max(rows, key=lambda who: rows[who]["bits_up"])
    remark = f"{in_bits(rows[first]['bits_up'])} in total over all devices"
    if most != first:
        times = rows[most]["bits_up"] / rows[first]["bits_up"]
        remark += f"; {most} uses {times:.3g} times as much"
    return _tile("Lowest uplink traffic", first, remark)


def _delivery(rows: Mapping[str, Row]) -> dict[str, str]:
    """Of each protocol by itself: shares of payloads that differ in size are not pooled."""
    shares = {
        who: row["delivered"] / row["attempted"] for who, row in rows.items() if row["attempted"]
    }
    if not shares:
        return _tile("Upload delivery", "No uploads", "no protocol uploads anything")
    by_share: dict[str, list[str]] = {}
    for who, share in sorted(shares.items(), key=lambda item: item[1]):
        by_share.setdefault(percent(share), []).append(who)
    if len(by_share) == 1:
        (share,) = by_share
        return _tile("Upload delivery", share, f"of every protocol: {', '.join(shares)}")
    said = [f"{share} of {', '.join(who)}" for share, who in by_share.items()]
    return _tile(
        "Upload delivery",
        f"{min(by_share, key=_as_number)} to {max(by_share, key=_as_number)}",
        "; ".join(said),
    )


def _as_number(share: str) -> float:
    return float(share.removesuffix(" %"))


def _tile(question: str, answer: str, remark: str) -> dict[str, str]:
    return {"question": question, "answer": answer, "remark": remark}


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
    shown = metric.difference(abs(difference))
    return shown if metric.is_share else f"{shown} of {metric.name}"


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
    if one.never_delivered:
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
    lone += [n for n in order if series[n].never_delivered]
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
        better = metric_of(row).comparative
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
        here = [n for n in here if not series[n].never_delivered] or here
        if len(here) > 1:
            best = max(here, key=lambda n: gain_of(rows[n]))
            winners.setdefault(title_of(series[best].protocol), []).append(setting.label)
    if not winners:
        best = max(ranked, key=lambda n: gain_of(rows[n]))
        reached, metric = _reached(rows[best]), metric_of(rows[best])
        return f"{series[best].label} is {metric.superlative}, with {reached}."
    if len(winners) == 1:
        (who,) = winners
        own = [rows[n] for n in ranked if title_of(series[n].protocol) == who]
        own.sort(key=lambda row: float(row["score"]))
        low, high = _reached(own[0]), _reached(own[-1])
        span = low if low == high else f"{low} to {high}"
        return f"{who} is {metric_of(own[0]).superlative} in every setting, with {span}."
    said = sorted(winners.items(), key=lambda item: -len(item[1]))
    first = metric_of(rows[0]).superlative.removeprefix("the ")
    return (
        f"{first[:1].upper()}{first[1:]}: "
        + "; ".join(f"{who} at {in_a_row(at)}" for who, at in said)
        + "."
    )


def _reached(row: Row) -> str:
    return metric_of(row).text(row["score"])
