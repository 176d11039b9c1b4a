"""The text files of a run, each with a format number and a checksum, so that damage shows.

A line of ``rounds.jsonl`` is sealed with a checksum of itself and of the line before it; the last
one seals ``summary.json``. In every format, ``format`` and ``checksum`` keep this meaning.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mix2fld.base.errors import DamagedError, InputError, Mix2fldError
from mix2fld.runs.old_formats import FIELDS_OF_FORMAT_1, record_today, with_metric

FORMAT = 4
"""Of ``rounds.jsonl`` and ``summary.json``. Formats 3, which is of accuracy alone, 2, which does
not say who was asked, and 1, which has no checksums either, are still read: ``old_formats``."""
START = ""
"""What stands before the first line."""


@dataclass
class Records:
    """The intact lines of ``rounds.jsonl`` from the first on, and why there are no more."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    fault: str | None = None
    half_written: bool = False
    """Whether the fault may be a last line that is just being written."""

    def checksum(self, rounds: int) -> str:
        """What seals the first so many rounds; -1 for all of them."""
        return [START, *self.checksums][rounds]

    def sealed(self) -> bool:
        """Whether the last line has a checksum, which those of format 1 have not."""
        return bool(self.lines) and b'"checksum"' in self.lines[-1]


def seal(fields: dict[str, Any], before: str) -> dict[str, Any]:
    """The fields with their format and, at the end, the checksum of all that goes before."""
    marked = {"format": FORMAT, **fields}
    return {**marked, "checksum": _checksum(marked, before)}


def unseal(found: Any, before: str) -> dict[str, Any]:
    """The fields with their format, as sealed; ``DamagedError`` if they are not those."""
    if not isinstance(found, dict) or "checksum" not in found:
        raise DamagedError("has no checksum")
    fields = dict(found)
    checksum = fields.pop("checksum")
    if checksum != _checksum(fields, before):
        raise DamagedError("its checksum does not match")
    refuse_newer("run", fields.get("format"), FORMAT, older=(2, 3))
    return fields


def refuse_newer(what: str, found: Any, known: int, older: Sequence[int] = ()) -> None:
    """Stop at a format that this version cannot know; ``older`` ones are read, too."""
    if found not in (known, *older):
        raise InputError(
            f"{what} of format {found}: this version of mix2fld reads up to {known}; "
            "use the version that wrote it, or a newer one"
        )


def read_records(path: Path) -> Records:
    """All intact rounds, from the first on."""
    records = Records()
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise InputError(f"{path}: cannot be read (not a file)")
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    before = START
    for number, line in enumerate(lines, 1):
        try:
            fields, before = _read_line(line, number, before)
        except DamagedError as error:
            records.fault = f"line {number} {error}"
            records.half_written = not line.endswith(b"\n")
            break
        except Mix2fldError as error:
            raise InputError(f"{path}: {error}") from None
        records.rounds.append(fields)
        records.lines.append(line)
        records.checksums.append(before)
    return records


def read_summary(path: Path, records: Records) -> dict[str, Any]:
    """The summary of these records; ``DamagedError`` unless it is theirs."""
    if records.fault:
        raise DamagedError(f"rounds.jsonl {records.fault}")
    try:
        found = read_json(path.read_bytes())
        old = isinstance(found, dict) and found.get("format") == 1 and not records.sealed()
        summary: dict[str, Any] = found if old else unseal(found, records.checksum(-1))
        if summary.get("rounds") != len(records.rounds):
            raise DamagedError("counts a different number of rounds")
    except DamagedError as error:
        raise DamagedError(f"{path.name} {error}") from None
    return with_metric(summary)


def write_line(fields: dict[str, Any], before: str) -> tuple[bytes, str]:
    """A line of ``rounds.jsonl``, and its checksum."""
    sealed = seal(fields, before)
    return (plain_json(sealed) + "\n").encode(), sealed["checksum"]


def plain_json(fields: dict[str, Any], indent: int | None = None) -> str:
    """JSON as everybody reads it: a number that is not finite is refused."""
    try:
        return json.dumps(fields, indent=indent, allow_nan=False)
    except ValueError:
        raise InputError(
            f"a figure of the run is not finite: {_first_not_finite(fields)}; it is not recorded"
        ) from None


def read_json(text: bytes) -> Any:
    """Parse JSON that may be damaged."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise DamagedError("is not JSON") from None


def _read_line(line: bytes, number: int, before: str) -> tuple[dict[str, Any], str]:
    if not line.endswith(b"\n"):
        raise DamagedError("is incomplete")
    found = read_json(line)
    if isinstance(found, dict) and set(found) == FIELDS_OF_FORMAT_1:
        fields, checksum = found, _checksum(found, before)
    else:
        fields = unseal(found, before)
        checksum = found["checksum"]
        if line != (json.dumps(found) + "\n").encode():
            raise DamagedError("was altered after it was written")
    if fields.get("round") != number:
        raise DamagedError(f"is of round {fields.get('round')!s:.20}")
    return record_today(fields, fields.pop("format", 1)), checksum


def _checksum(fields: dict[str, Any], before: str) -> str:
    return hashlib.sha256((before + json.dumps(fields)).encode()).hexdigest()[:16]


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _first_not_finite(value: Any, name: str = "") -> str:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        where = f"{name}.{key}".lstrip(".")
        if isinstance(part, (dict, list)):
            found = _first_not_finite(part, where)
            if found:
                return found
        elif isinstance(part, float) and part - part != 0:
            return f"{where} = {part}"
    return ""
