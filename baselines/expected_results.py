"""Writes the expected results of the Flower baseline from the records of ``make reproduce``.

``python -m baselines.expected_results``
"""

from pathlib import Path

from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.reproduction.cell_records import CellRecord, load_records
from mix2fld_lab.reproduction.statistics import accuracy

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "baselines" / "flower" / "README.md"
START, END = "<!-- expected results -->", "<!-- end of expected results -->"
PANELS = {"fig2c": "asymmetric (23 dBm)", "fig2d": "symmetric (40 dBm)"}
SYSTEMS = {"fl": "fl", "fd": "fd", "mixfld-50": "mixfld", "mix2fld-50-100": "mix2fld"}
HEADER = ("channels", "`protocol`", "clients, %", "server's model, %", "uploads delivered, %")


def main() -> None:
    """Replace the table of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    PAGE.write_text(f"{before}{table()}{rest.split(END)[1]}", encoding="utf-8")


def table() -> str:
    """The table with the comments around it."""
    rows = [
        row(channels, protocol, cells[key])
        for panel, channels in PANELS.items()
        for cells in [_short(load_records(ROOT / "results" / "records" / f"{panel}.json"))]
        for key, protocol in SYSTEMS.items()
    ]
    return f"{START}\n{markdown_table(HEADER, rows)}\n{END}"


def row(channels: str, protocol: str, cell: CellRecord) -> tuple[str, ...]:
    """Mean and sample deviation over seeds."""
    clients = accuracy(cell, "mean")
    has_server = all(run["summary"]["accuracy"]["global"] is not None for run in cell.runs)
    server = accuracy(cell, "global") if has_server else None
    sent = cell.total("summary", "uploads", "attempted")
    delivered = 100 * cell.total("summary", "uploads", "delivered") / sent
    return (
        channels,
        f"`{protocol}`",
        f"{clients.mean:.1f} ± {clients.std:.1f}",
        f"{server.mean:.1f} ± {server.std:.1f}" if server else "–",
        f"{delivered:.1f}",
    )


def _short(cells: dict[str, CellRecord]) -> dict[str, CellRecord]:
    return {key.rsplit("/", 1)[1]: cell for key, cell in cells.items()}


if __name__ == "__main__":
    main()
