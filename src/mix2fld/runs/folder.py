"""A run as it is written to disk, so that no crash loses a finished round.

Every round is appended and synced before the checkpoint that includes it replaces the last one,
which is kept beside it until the run is finished. So at any instant the folder holds a state to
resume from, and after damage to one file another one.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from mix2fld.base.errors import DamagedError, InputError, Mix2fldError
from mix2fld.base.files import (
    LOCK,
    PART,
    append_atomic,
    remove,
    rename,
    uninterrupted,
    write_atomic,
    writing,
)
from mix2fld.base.locks import FolderLock
from mix2fld.config.settings import Config, field_names, setting
from mix2fld.engine.fleets.device_states import DeviceStates, StatesInMemory
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.state import RunState
from mix2fld.runs.checkpoint import (
    Checkpoint,
    check_intact,
    dump_checkpoint,
    load_checkpoint,
    made_with,
)
from mix2fld.runs.config_file import dump_sealed_config, is_of_run, load_sealed_config
from mix2fld.runs.finetuned import Tuned, write_finetuned
from mix2fld.runs.layout import DAMAGED, RunFiles
from mix2fld.runs.reader import read_stored, remedy
from mix2fld.runs.records import Records, plain_json, read_records, seal, write_line
from mix2fld.runs.results import RunResult
from mix2fld.runs.trained import FORM, read_trained
from mix2fld.types import SampleFormat

OTHER_FILES = "holds other files; choose another folder"
KEPT = "; finished rounds are kept, and the same command resumes after them"
AS_IN_CONFIG = "as in the config"
"""A model, link or task that a program did not give."""
GIVEN = ("link", "model", "task")
OF_DATA = ("data", "samples")


def warn(line: str) -> None:
    """Tell the user something that is not an error."""
    print(f"mix2fld: {line}", file=sys.stderr)


def sample_record(samples: SampleFormat) -> dict[str, str]:
    """How samples are stored, for ``made_with``; uint8 samples are all stored alike."""
    return {} if samples.dtype == "uint8" else {"samples": json.dumps(samples.record())}


class RunFolder:
    """The files of one run. The writer has the folder alone, from ``prepare`` to ``close``.

    ``made_with`` names what beside the config decides the numbers: a run is resumed only with the
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
        self.made_with = dict(made_with or {})
        self._files = RunFiles(path)
        self._lock = FolderLock(path)
        self._sealed_by: str | None = None  # checksum of the last record
        self.device_states: DeviceStates = StatesInMemory()
        self._devices: Any = None  # their states as the checkpoint has them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, config: Config) -> None:
        """Refuse a folder that cannot be written or holds anything but this run."""
        parent = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise self._refused(f"{parent} is not a folder that can be written to")
        if self._files.config.exists():
            self._check_config(config)
        elif self._files.existing():
            raise self._refused(
                "holds a run without its config.toml; put it back, or name another folder"
            )
        elif self.path.exists() and self._files.hold_others():
            raise self._refused(OTHER_FILES)

    def config(self) -> Config:
        """The settings of the run in the folder."""
        return load_sealed_config(self._files.config)

    def prepare(self, config: Config) -> None:
        """Make the folder for this config, if there is none yet, and keep other processes out."""
        self.check(config)
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
            self.check(config)
            for leftover in self._files.existing(PART):
                remove(leftover)
            if self._files.failure.exists():
                remove(self._files.failure)
            if not self._files.config.exists():
                write_atomic(self._files.config, dump_sealed_config(config))

    def close(self) -> None:
        """Let other processes write into the folder."""
        self._lock.give_back()

    def check_replaceable(self) -> None:
        """Refuse to replace anything but a run, or one that another process writes."""
        if not self.path.is_dir():
            return
        with self._writing():
            self._take()
        own = self._files.existing()
        if self._files.hold_others() or (
            own == [self._files.config] and not is_of_run(self._files.config)
        ):
            raise self._refused(OTHER_FILES)

    def tidy(self) -> None:
        """Remove what a process left that died at the very end of its run."""
        with suppress(OSError):  # a folder that cannot be written is as good a result
            if (self._files.existing(PART) or (self.path / LOCK).exists()) and self._lock.take():
                for leftover in self._files.existing(PART):
                    remove(leftover)
                self.close()

    def clear(self) -> None:
        """Remove a run, and only the files of a run."""
        if not self.path.is_dir():
            return
        with self._writing():
            self._take()
            for ending in (DAMAGED, PART, ""):
                for file in self._files.existing(ending):
                    remove(file)

    def append(self, info: RoundInfo, state: RunState) -> None:
        """Keep a finished round and the state after it."""
        line, self._sealed_by = write_line(asdict(info), self._last_seal())
        checkpoint = dump_checkpoint(state, self._sealed_by, self.made_with)
        with self._writing(KEPT), uninterrupted():
            append_atomic(self._files.rounds, line)
            write_atomic(self._files.checkpoint, checkpoint, keep_last_as=self._files.previous)
            self.device_states.forget_others(self._devices, state.devices)
        self._devices = state.devices

    def resume(self, like: RunState) -> tuple[RunState, list[dict[str, Any]]]:
        """The state to resume from, and the rounds before it; ``like`` is the state at the start.

        What is damaged is set aside, and the user told what is run again.
        """
        records = read_records(self._files.rounds)
        with self._writing(KEPT):
            state = self._newest_state(like, records)
            done = state.round_number
            if records.fault or len(records.lines) > done:
                remove(self._files.summary)
                write_atomic(self._files.rounds, b"".join(records.lines[:done]))
        self._sealed_by, self._devices = records.checksum(done), state.devices
        return state, records.rounds[:done]

    def roll_back_round(self) -> None:
        """Forget the last round and the state after it; the state before it is resumed from."""
        lines = read_records(self._files.rounds).lines
        with self._writing(KEPT), uninterrupted():
            if self._files.previous.exists():
                rename(self._files.previous, self._files.checkpoint)
            else:
                remove(self._files.checkpoint)
            write_atomic(self._files.rounds, b"".join(lines[:-1]))
        self._sealed_by = None

    def finished(self) -> RunResult | None:
        """The run that the folder holds, if it is finished."""
        if not self._files.summary.exists():
            return None
        stored = read_stored(self._files)
        if stored.fault:
            raise DamagedError(f"{self.path}: {stored.fault}; {remedy(self.path)}")
        config = stored.config
        find = partial(read_trained, self.path, config)
        return RunResult(config, stored.records.rounds, stored.summary or {}, find)

    def check_data(self) -> None:
        """Refuse to take a run for one with different data, or another model, link or task."""
        if not self._files.checkpoint.exists():
            return
        before = made_with(self._files.checkpoint)
        if self._different(before):
            check_intact(self._files.checkpoint)  # of a damaged file nothing is believed
            self._compare(before)

    def fail(self, reason: str) -> None:
        """Keep why the run cannot continue, for later readers of the folder."""
        with suppress(Mix2fldError), self._writing():
            write_atomic(self._files.failure, (" ".join(reason.split()) + "\n").encode())

    def keep_finetuned(self, tuned: Tuned) -> None:
        """Keep the models of devices after their last steps, if they took any."""
        if tuned:
            with self._writing(KEPT):
                write_finetuned(self._files.finetuned, tuned)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary; a folder that has one is a finished run."""
        text = plain_json(seal(summary, self._last_seal()), indent=2) + "\n"
        with self._writing(KEPT), uninterrupted():
            remove(self._files.previous)  # first: nobody looks after a run that has its summary
            self.device_states.forget_others(self._devices)
            write_atomic(self._files.summary, text.encode())
        self.close()

    def _newest_state(self, like: RunState, records: Records) -> RunState:
        """That of the newest intact checkpoint with all its records; else the start."""
        state, faults = like, []
        rejected: list[Path] = []
        for path in (self._files.checkpoint, self._files.previous):
            if path.exists():
                try:
                    restored = self.device_states.restored
                    found = load_checkpoint(path, like, restored, check=self._compare)
                    found = _goes_with(found, records)
                    state = _with_scores(found.state(like), records)
                    break
                except DamagedError as error:
                    faults.append(f"{path.name} {error}")
                    rejected.append(path)
        if state is like and not rejected and len(records.lines) > 1:
            faults.append("there is no checkpoint")
        if faults:
            resumes = f"resumes after round {state.round_number}"
            again = resumes if state.round_number else "restarts from the beginning"
            self._tell(f"{self.path}: {'; '.join(faults)}; {again}")
            if records.fault:
                rejected.append(self._files.rounds)
        for path in rejected:  # a rejected checkpoint must never push out an intact one
            rename(path, path.with_name(path.name + DAMAGED))
        return state

    def _compare(self, before: Mapping[str, str]) -> None:
        """Refuse what makes a different run, and tell what may change the last digits."""
        different = self._different(before)
        if different:
            *others, last = different
            same = f"{', '.join(others)} and {last}" if others else last
            custom = any(before.get(name, AS_IN_CONFIG) != AS_IN_CONFIG for name in GIVEN)
            how = " (a program gives a custom one to mix2fld.run)" if custom else ""
            why = "; ".join(different.values())
            raise self._refused(f"{why}; use the same {same}{how}, or choose another folder")
        for name in sorted({*before} & {*self.made_with} - {*GIVEN, *OF_DATA, FORM}):
            then, now = before[name], self.made_with[name]
            if then != now:
                self._tell(
                    f"{self.path}: was started with {name} = {then} and is resumed with "
                    f"{now}; its numbers may differ in the last digits"
                )

    def _different(self, before: Mapping[str, str]) -> dict[str, str]:
        """What makes a different run, in words, by what has to be the same."""
        now, different = self.made_with, {}
        changed = {name for name in before if name in now and before[name] != now[name]}
        if "samples" in changed:
            how = _changes(before["samples"], now["samples"])
            different["data"] = f"its samples were stored differently ({how})"
        elif "data" in changed:
            different["data"] = f"the data changed (checksum {before['data']}, now {now['data']})"
        known = {"task": AS_IN_CONFIG, **before} if before else {}  # an older one names no task
        for name in GIVEN:
            if name in now and (then := known.get(name, now[name])) != now[name]:
                different[name] = f"was run with a different {name} ({then}; now {now[name]})"
        return different

    def _check_config(self, wanted: Config) -> None:
        found = self.config()
        for name in field_names(Config):
            old, new = setting(found, name), setting(wanted, name)
            if old != new:
                raise self._refused(
                    f"holds a run with {name} = {old}, not {new}; "
                    "choose another folder, or give --overwrite to replace the run"
                )

    def _refused(self, why: str) -> InputError:
        return InputError(field="out", value=self.path, hint=why)

    def _last_seal(self) -> str:
        if self._sealed_by is None:
            self._sealed_by = read_records(self._files.rounds).checksum(-1)
        return self._sealed_by

    def _take(self) -> None:
        if not self._lock.take():
            raise self._refused(
                "another process is writing this run; wait until it is done, "
                "or choose another folder"
            )

    def _writing(self, hint: str = "") -> AbstractContextManager[None]:
        return writing("out", self.path, hint)


def _changes(then: str, now: str) -> str:
    """What differs between two records of how samples are stored."""
    before, after = json.loads(then), json.loads(now)
    changed = [name for name in after if before.get(name) != after[name]]
    return "; ".join(f"{name} = {before.get(name)}, now {after[name]}" for name in changed)


def _with_scores(state: RunState, records: Records) -> RunState:
    """Old checkpoints do not hold the scores of devices; the last record does."""
    known = state.roster.scores
    if not state.round_number or known.ndim > 1 or not np.isnan(known).all():
        return state
    last = records.rounds[state.round_number - 1]["scores"]
    scores = state.roster.scores.copy()
    scores[last["measured"]] = last["devices"]
    return replace(state, roster=replace(state.roster, scores=scores))


def _goes_with(found: Checkpoint, records: Records) -> Checkpoint:
    done = found.round_number
    if done > len(records.lines):
        why = records.fault or f"has {len(records.lines)} lines"
        raise DamagedError(f"is of round {done}, but rounds.jsonl {why}")
    if found.records not in (None, records.checksum(done)):
        raise DamagedError("is not of the run in rounds.jsonl")
    return found
