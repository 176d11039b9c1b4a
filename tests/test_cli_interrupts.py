"""Ctrl-C, wherever it comes."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mix2fld.cli import main
from mix2fld.interrupts import raise_if_remembered, remembered
from mix2fld.playing import Watcher
from toys import toy_dataset

SMALL = [
    *("--devices", "4", "--samples-per-device", "40", "--partition", "iid", "--model", "mlp"),
    *("--local-steps", "20", "--server-steps", "10", "--protocols", "fl"),
    *("--rounds", "3", "--curve-points", "2"),
]


@pytest.fixture(scope="module")
def own_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = toy_dataset()
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(
        path,
        train_images=data.train_images,
        train_labels=data.train_labels,
        test_images=data.test_images,
        test_labels=data.test_labels,
    )
    return str(path)


def interrupt(phase: str, info: dict[str, int]) -> None:
    del phase, info
    gc.callbacks.remove(interrupt)
    raise KeyboardInterrupt


@pytest.fixture
def interrupted_in_the_first_round(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def collect(watcher: Watcher, *news: object) -> None:
        del watcher, news
        if interrupt not in gc.callbacks:
            gc.callbacks.append(interrupt)
            gc.collect()

    monkeypatch.setattr("mix2fld.cli.progress.RichWatcher.begin", collect)
    yield
    if interrupt in gc.callbacks:
        gc.callbacks.remove(interrupt)


def stopped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 130
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_ctrl_c_in_the_garbage_collector_stops_a_run(
    tmp_path: Path,
    own_file: str,
    capsys: pytest.CaptureFixture[str],
    interrupted_in_the_first_round: None,
) -> None:
    out = tmp_path / "runs"
    said = stopped(capsys, "run", "--dataset", own_file, *SMALL, "--out", str(out))
    assert f"the same command, or mix2fld resume {out}, goes on" in said
    assert len((out / "fl-s0" / "rounds.jsonl").read_text().splitlines()) == 1


def test_other_lost_exceptions_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: reported.append(lost.exc_type))

    class Careless:
        def __del__(self) -> None:
            raise LookupError

    with remembered():
        Careless()
    gc.collect()
    assert reported == [LookupError]
    raise_if_remembered()
