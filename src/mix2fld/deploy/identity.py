"""Whose run is in a folder: devices know it by its identity."""

import secrets
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.layout import RunFiles

CLOCK_EPOCHS_END = 2**31
"""Version 0.2 counted seconds since 1970, which its devices may remember."""


def run_identity(path: Path) -> str:
    """What devices know this run by: drawn once, so that a new run never meets old states."""
    file = RunFiles(path).identity
    if not file.exists():
        new_identity(path)
    return file.read_text(encoding="ascii")


def new_identity(path: Path) -> None:
    """Draw one: what devices keep of the one before is that of another run."""
    write_atomic(RunFiles(path).identity, secrets.token_hex(8).encode())


def next_epoch(path: Path) -> int:
    """How often the server of a run was started, this time included; devices obey the latest.

    It is counted in the run's folder: a clock may be set back.
    """
    file = RunFiles(path).epoch
    last = int(file.read_text(encoding="ascii")) if file.exists() else CLOCK_EPOCHS_END
    write_atomic(file, str(last + 1).encode())
    return last + 1


def refuse_run_of_simulator(path: Path) -> None:
    """Refuse to resume a run of the simulator: no device has its state."""
    files = RunFiles(path)
    if files.rounds.exists() and not files.identity.exists():
        raise InputError(
            field="out",
            value=path,
            hint="holds a run of the simulator, which devices cannot resume; name another folder",
        )


def forget(path: Path) -> None:
    """Remove a deployed run, and only the files of one."""
    RunFolder(path).clear()
    files = RunFiles(path)
    for file in (files.identity, files.epoch, files.diary, files.events):
        file.unlink(missing_ok=True)
