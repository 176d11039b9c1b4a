"""Asked for help, a module that measures prints its usage and writes nothing."""

import runpy
import sys
from pathlib import Path

import pytest

from places import ROOT

MODULES = sorted(
    file.stem
    for file in (ROOT / "benchmarks").glob("*.py")
    if '__name__ == "__main__"' in file.read_text(encoding="utf-8")
)


def test_modules_are_found() -> None:
    assert {"many", "run", "sensors"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_help_measures_and_writes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("--help wrote a file")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert stopped.value.code == 0
    assert "usage" in capsys.readouterr().out
