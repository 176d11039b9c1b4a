"""Experiments as tables for the terminal."""

from collections.abc import Mapping

from rich.table import Table

from mix2fld.report.tables import PLAIN
from mix2fld.report.units import percent
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.paper_values import INFERRED_COLUMNS, TABLE_2, TABLE_3
from mix2fld_lab.reproduction.privacy_records import PrivacyRecords, row
from mix2fld_lab.reproduction.statistics import accuracy


def experiment_table(title: str, cells: Mapping[str, CellRecord]) -> Table:
    """One row for each cell; means over seeds and their sample standard deviation."""
    table = Table(
        title=title,
        caption="accuracy in % after the last local phase, ± sample std over seeds",
        **PLAIN,
    )
    table.add_column("setting", no_wrap=True)
    for heading in ("reference\ndevice", "all\ndevices", "uploads\ndelivered", "s on\nair"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in cells.values():
        attempted = cell.values("summary", "uploads", "attempted").sum()
        delivered = cell.values("summary", "uploads", "delivered").sum()
        table.add_row(
            cell.label,
            str(accuracy(cell)),
            str(accuracy(cell, "mean")),
            percent(delivered / attempted) if attempted else "-",
            f"{cell.values('summary', 'seconds', 'communication').mean():.2f}",
        )
    return table


def privacy_table(records: PrivacyRecords) -> Table:
    """Tables II and III: the minimum over our samples beside the values of the paper."""
    table = Table(
        title="Tables II and III: sample privacy",
        caption="ln of the smallest L2 distance, pixels 0 to 255; smallest of all samples",
        **PLAIN,
    )
    for heading in ("dataset", "method", "by"):
        table.add_column(heading, no_wrap=True)
    for ratio in INFERRED_COLUMNS:
        table.add_column(f"{ratio:g}", justify="right", no_wrap=True)
    for name, runs in records.items():
        for kind, papers in (("mixup", TABLE_2), ("mix2up", TABLE_3)):
            ours = row(runs, kind, "min", INFERRED_COLUMNS)
            table.add_row(name, kind, "here", *(f"{value:.3f}" for value in ours))
            table.add_row("", "", "paper", *(f"{value:.3f}" for value in papers[name]))
    return table
