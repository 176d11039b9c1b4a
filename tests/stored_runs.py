"""Finished runs on disk, small ones, and their parts handed out piece by piece."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from reliability.faults import Quiet

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.report.live import PageServer, make_server
from mix2fld.runs.results import RunResult
from mix2fld.runs.simulation import run
from mix2fld.types import Dataset
from toys import CoinLink, save_dataset, toy_config, toy_dataset, toy_grid


def save_toy_dataset(path: Path) -> Path:
    """The toy dataset as a file that a config can name."""
    return save_dataset(path, toy_dataset())


def play(folder: Path, data: Dataset | None = None, **fields: object) -> Grid:
    """Runs of three rounds over a link that loses some uploads; gives their grid."""
    folder.mkdir(parents=True, exist_ok=True)
    dataset = save_dataset(folder / "toy.npz", data or toy_dataset())
    uneven = {"partition": "non-iid", "rare_labels": 1, "local_steps": 6, "learning_rate": 0.03}
    grid = toy_grid(**{"dataset": str(dataset), "rounds": 3, **uneven, **fields})
    run(grid, folder / "runs", link=CoinLink())
    return grid


class Replay:
    """Writes a finished run again into another folder, as a run under way would."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source, self._target = source, target
        self._lines = (source / "rounds.jsonl").read_bytes().splitlines(keepends=True)

    def begin(self) -> None:
        """The config is there, no round yet."""
        self._target.mkdir(parents=True)
        (self._target / "config.toml").write_bytes((self._source / "config.toml").read_bytes())

    def append(self, number: int) -> None:
        """Round ``number`` is over."""
        self._write(self._lines[number - 1])

    def append_half(self, number: int) -> None:
        """Round ``number`` is being written."""
        line = self._lines[number - 1]
        self._write(line[: len(line) // 2])

    def append_other_half(self, number: int) -> None:
        """The rest of it."""
        line = self._lines[number - 1]
        self._write(line[len(line) // 2 :])

    def finish(self) -> None:
        """The run is over."""
        (self._target / "summary.json").write_bytes((self._source / "summary.json").read_bytes())

    def _write(self, data: bytes) -> None:
        with (self._target / "rounds.jsonl").open("ab") as file:
            file.write(data)


NEW_IN_ROUNDS = {
    "slowest", "quorum", "joules", "suspects", "server", "left_out", "timing", "waiting",
}  # fmt: skip


def as_kept(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rounds without what formats 1 and 2 do not say."""
    return [{k: v for k, v in info.items() if k not in NEW_IN_ROUNDS} for info in rounds]


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


SHORT_RUN = toy_config(protocol="fl", rounds=4)


def run_short(out: Path, stop_after: int = 99, config: Config = SHORT_RUN) -> list[str]:
    """Run, stopped after so many rounds or to its end; returns the notes."""
    listener = Quiet(stop_after)
    with pytest.raises(KeyboardInterrupt) if stop_after < 99 else nullcontext():
        run(config, out, dataset=toy_dataset(), watcher=listener)
    return listener.notes


def check_resumed(folder: Path, config: Config, *stops: int, **given: Any) -> list[RunResult]:
    """A run that stops after each of these rounds and is resumed leaves the bytes of a whole one.

    Returns the whole one.
    """
    given = {"dataset": toy_dataset(), **given}
    whole = run(config, folder / "whole", watcher=Quiet(), **given)
    for rounds in stops:
        with pytest.raises(KeyboardInterrupt):
            run(config, folder / "cut", watcher=Quiet(rounds), **given)
    run(config, folder / "cut", watcher=(last := Quiet()), **given)
    assert not [note for note in last.notes if "damaged" in note]
    assert contents(folder / "cut") == contents(folder / "whole")
    return whole


def intact(folder: Path) -> dict[str, bytes]:
    """All files below a folder, without those set aside as damaged."""
    return {n: data for n, data in contents(folder).items() if not n.endswith(".damaged")}


@contextmanager
def served_page(folder: Path) -> Iterator[PageServer]:
    """The live page of the runs in a folder, served by a thread."""
    made = make_server(folder, 0)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()
