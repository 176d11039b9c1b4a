"""The results at a glance: which series is best at what."""

from collections.abc import Callable, Mapping
from typing import Any

from mix2fld.report.over_seeds import spread_words
from mix2fld.report.units import in_bits, percent
from mix2fld.tasks.metric import metric_of

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
