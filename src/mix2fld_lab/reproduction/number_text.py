"""Numbers as the ledger writes them."""

from collections.abc import Iterable

import numpy as np

from mix2fld_lab.reproduction.cell_records import CellRecord


def three_places(values: Iterable[float]) -> list[str]:
    """As in Tables II and III."""
    return [f"{value:.3f}" for value in values]


def signed(value: float) -> str:
    """Two places, always with the sign."""
    return f"{value:+.2f}"


def server_accuracy(cell: CellRecord) -> str:
    """Mean accuracy of the server's model in %, over the seeds that have one."""
    found = cell.values("summary", "accuracy", "global")
    known = found[~np.isnan(found)]
    return f"{100 * known.mean():.2f}" if len(known) else "–"


def delivery(*cells: CellRecord) -> str:
    """Percentage of uploads that were delivered, over all seeds of these cells."""
    attempted = sum(cell.total("summary", "uploads", "attempted") for cell in cells)
    delivered = sum(cell.total("summary", "uploads", "delivered") for cell in cells)
    return f"{100 * delivered / attempted:.1f} %" if attempted else "–"
