"""The licences of the pinned packages, from a CycloneDX bill of materials: ``docs/licences.md``.

``make bom`` makes the bill of what is installed, and calls this.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from mix2fld_lab.markdown import markdown_table

PINS = Path(__file__).parent.parent / "constraints.txt"
LONGEST = 60


def main(bill: Path, page: Path) -> None:
    """Write the page."""
    page.write_text(render(json.loads(bill.read_text(encoding="utf-8")), pinned(PINS)))


def pinned(file: Path) -> dict[str, str]:
    """Names of the pinned packages, with their versions."""
    lines = file.read_text(encoding="utf-8").splitlines()
    parts = [line.partition("==") for line in lines if "==" in line]
    return {_plain(name): version.strip() for name, _, version in parts}


def render(bill: dict[str, Any], pins: dict[str, str]) -> str:
    """The packages of the bill that are pinned, with their licences."""
    found = {_plain(c["name"]): c for c in bill["components"] if _plain(c["name"]) in pins}
    rows = [
        (c["name"], _version(c["version"], pins[name]), licence_of(c))
        for name, c in sorted(found.items())
    ]
    missing = ", ".join(sorted(pins.keys() - found.keys()))
    rest = f"\n\nPinned, but not installed where the bill was made: {missing}." if missing else ""
    form = f"CycloneDX {bill['specVersion']}"
    return f"""# Licences of the pinned packages

Made by `make bom`, which also writes the bill of materials, `dist/bom.json` ({form}). mix2fld
itself is under the licence in [LICENSE](../LICENSE). {len(rows)} of {len(pins)} pinned packages,
as their own metadata states:

{markdown_table(("package", "version", "licence"), rows)}{rest}
"""


def licence_of(component: dict[str, Any]) -> str:
    """What a package says of its licence: an expression, identifiers or names."""
    words = []
    for entry in component.get("licenses", []):
        licence = entry.get("license", {})
        name = entry.get("expression") or licence.get("id") or licence.get("name") or ""
        first = str(name).strip().splitlines()[0] if str(name).strip() else ""
        words.append(first.removeprefix("License :: OSI Approved :: ")[:LONGEST])
    return ", ".join(dict.fromkeys(filter(None, words))) or "not stated"


def _version(installed: str, pin: str) -> str:
    return pin if installed == pin else f"{installed} (pinned: {pin})"


def _plain(name: str) -> str:
    """Names are the same however they are written."""
    return re.sub(r"[-_.]+", "-", name.strip().lower())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
