"""The committed records, and the page that is made from them."""

import json
import platform
from pathlib import Path
from typing import Any

from mix2fld.native.processor import usable_cores

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "reliability"


def write_record(name: str, fields: dict[str, Any]) -> None:
    """Keep what a check found, and bring the page up to date."""
    from reliability.page import write_page

    FOLDER.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "cores": usable_cores()}
    text = json.dumps({**fields, "machine": machine}, indent=1) + "\n"
    (FOLDER / f"{name}.json").write_text(text)
    write_page()


def read_records() -> dict[str, dict[str, Any]]:
    """All records that there are, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
