"""The results at a glance: which series is best at what."""

from collections.abc import Callable, Sequence
from typing import Any

from mix2fld.report.over_seeds import spread_words
from mix2fld.report.units import in_bits, in_percent, in_seconds, percent

Row = dict[str, Any]
"""A series as ``over_seeds`` sums it up."""

_BEST: dict[str, tuple[Callable[[Row], float | None], int]] = {
    "accuracy": (lambda row: row["accuracy"], 1),
    "server": (lambda row: row["server"], 1),
    "converged_seconds": (lambda row: row["converged_seconds"], -1),
    "bits_up": (lambda row: row["bits_up"] or None, -1),
    "bits_down": (lambda row: row["bits_down"] or None, -1),
    "joules": (lambda row: row.get("joules"), -1),
    "delivered": (lambda row: row["delivered"] / row["attempted"] if row["attempted"] else None, 1),
}


def best_of(rows: Sequence[Row]) -> dict[str, list[int]]:
    """For each column the rows with its best value; none if more than half of them share it.

    ``close`` are the rows whose accuracy is within the spread of the best one.
    """
    best: dict[str, list[int]] = {}
    for name, (value_of, sign) in _BEST.items():
        values = [value_of(row) for row in rows]
        known = [sign * value for value in values if value is not None]
        winners = [n for n, v in enumerate(values) if v is not None and sign * v == max(known)]
        best[name] = winners if 0 < 2 * len(winners) <= len(rows) else []
    best["close"] = []
    if best["accuracy"]:
        winner = rows[best["accuracy"][0]]
        least = winner["accuracy"] - winner["spread"]
        best["close"] = [
            n
            for n, row in enumerate(rows)
            if n not in best["accuracy"] and row["accuracy"] >= least
        ]
    return best


def tiles(labels: Sequence[str], rows: Sequence[Row]) -> list[dict[str, str]]:
    """Four key results for the top of a page: a question, its answer, a remark."""
    if not rows:
        return []
    return [
        _most_accurate(labels, rows),
        _fastest(labels, rows),
        _lowest_traffic(labels, rows),
        _delivery(labels, rows),
    ]


def _most_accurate(labels: Sequence[str], rows: Sequence[Row]) -> dict[str, str]:
    first = max(range(len(rows)), key=lambda n: rows[n]["accuracy"])
    row = rows[first]
    close = [labels[n] for n in best_of(rows)["close"]]
    remark = f"{percent(row['accuracy'])} on average over devices, ± {in_percent(row['spread'])} "
    remark += f"({spread_words([row])})"
    if close:
        remark += f"; within that spread: {', '.join(close)}"
    return _tile("Most accurate devices", labels[first], remark)


def _fastest(labels: Sequence[str], rows: Sequence[Row]) -> dict[str, str]:
    timed = [n for n, row in enumerate(rows) if row["converged_seconds"] is not None]
    if not timed:
        remark = (
            f"the stopping rule did not fire in any run, within up to "
            f"{max(r['rounds'] for r in rows)} rounds"
        )
        return _tile("Fastest to converge", "None yet", remark)
    first = min(timed, key=lambda n: rows[n]["converged_seconds"])
    row = rows[first]
    remark = f"{in_seconds(row['converged_seconds'])} simulated, round {row['converged_round']:g}"
    if row["converged_runs"] < row["runs"]:
        remark += f"; {row['converged_runs']} of {row['runs']} seeds converged"
    return _tile("Fastest to converge", labels[first], remark)


def _lowest_traffic(labels: Sequence[str], rows: Sequence[Row]) -> dict[str, str]:
    sending = [n for n, row in enumerate(rows) if row["bits_up"]]
    if not sending:
        return _tile("Lowest uplink traffic", "None", "no protocol uploads anything")
    first = min(sending, key=lambda n: rows[n]["bits_up"])
    most = max(sending, key=lambda n: rows[n]["bits_up"])
    remark = f"{in_bits(rows[first]['bits_up'])} in total over all devices"
    if most != first:
        times = rows[most]["bits_up"] / rows[first]["bits_up"]
        remark += f"; {labels[most]} uses {times:.3g} times as much"
    return _tile("Lowest uplink traffic", labels[first], remark)


def _delivery(labels: Sequence[str], rows: Sequence[Row]) -> dict[str, str]:
    sending = [n for n, row in enumerate(rows) if row["attempted"]]
    delivered, attempted = (
        sum(rows[n][name] for n in sending) for name in ("delivered", "attempted")
    )
    if not attempted:
        return _tile("Upload delivery", "No uploads", "no protocol uploads anything")
    if delivered == attempted:
        return _tile("Upload delivery", percent(1), f"all {attempted:,} uploads")
    worst = min(sending, key=lambda n: rows[n]["delivered"] / rows[n]["attempted"])
    row = rows[worst]
    remark = f"lowest for {labels[worst]}: {row['delivered']:,} of {row['attempted']:,}"
    return _tile("Upload delivery", percent(delivered / attempted), remark)


def _tile(question: str, answer: str, remark: str) -> dict[str, str]:
    return {"question": question, "answer": answer, "remark": remark}
