"""Trials that are recorded one by one, so that an interrupted grid resumes."""

import json
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mix2fld.runs.results import RunResult
from mix2fld_lab.made_with import made_with

Case = TypeVar("Case", bound=NamedTuple)


def append_trial(path: Path, case: NamedTuple, result: RunResult) -> None:
    """Record what a trial reached."""
    reached = result.summary["scores"]
    found = {"devices": reached["mean"], "server": reached["global"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**case._asdict(), **found, "made_with": made_with()}) + "\n")


def read_trials(path: Path, kind: type[Case]) -> dict[Case, dict[str, Any]]:
    """What is known so far."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {kind(**{key: row[key] for key in kind._fields}): row for row in rows}
