"""The record of an audit: one JSON file, to which every finished stage is added."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic, writing
from mix2fld_lab.made_with import made_with

KIND = "mix2fld privacy audit"
PLACES = 6


class AuditRecord:
    """What an audit found so far, by the names of its stages; kept whole on disk."""

    def __init__(
        self,
        path: Path | None,
        about: dict[str, Any],
        complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda about: about,
    ) -> None:
        self.path, self.about = path, json.loads(json.dumps(about))
        self.stages: dict[str, Any] = {}
        if path is not None and path.exists():
            before = load_audit(path)
            then = json.loads(json.dumps(complete(before["about"])))
            if then != self.about:
                differs = _differs(then, self.about)
                raise InputError(
                    field="out",
                    value=path,
                    hint=f"holds another audit ({differs}); use another file",
                )
            self.stages = before["stages"]

    def add(self, stage: str, found: Any) -> None:
        """Keep what a stage found."""
        self.stages[stage] = rounded(found)
        if self.path is None:
            return
        with writing("out", self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, dump_audit(self.about, self.stages))


def dump_audit(about: dict[str, Any], stages: dict[str, Any]) -> bytes:
    """The bytes of a record: one line for each stage."""
    lines = [f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in stages.items()]
    made = f'"made_with": {json.dumps(made_with())}'
    head = f'{{"kind": {json.dumps(KIND)}, {made},\n "about": {json.dumps(about)},\n "stages": {{\n'
    return (head + ",\n".join(lines) + "\n}}\n").encode()


def load_audit(path: Path) -> dict[str, Any]:
    """Read the record of an audit."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not the record of a privacy audit ({error})") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise InputError(f"{path}: not the record of a privacy audit")
    return record


def rounded(tree: Any) -> Any:
    """The same with floats to six places."""
    if isinstance(tree, dict):
        return {name: rounded(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(value) for value in tree]
    return round(tree, PLACES) if isinstance(tree, float) else tree


def _differs(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The first setting that is not the same, with its path."""
    for name in {**before, **now}:
        then, this = before.get(name), now.get(name)
        if isinstance(then, dict) and isinstance(this, dict) and then != this:
            return f"{name}: {_differs(then, this)}"
        if then != this:
            return f"{name} = {then}, now {this}"
    return "the same"
