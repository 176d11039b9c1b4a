"""Where a run stands: finished, running, stopped, failed or waiting, and when it last grew."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from mix2fld.base.locks import is_locked
from mix2fld.report.protocol_view import title_of
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun

State = Literal["finished", "running", "stopped", "failed", "waiting", "not started"]


@dataclass(frozen=True)
class Standing:
    """The state of a run, with the reason if it failed, and the time of its last round."""

    state: State
    reason: str | None
    updated: str | None


def standing_of(run: LoadedRun) -> Standing:
    """Read from the run's files and from its lock, which dies with the process that holds it."""
    files = RunFiles(run.folder)
    updated = _last_write(files)
    if run.finished:
        return Standing("finished", None, updated)
    if is_locked(run.folder):
        return Standing("running" if run.rounds else "waiting", None, updated)
    reason = _text(files)
    if reason:
        return Standing("failed", reason, updated)
    return Standing("stopped" if run.rounds else "not started", None, updated)


def state_record(run: LoadedRun) -> dict[str, Any]:
    """The same for the page."""
    standing = standing_of(run)
    return {
        "protocol": title_of(run.protocol),
        "seed": run.seed,
        "folder": run.folder.name,
        "place": run.folder.parent.name,
        "finished": run.finished,
        "state": standing.state,
        "reason": standing.reason,
        "updated": standing.updated,
        "done": len(run.rounds),
        "planned": run.config.rounds,
    }


def _last_write(files: RunFiles) -> str | None:
    """When the last round was kept; None before the first, and for a run that is gone."""
    try:
        at = files.rounds.stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _text(files: RunFiles) -> str | None:
    try:
        return files.failure.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
