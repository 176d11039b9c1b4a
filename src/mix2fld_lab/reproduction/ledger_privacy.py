"""The ledger's Tables II and III: sample privacy by every definition that could be meant."""

from collections.abc import Sequence
from typing import Any

from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.number_text import three_places
from mix2fld_lab.reproduction.privacy_records import closest_pair_row, off_by, row

TABLES = (
    ("Table II: Mixup", "mixup", paper.TABLE_2),
    ("Table III: Mix2up", "mix2up", paper.TABLE_3),
)
STATISTICS = ("min", "q05", "median", "mean", "q95")
POOLS = (500, 1000, 2000)


def privacy_tables(evidence: Evidence) -> list[tuple[str, list[str], list[Sequence[str]]]]:
    """Title, columns and rows of both tables, beside the paper's numbers."""
    found = []
    for title, kind, papers_table in TABLES:
        rows: list[Sequence[str]] = []
        for name, papers in papers_table.items():
            rows.append((f"**{name}**", "the paper's", *three_places(papers), ""))
            if name in evidence.privacy:
                rows += _measured(evidence.privacy[name], kind, papers)
            else:
                rows.append(("", "not available", *("–" for _ in papers), ""))
        columns = [*(f"λ = {ratio:g}" for ratio in paper.INFERRED_COLUMNS), "off by"]
        found.append((title, columns, rows))
    return found


def _measured(
    runs: Sequence[dict[str, Any]], kind: str, papers: Sequence[float]
) -> list[Sequence[str]]:
    """A row for each definition, that closest to the paper's row in bold."""
    columns, printed = paper.INFERRED_COLUMNS, paper.TABLE_COLUMNS
    readings = {statistic: row(runs, kind, statistic, columns) for statistic in STATISTICS}
    if kind == "mixup":
        for pool in POOLS:
            readings[f"closest pair of {pool:,}"] = closest_pair_row(runs, pool, columns)
    off = {reading: off_by(values, papers) for reading, values in readings.items()}
    best = min(off, key=off.__getitem__)
    rows: list[Sequence[str]] = [
        ("", name, *three_places(values), f"**{off[name]:.2f}**" if name == best else f"{off[name]:.2f}")
        for name, values in readings.items()
    ]  # fmt: skip
    first, last = row(runs, kind, "min", (printed[0], printed[-1]))
    where = f"min at λ = {printed[0]:g} and {printed[-1]:g}"
    rows.append(("", where, f"{first:.3f}", *("" for _ in papers[2:]), f"{last:.3f}", ""))
    return rows
