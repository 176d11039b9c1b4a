"""Small pieces of Markdown that the ledger is put together from."""

from collections.abc import Iterable, Sequence

import numpy as np

from mix2fld.reproduction.records import CellRecord


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a row of headings."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join(lines)


def numbers(values: Iterable[float]) -> list[str]:
    """Three places, as in Tables II and III."""
    return [f"{value:.3f}" for value in values]


def signed(value: float) -> str:
    """Two places, always with the sign."""
    return f"{value:+.2f}"


def server_accuracy(cell: CellRecord) -> str:
    """Mean accuracy of the server's model in %, over the seeds that have one."""
    found = [r["summary"]["accuracy"]["global"] for r in cell.runs]
    known = [value for value in found if value is not None]
    return f"{100 * np.mean(known):.2f}" if known else "–"
