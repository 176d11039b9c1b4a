"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header row; every row has as many cells as the header."""
    lines = [_row(header), "|" + "---|" * len(header)]
    for cells in rows:
        if len(cells) != len(header):
            raise ValueError(f"row {list(cells)}: {len(cells)} cells; must be {len(header)}")
        lines.append(_row(cells))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
