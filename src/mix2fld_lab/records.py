"""Records of experiments that resume: a line of JSON each, of which the last may be cut short."""

import json
from pathlib import Path
from typing import Any

from mix2fld.base.files import write_atomic
from mix2fld_lab.made_with import made_with

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """All that are whole; a process that was killed leaves half a line at most."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def append_record(path: Path, record: Record) -> None:
    """Add a line with the version that made it; half a line before it is dropped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    write_atomic(path, whole + (json.dumps({**record, "made_with": made_with()}) + "\n").encode())
