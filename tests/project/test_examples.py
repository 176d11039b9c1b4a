"""Every example runs as it stands."""

import ast
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
def test_example_runs(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], capture_output=True, text=True, check=False
    )
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
