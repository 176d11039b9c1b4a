"""A run on disk: ``config.toml``, ``rounds.jsonl``, ``checkpoint.safetensors``, ``summary.json``.

Every round is appended and synced before the checkpoint that includes it replaces the last one,
which is kept beside it until the run is finished. So at any instant the folder holds a state to go
on from, and after damage to one file another one.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from mix2fld.config import Config, field_names, setting
from mix2fld.data.files import (
    LOCK,
    PART,
    FolderLock,
    append_whole,
    remove,
    rename,
    uninterrupted,
    write_whole,
)
from mix2fld.errors import InputError
from mix2fld.round.info import RoundInfo
from mix2fld.round.state import RunState
from mix2fld.runs.checkpoint import Checkpoint, dump_checkpoint, load_checkpoint, made_with
from mix2fld.runs.config_file import dump_sealed_config, is_of_run, load_sealed_config
from mix2fld.runs.records import (
    DamagedError,
    Records,
    plain_json,
    read_records,
    read_summary,
    seal,
    write_line,
)
from mix2fld.runs.summary import summarise

__all__ = ["RunFolder", "RunResult", "summarise", "warn"]

DAMAGED = ".damaged"
KEPT = "; finished rounds are kept, and the same command goes on after them"


@dataclass(frozen=True)
class RunResult:
    """One finished run: its config, its rounds as recorded, its summary."""

    config: Config
    rounds: list[dict[str, Any]]
    summary: dict[str, Any]

    def _repr_html_(self) -> str:
        """A table and a picture, in a notebook."""
        from mix2fld.report.notebook import results_html

        return results_html([self])


def warn(line: str) -> None:
    """Tell the user something that is not an error."""
    print(f"mix2fld: {line}", file=sys.stderr)


class RunFolder:
    """The files of one run. Whoever writes has the folder alone, from ``prepare`` to ``close``.

    ``made_with`` names what beside the config decides the numbers: a run goes on only with the
    same ``data``, ``link`` and ``model``.
    """

    def __init__(
        self,
        path: Path,
        tell: Callable[[str], None] = warn,
        made_with: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._tell = tell
        self._made_with = dict(made_with or {})
        self._config = path / "config.toml"
        self._rounds = path / "rounds.jsonl"
        self._checkpoint = path / "checkpoint.safetensors"
        self._previous = path / "checkpoint.previous.safetensors"
        self._summary = path / "summary.json"
        self._lock = FolderLock(path)
        self._sealed_by: str | None = None  # checksum of the last record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, config: Config) -> None:
        """Refuse a folder that cannot be written or holds anything but this run."""
        parent = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"out = {self.path}: {parent} is not a folder that can be written to")
        if self._config.exists():
            _refuse_other_config(self.path, self.config(), config)
        elif self._files(""):
            raise InputError(
                f"out = {self.path}: holds a run without its config.toml; put it back, or name "
                "another folder"
            )
        elif self.path.exists() and self._holds_other_files():
            raise InputError(f"out = {self.path}: holds other files; name another folder")

    def config(self) -> Config:
        """The settings of the run in the folder."""
        return load_sealed_config(self._config)

    def prepare(self, config: Config) -> None:
        """Make the folder for this config, if it is not there yet, and keep other processes out."""
        self.check(config)
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
            self.check(config)
            for leftover in self._files(PART):
                remove(leftover)
            if not self._config.exists():
                write_whole(self._config, dump_sealed_config(config))

    def close(self) -> None:
        """Let other processes write into the folder."""
        self._lock.give_back()

    def check_replaceable(self) -> None:
        """Refuse to replace anything but a run, or one that another process writes."""
        if not self.path.is_dir():
            return
        with self._writing():
            self._take()
        own = self._files("")
        if self._holds_other_files() or (own == [self._config] and not is_of_run(self._config)):
            raise InputError(f"out = {self.path}: holds other files; name another folder")

    def tidy(self) -> None:
        """Remove what a process left that died at the very end of its run."""
        with suppress(OSError):  # a folder that cannot be written is as good a result
            if (self._files(PART) or (self.path / LOCK).exists()) and self._lock.take():
                for leftover in self._files(PART):
                    remove(leftover)
                self.close()

    def clear(self) -> None:
        """Remove a run, and only the files of a run."""
        if not self.path.is_dir():
            return
        with self._writing():
            self._take()
            for ending in (DAMAGED, PART, ""):
                for file in self._files(ending):
                    remove(file)

    def append(self, info: RoundInfo, state: RunState) -> None:
        """Keep a finished round and the state after it."""
        line, self._sealed_by = write_line(asdict(info), self._last_seal())
        checkpoint = dump_checkpoint(state, self._sealed_by, self._made_with)
        with self._writing(KEPT), uninterrupted():
            append_whole(self._rounds, line)
            write_whole(self._checkpoint, checkpoint, keep_last_as=self._previous)

    def resume(self, like: RunState) -> tuple[RunState, list[dict[str, Any]]]:
        """The state to go on from, and the rounds before it; ``like`` is the state at the start.

        What is damaged is set aside, and the user told what is played again.
        """
        records = read_records(self._rounds)
        with self._writing(KEPT):
            state = self._newest_state(like, records)
            played = state.round_number
            if records.fault or len(records.lines) > played:
                remove(self._summary)
                write_whole(self._rounds, b"".join(records.lines[:played]))
        self._sealed_by = records.checksum(played)
        return state, records.rounds[:played]

    def finished(self) -> RunResult | None:
        """The run that the folder holds, if it was played to its end."""
        if not self._summary.exists():
            return None
        records = read_records(self._rounds)
        try:
            summary = read_summary(self._summary, records)
            return RunResult(self.config(), records.rounds, summary)
        except DamagedError as error:
            raise DamagedError(
                f"{self.path}: {error}; mix2fld resume {self.path} plays again what is damaged"
            ) from None

    def check_data(self) -> None:
        """Refuse to take a run for one that was played with other samples."""
        if self._checkpoint.exists():
            self._compare(made_with(self._checkpoint))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary; a folder that has one is a finished run."""
        text = plain_json(seal(summary, self._last_seal()), indent=2) + "\n"
        with self._writing(KEPT), uninterrupted():
            remove(self._previous)  # first: nobody looks after a run that has its summary
            write_whole(self._summary, text.encode())
        self.close()

    def _newest_state(self, like: RunState, records: Records) -> RunState:
        """That of the newest intact checkpoint with all its records; else the start."""
        state, faults = like, []
        rejected: list[Path] = []
        for path in (self._checkpoint, self._previous):
            if path.exists():
                try:
                    found = _goes_with(load_checkpoint(path, like), records)
                    self._compare(found.made_with)
                    state = _with_accuracies(found.state(like), records)
                    break
                except DamagedError as error:
                    faults.append(f"{path.name} {error}")
                    rejected.append(path)
        if state is like and not rejected and len(records.lines) > 1:
            faults.append("there is no checkpoint")
        if faults:
            resumes = f"goes on after round {state.round_number}"
            again = resumes if state.round_number else "plays again from the start"
            self._tell(f"{self.path}: {'; '.join(faults)}; {again}")
            if records.fault:
                rejected.append(self._rounds)
        for path in rejected:  # a rejected checkpoint must never push out an intact one
            rename(path, path.with_name(path.name + DAMAGED))
        return state

    def _compare(self, before: dict[str, str]) -> None:
        for name in sorted(set(before) & set(self._made_with)):
            then, now = before[name], self._made_with[name]
            if then != now and name == "data":
                raise InputError(
                    f"out = {self.path}: was played with other samples (checksum {then}, now "
                    f"{now}); give it the same data, or name another folder"
                )
            if then != now and name in ("link", "model"):
                raise InputError(
                    f"out = {self.path}: was played with another {name} ({then}; now {now}); give "
                    f"it the same {name}, or name another folder"
                )
            if then != now:
                self._tell(
                    f"{self.path}: began with {name} = {then} and goes on with {now}; "
                    "its numbers may differ in the last digits"
                )

    def _last_seal(self) -> str:
        if self._sealed_by is None:
            self._sealed_by = read_records(self._rounds).checksum(-1)
        return self._sealed_by

    def _take(self) -> None:
        if not self._lock.take():
            raise InputError(
                f"out = {self.path}: another process is writing this run; wait until it is done, "
                "or name another folder"
            )

    @contextmanager
    def _writing(self, hint: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"out = {self.path}: cannot be written ({reason}){hint}") from None

    def _files(self, ending: str) -> list[Path]:
        """The files of a run that are there, as they are or with an ending; config.toml last."""
        files = (self._summary, self._checkpoint, self._previous, self._rounds, self._config)
        ended = (file.with_name(file.name + ending) for file in files)
        return [file for file in ended if file.exists()]

    def _holds_other_files(self) -> bool:
        own = {*self._files(""), *self._files(PART), *self._files(DAMAGED), self.path / LOCK}
        return any(file not in own for file in self.path.iterdir())


def _with_accuracies(state: RunState, records: Records) -> RunState:
    """Old checkpoints do not hold the accuracies of devices; the last record does."""
    if not state.round_number or not np.isnan(state.roster.accuracies).all():
        return state
    last = records.rounds[state.round_number - 1]["accuracy"]["devices"]
    return replace(state, roster=replace(state.roster, accuracies=np.array(last, np.float64)))


def _goes_with(found: Checkpoint, records: Records) -> Checkpoint:
    played = found.round_number
    if played > len(records.lines):
        why = records.fault or f"has {len(records.lines)} lines"
        raise DamagedError(f"is of round {played}, but rounds.jsonl {why}")
    if found.records not in (None, records.checksum(played)):
        raise DamagedError("is not of the run in rounds.jsonl")
    return found


def _refuse_other_config(path: Path, found: Config, wanted: Config) -> None:
    for name in field_names():
        old, new = setting(found, name), setting(wanted, name)
        if old != new:
            raise InputError(
                f"out = {path}: holds a run with {name} = {old}, not {new}; "
                "name another folder, or give --overwrite to replace the run"
            )
