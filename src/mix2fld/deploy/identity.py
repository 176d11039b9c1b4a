"""Whose run is in a folder: devices, and whoever follows the run, know it by its identity."""

import secrets
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.config.settings import Config
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.results import RunResult

CLOCK_EPOCHS_END = 2**31
"""Version 0.2 counted seconds since 1970, which its devices may remember."""


def run_identity(path: Path) -> str:
    """What devices know this run by: drawn once, so that a new run never meets old states."""
    file = RunFiles(path).identity
    if not file.exists():
        write_atomic(file, secrets.token_hex(8).encode())
    return file.read_text(encoding="ascii")


def next_epoch(path: Path) -> int:
    """How often the server of a run was started, this time included; devices obey the latest.

    It is counted in the run's folder: a clock may be set back.
    """
    file = RunFiles(path).epoch
    last = int(file.read_text(encoding="ascii")) if file.exists() else CLOCK_EPOCHS_END
    write_atomic(file, str(last + 1).encode())
    return last + 1


def refuse_run_of_simulator(path: Path) -> None:
    """No device knows its rounds."""
    files = RunFiles(path)
    if files.rounds.exists() and not files.identity.exists():
        raise InputError(
            field="out",
            value=path,
            hint="holds a run of the simulator, which devices cannot resume; name another folder",
        )


def claim(path: Path, config: Config) -> str:
    """Make a folder that of a deployed run, before any process runs it; returns its identity."""
    with RunFolder(path) as folder:
        refuse_run_of_simulator(path)
        folder.prepare(config)
        refuse_run_of_simulator(path)
        return run_identity(path)


def forget(path: Path) -> None:
    """Remove a deployed run, and only the files of one."""
    RunFolder(path).clear()
    files = RunFiles(path)
    for file in (files.identity, files.epoch, files.diary):
        file.unlink(missing_ok=True)


def finished_run(path: Path, config: Config, identity: str) -> RunResult | None:
    """The run in a folder if it is finished; raises ``InputError`` if it is not the one claimed."""
    file = RunFiles(path).identity
    if not file.exists() or file.read_text(encoding="ascii") != identity:
        raise InputError(
            field="out", value=path, hint="another run took the place of this one in the folder"
        )
    result = RunFolder(path).finished()
    if result is not None and result.config != config:
        raise InputError(
            field="out", value=path, hint="another config took the place of that of this run"
        )
    return result
