"""What records were made with, and what a page says of it."""

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mix2fld import __version__

UNKNOWN = "0.2.0 or before (not recorded)"
"""Of records that were made before this was recorded."""


@cache
def made_with() -> dict[str, str]:
    """Version and commit of the running code; an installed package has no commit."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit and _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks"):
        commit += " with changes"
    return {"version": __version__} | ({"commit": commit} if commit else {})


def said_of(*records: Mapping[str, Any]) -> str:
    """A sentence: what records were made with, and that today's code is newer if it is."""
    every = [record.get("made_with") or _of_machine(record) for record in records]
    names = dict.fromkeys(_name(made) for made in every)
    older = any(made is None or made["version"] != __version__ for made in every)
    after = f"; older than this version, {__version__}" if older else ""
    return f"Recorded with mix2fld {' and '.join(names)}{after}."


def _of_machine(record: Mapping[str, Any]) -> dict[str, str] | None:
    """What a record of times says, with the machine that it was made on."""
    machine = record.get("machine", {})
    version = machine.get("versions", {}).get("mix2fld")
    commit = {"commit": machine["commit"]} if machine.get("commit") else {}
    return {"version": version, **commit} if version else None


def _name(made: Mapping[str, str] | None) -> str:
    if made is None:
        return UNKNOWN
    return made["version"] + (f" (commit {made['commit']})" if "commit" in made else "")


def _git(*arguments: str) -> str:
    """What git says of the folder that this file is in; empty where it says nothing."""
    folder = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
