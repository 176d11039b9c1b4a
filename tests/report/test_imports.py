"""Reports are made from records alone: nothing here asks for an engine."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mix2fld

ROOT = Path(mix2fld.__file__).parent
ENGINES = (
    "jax",
    "optax",
    "flwr",
    "mix2fld.engine.fleets",
    "mix2fld.models",
    "mix2fld.runs.simulation",
)
MODULES = [*sorted(ROOT.glob("report/*.py")), *sorted(ROOT.glob("privacy/*.py"))]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_report_imports_no_engine(path: Path) -> None:
    wrong = {
        name
        for name in imported(path)
        for engine in ENGINES
        if name == engine or name.startswith(f"{engine}.")
    }
    assert not wrong


def test_the_protocol_table_is_read_in_one_module() -> None:
    readers = [path.stem for path in MODULES if "mix2fld.protocols.table" in imported(path)]
    assert readers == ["protocol_view"]


def test_reports_and_privacy_need_no_jax() -> None:
    code = f"import sys, {', '.join(map(module_name, MODULES))}\nassert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def module_name(path: Path) -> str:
    return ".".join(("mix2fld", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
