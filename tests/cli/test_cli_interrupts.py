"""Ctrl-C at any time."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mix2fld.cli import main
from mix2fld.runs.interrupts import raise_if_remembered, remembered
from mix2fld.runs.loop import Watcher

SMALL = [
    *("--devices", "4", "--samples-per-device", "40", "--partition", "iid", "--model", "mlp"),
    *("--local-steps", "20", "--server-steps", "10", "--protocols", "fl"),
    *("--rounds", "3", "--curve-points", "2"),
]


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
    assert f"the same command, or mix2fld resume {out}, resumes" in said
    assert len((out / "fl-s0" / "rounds.jsonl").read_text().splitlines()) == 1


def test_a_command_that_overwrites_is_not_offered_to_resume(
    tmp_path: Path,
    own_file: str,
    capsys: pytest.CaptureFixture[str],
    interrupted_in_the_first_round: None,
) -> None:
    out = tmp_path / "runs"
    command = ["run", "--dataset", own_file, *SMALL, "--out", str(out), "--overwrite"]
    said = stopped(capsys, *command)
    assert f"mix2fld: stopped; mix2fld resume {out} resumes" in said


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


@pytest.mark.parametrize("suppressed", [False, True])
def test_ctrl_c_in_an_import_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], suppressed: bool
) -> None:
    def parse(name: str, given: list[str]) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as pressed:
            cause = None if suppressed else pressed
            raise ImportError("Encountered an error while initializing the extension.") from cause

    monkeypatch.setattr("mix2fld.cli.parse", parse)
    said = stopped(capsys, "link")
    assert said == "\nmix2fld: stopped\n"


def test_an_internal_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(name: str, given: list[str]) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr("mix2fld.cli.parse", parse)
    with pytest.raises(ImportError, match="no such module"):
        main(["link"])


def test_ctrl_c_waits_until_jax_is_imported(tmp_path: Path) -> None:
    """The interrupt comes with the first module of jaxlib, whose import it would break."""
    code = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'jaxlib.version':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "            print('import continues')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from mix2fld.cli import main\n"
        "main(['run', '--rounds', '1'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 130
    assert done.stdout == "import continues\n"
    assert done.stderr.startswith("\nmix2fld: stopped; the same command")
