"""Tables of pages, between ``<!-- name -->`` and ``<!-- end -->``."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "thin_uplink.md"


def replace_table(page: Path, name: str, text: str) -> None:
    """Put a table in place of the last one of that name."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    before = page.read_text(encoding="utf-8")
    after, count = re.subn(pattern, lambda m: f"{m[1]}{text}\n{m[2]}", before, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page}: {count} places for {name}; must be one")
    page.write_text(after, encoding="utf-8")
