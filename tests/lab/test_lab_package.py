"""The evidence is a package of its own, which the commands find by its name."""

import sys
from pathlib import Path

import pytest

from mix2fld.cli import main
from mix2fld.cli.commands import every_form
from mix2fld.report.page_data import page_data
from mix2fld.runs.reader import require_runs
from stored_runs import play

COMMANDS = (
    *(["reproduce", "fig2c"], ["privacy", "audit"], ["deploy", "testbed"]),
    *(["report", "runs", "--figures", "figures"], ["advise", "--out", "map.png"]),
)


@pytest.fixture(autouse=True)
def _without_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mix2fld_lab", None)


@pytest.mark.parametrize("given", COMMANDS, ids=" ".join)
def test_a_command_says_what_it_needs(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "needs the package mix2fld_lab" in said
    assert len(said.strip().splitlines()) == 1


def test_the_other_commands_do_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["deploy", "keys"])
    assert "hosts" in capsys.readouterr().err
    assert every_form() is not None


def test_a_report_does_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(tmp_path, protocols="mix2fld")
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html")])
    assert "report of 1 runs" in capsys.readouterr().out
    (setting,) = page_data(require_runs([tmp_path / "runs"]))["settings"]
    assert setting["gallery"] is None
    assert setting["labels"]
