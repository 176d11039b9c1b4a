"""Every example runs as it stands."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import mix2fld
from mix2fld import extend
from places import ROOT

PUBLIC = {"mix2fld", "mix2fld.extend", "mix2fld.codecs", "mix2fld.models", "mix2fld.tensors"}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where JAX is imported; its imports are held to be public ones below."""
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(example.parent)
    tables = (mix2fld.PROTOCOLS, extend.LINKS, extend.PARTITIONS)
    before = [dict(table) for table in tables]
    try:
        runpy.run_path(str(example), run_name="__main__")
    finally:
        for table, rows in zip(tables, before, strict=True):
            table.clear()
            table.update(rows)
    assert len(capsys.readouterr().out.split()) > 5


def test_an_example_runs_by_itself() -> None:
    alone = [sys.executable, "-W", "error", str(ROOT / "examples" / "own_data.py")]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_modules_alone(example: Path) -> None:
    named = set()
    for node in ast.walk(ast.parse(example.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add(str(node.module))
    assert {name for name in named if name.partition(".")[0].startswith("mix2fld")} <= PUBLIC


def test_the_public_surface_is_what_completion_shows() -> None:
    assert dir(mix2fld) == sorted(mix2fld.__all__)
    assert all(hasattr(mix2fld, name) for name in mix2fld.__all__)
    assert all(hasattr(extend, name) for name in extend.__all__)
