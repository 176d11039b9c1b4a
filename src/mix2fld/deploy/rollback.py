"""Rolling back a deployed run: to the state after an earlier round, of those that are kept.

Devices know the run by its identity. A run that is rolled back gets a new one: what devices keep of
the old one is not used, and they catch up as one does that has lost its disk. A run that was
restored from a backup, whose devices are ahead of it, is rolled back to the last round that it has.
"""

from math import ceil
from pathlib import Path

from mix2fld.base.errors import DamagedError, InputError
from mix2fld.base.files import remove, write_atomic, writing
from mix2fld.base.locks import FolderLock
from mix2fld.config.settings import Config
from mix2fld.deploy.diary import diary
from mix2fld.deploy.identity import new_identity
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.checkpoint import read_sealed_round
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher
from mix2fld.runs.records import Records, read_records

MOST_KEPT = 20
"""Checkpoints of a run, spread over its rounds."""


class Keeper(Watcher):
    """Keeps the checkpoint of some rounds."""

    def __init__(self, path: Path) -> None:
        self._files = RunFiles(path)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """A round and its checkpoint are written."""
        if info.round % ceil(config.rounds / MOST_KEPT) == 0:
            with writing("out", self._files.folder):
                write_atomic(self._files.kept(info.round), self._files.checkpoint.read_bytes())


def roll_back(path: Path, to_round: int) -> int:
    """Make a run one that has so many rounds; returns how many it had.

    At any instant the folder holds a state to resume from: first the devices' states are disowned,
    then the checkpoint replaced, and last the record cut, as resuming would cut it.
    """
    files, lock = RunFiles(path), FolderLock(path)
    if not files.identity.is_file():
        raise InputError(field="run", value=path, hint="holds no run of a deployment")
    if not lock.take():
        raise InputError(
            field="run", value=path, hint="a server is writing this run; stop it first"
        )
    try:
        records = read_records(files.rounds)
        done = len(records.lines)
        checkpoint = _checkpoint(files, records, to_round)
        with writing("run", path):
            new_identity(path)
            for file in (files.summary, files.failure, files.previous):
                remove(file)
            write_atomic(files.checkpoint, checkpoint)
            write_atomic(files.rounds, b"".join(records.lines[:to_round]))
            for number in files.kept_rounds():
                if number > to_round:
                    remove(files.kept(number))
        words = f"rolled back from round {done} to round {to_round}; devices catch up"
        diary(files)(words, "rollback", round=to_round)
        return done
    finally:
        lock.give_back()


def _checkpoint(files: RunFiles, records: Records, to_round: int) -> bytes:
    """That of the round, if it is intact and of these records; of the last round, the newest."""
    done = len(records.lines)
    possible = sorted({done, *(number for number in files.kept_rounds() if number < done)} - {0})
    if to_round not in possible:
        known = ", ".join(map(str, possible)) or "none yet, the run has no round"
        raise InputError(field="round", value=to_round, hint=f"must be one of {known}")
    path = files.checkpoint if to_round == done else files.kept(to_round)
    try:
        found, seal = read_sealed_round(path)
    except DamagedError as error:
        raise _unusable(to_round, str(error)) from None
    if (found, seal) != (to_round, records.checksum(to_round)):
        raise _unusable(to_round, "is not of the run in rounds.jsonl")
    return path.read_bytes()


def _unusable(to_round: int, why: str) -> InputError:
    return InputError(
        field="round", value=to_round, hint=f"its checkpoint {why}; choose another round"
    )
