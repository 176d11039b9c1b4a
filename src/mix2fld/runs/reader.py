"""Find and read runs on disk, finished or in progress, while others write, move or remove them."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mix2fld.base.errors import DamagedError, InputError, Mix2fldError
from mix2fld.config.settings import Config, field_names, setting
from mix2fld.engine.scenario import reference_device
from mix2fld.runs.config_file import is_of_run, load_sealed_config
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.records import Records, read_records, read_summary
from mix2fld.runs.summary import distances_m, summarise
from mix2fld.tasks.metric import ACCURACY, Metric, metric_of

if TYPE_CHECKING:
    import pandas as pd

Rows = Literal["rounds", "runs", "devices"]
"""What a row of a frame is: a round, a whole run, or a device, asked or measured, in a round."""


class Stored(NamedTuple):
    """The files of a run, as far as they are intact."""

    config: Config
    records: Records
    summary: dict[str, Any] | None  # of a finished run
    fault: str | None  # what is damaged


def read_stored(files: RunFiles) -> Stored:
    """Read a run; raises ``InputError`` if not even its settings are intact."""
    config, records = load_sealed_config(files.config), read_records(files.rounds)
    if not files.summary.is_file():
        return Stored(config, records, None, records.fault)
    try:
        return Stored(config, records, read_summary(files.summary, records), None)
    except DamagedError as error:
        return Stored(config, records, None, str(error))


def remedy(folder: Path) -> str:
    """What to do about a damaged run."""
    return f"mix2fld resume {folder} repairs it"


@dataclass(frozen=True)
class LoadedRun:
    """One run as it stands on disk."""

    folder: Path
    config: Config
    rounds: list[dict[str, Any]]
    finished: bool
    notes: tuple[str, ...] = ()
    stored_summary: dict[str, Any] | None = None

    @property
    def protocol(self) -> str:
        """The one protocol of the run."""
        return self.config.protocol

    @property
    def seed(self) -> int:
        """The one seed of the run."""
        return self.config.seed

    @property
    def metric(self) -> Metric:
        """What was measured."""
        return metric_of(self.rounds[-1]["scores"]) if self.rounds else ACCURACY

    @property
    def summary(self) -> dict[str, Any]:
        """The run's summary; while it is in progress, as if it had ended with its last round."""
        if self.stored_summary is not None:
            return self.stored_summary
        kernel = self.config.learning.kernel
        return summarise(self.config, self.rounds, reference_device(self.config), kernel)


@dataclass
class FoundRuns:
    """What was read, and what was passed over with the reason."""

    runs: list[LoadedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    planned: list[LoadedRun] = field(default_factory=list)
    """Runs without a round, where they are listed apart."""


def find_run_folders(paths: Sequence[Path]) -> list[Path]:
    """Run folders among ``paths`` and below them, each once, in the order of their names."""
    found: dict[Path, Path] = {}
    for path in paths:
        for folder in _run_folders(path):
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def holds_run(folder: Path) -> bool:
    """Whether a folder is that of a run, and not of somebody's settings."""
    files = RunFiles(folder)
    return files.hold_run() or is_of_run(files.config)


def read_runs(paths: Sequence[Path]) -> FoundRuns:
    """Every run with at least one round; one that cannot be read is a note, not an error."""
    found = FoundRuns()
    for folder in find_run_folders(paths):
        try:
            run = read_run(folder)
        except Mix2fldError as error:
            found.notes.append(str(error))
            continue
        if run is None:
            continue
        found.notes.extend(run.notes)
        found.runs.append(run)
    found.runs.sort(key=lambda run: run.seed)
    return found


def require_runs(paths: Sequence[Path]) -> FoundRuns:
    """As ``read_runs``; raises ``InputError`` where there is nothing to show."""
    for path in paths:
        if not path.exists():
            raise InputError(field="runs", value=path, hint="there is no such folder")
    found = read_runs(paths)
    found.planned = [run for run in found.runs if not run.rounds]
    found.runs = [run for run in found.runs if run.rounds]
    if not found.runs:
        where = ", ".join(map(str, paths))
        reason = f" ({found.notes[0]})" if found.notes else ""
        raise InputError(
            field="runs", value=where, hint=f"holds no run with a finished round{reason}"
        )
    return found


def read_run(folder: Path) -> LoadedRun | None:
    """The run in ``folder``, as far as it is intact; None if it is gone."""
    files = RunFiles(folder)
    try:
        stored = read_stored(files)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    except Mix2fldError:
        if not files.config.is_file():
            return None
        raise
    fault, rounds = stored.fault, stored.records.rounds
    if stored.records.half_written and not files.summary.is_file():
        fault = None  # its line is just being written
    notes = (f"{folder}: {fault}; only what is intact is shown; {remedy(folder)}",) if fault else ()
    return LoadedRun(
        folder, stored.config, rounds, stored.summary is not None, notes, stored.summary
    )


def load_runs(*paths: Path | str, rows: Rows = "rounds") -> "pd.DataFrame":
    """A pandas frame of all runs at or below ``paths``.

    A row is a round, a run (totals of bits, transfers, seconds and joules, otherwise its last
    round) or a device in a round; ``folder``, ``protocol``,
    ``seed`` and every setting that is not the default of all runs have separate columns.
    """
    found = require_runs([Path(path) for path in paths or (".",)])
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return frame_of(found.runs, rows)


def frame_of(runs: Sequence[LoadedRun], rows: Rows) -> "pd.DataFrame":
    """As ``load_runs``, of runs that are read already."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError(
            "a frame needs pandas; install it with: pip install 'mix2fld[frames]'"
        ) from None
    settings = _changed_fields([run.config for run in runs])
    own = partial(_own_tests, others=runs) if rows == "runs" else _nothing
    return pd.DataFrame.from_records(
        [
            {**_labels(run, settings), **record, **own(run)}
            for run in runs
            for record in _records(run, rows)
        ]
    )


def _run_folders(path: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        del files
        if RunFiles(Path(folder)).existing():
            yield Path(folder)


def _changed_fields(configs: Sequence[Config]) -> list[str]:
    default = Config()
    return [
        name
        for name in field_names()
        if any(setting(config, name) != setting(default, name) for config in configs)
    ]


def _labels(run: LoadedRun, settings: Sequence[str]) -> dict[str, Any]:
    values = {name: _plain(setting(run.config, name)) for name in settings}
    return {"folder": str(run.folder), "protocol": run.protocol, "seed": run.seed, **values}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else " ".join(map(str, value))
    return str(value) if isinstance(value, Path) else value


def _records(run: LoadedRun, rows: Rows) -> Iterator[dict[str, Any]]:
    if rows == "devices":
        yield from _device_records(run)
        return
    from mix2fld.runs.summary import metrics_of, run_metrics

    if rows == "rounds":
        for info, row in zip(run.rounds, metrics_of(run.rounds), strict=True):
            yield {"round": info["round"], **row}
        return
    converged = next((info["round"] for info in run.rounds if info["converged"]), None)
    last = {"round": run.rounds[-1]["round"], **run_metrics(run.rounds)}
    trained = run.summary.get("training", {})  # older summaries do not say
    training = {f"training/{name}": value for name, value in trained.items()}
    yield {"finished": run.finished, **last, "converged_round": converged, **training}


def _nothing(run: LoadedRun) -> dict[str, Any]:
    del run
    return {}


def _own_tests(run: LoadedRun, others: Sequence[LoadedRun]) -> dict[str, Any]:
    """Of devices on samples of their own, and after fine-tuning; nothing where there is neither."""
    from mix2fld.runs.own_tests import own_scores

    found: dict[str, Any] = {}
    if "finetuned" in run.summary:
        found["finetuned/mean"] = run.summary["finetuned"]["mean"]
    for tuned, prefix in ((False, "own"), (True, "finetuned/own")):
        scores = own_scores([run], others, tuned)
        if scores is not None:
            found[f"{prefix}/mean"] = scores.mean
            found[f"{prefix}/worst_decile"] = scores.worst_decile
            found[f"{prefix}/gain_over_alone"] = scores.gain
            found[f"{prefix}/worse_off"] = scores.worse_off
    return found


def _further_of(scores: dict[str, Any], device: int) -> dict[str, Any]:
    """The other metrics of a device."""
    found = {}
    for other in scores.get("further", ()):
        own = dict(zip(other["measured"], other["devices"], strict=True))
        found[metric_of(other).name] = own.get(device)
    return found


def _device_records(run: LoadedRun) -> Iterator[dict[str, Any]]:
    distances = distances_m(run.config)
    for info in run.rounds:
        asked = set(info["asked"])
        uploaded, downloaded = (set(info[way]["devices"]) for way in ("uploads", "downloads"))
        known = info["scores"]
        measured = dict(zip(known["measured"], known["devices"], strict=True))
        spent = info["joules"]["devices"] if "joules" in info else [None] * len(measured)
        joules = dict(zip(known["measured"], spent, strict=True))
        for device in sorted(asked | measured.keys()):
            yield {
                "round": info["round"],
                "device": device,
                metric_of(known).name: measured.get(device),
                **_further_of(known, device),
                "asked": device in asked,
                "uploaded": device in uploaded,
                "downloaded": device in downloaded,
                "joules": joules.get(device),
                **({} if distances is None else {"distance_m": float(distances[device])}),
            }
