"""Tables and paragraphs in Markdown."""

import re
import textwrap
from collections.abc import Iterable, Sequence

JOINED = "\0"
TOGETHER = re.compile(r"`[^`]+`|\S+ = \S+|[\d.,]+ (?:%|µs|points)")


def paragraph(text: str, width: int = 100) -> str:
    """The text in lines of at most ``width``; code and numbers with units stay together."""
    kept = TOGETHER.sub(lambda found: found[0].replace(" ", JOINED), text)
    lines = textwrap.fill(kept, width, break_long_words=False, break_on_hyphens=False)
    return lines.replace(JOINED, " ")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header row; every row has as many cells as the header."""
    lines = [_row(header), "|" + "---|" * len(header)]
    for cells in rows:
        if len(cells) != len(header):
            raise ValueError(f"row {list(cells)}: {len(cells)} cells; must be {len(header)}")
        lines.append(_row(cells))
    return "\n".join(lines)


def folded(title: str, text: str) -> str:
    """Text behind its title, for tables that most readers pass over."""
    return f"<details>\n<summary>{title}</summary>\n\n{text.strip()}\n\n</details>"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
