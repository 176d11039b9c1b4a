"""What users and extensions see of the package: documented, complete, and nothing else."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mix2fld
from mix2fld.codecs.codec import Payload
from mix2fld.protocols.base import Protocol
from mix2fld.tasks.base import Task
from places import ROOT

SOURCES = ROOT / "src"
PUBLIC = ("mix2fld", "mix2fld.extend", "mix2fld.codecs", "mix2fld.models", "mix2fld.tensors")
PAYLOAD_METHODS = ("size", "encode", "decode")


@pytest.fixture(scope="module")
def public() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("public_names")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str, public: ModuleType) -> None:
    module = importlib.import_module(name)
    found = public.documented(module)
    assert [each for each, (_, words) in found.items() if not words] == []
    page = public.reference_of(name)
    assert [each for each in module.__all__ if f"<{name}.{each}>" not in page] == []
    assert dir(module) == sorted(module.__all__)


def test_a_public_name_without_words_is_found(public: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        "from dataclasses import dataclass\n__all__ = ['A', 'B', 'C', 'D']\n"
        "@dataclass\nclass A:\n    x: int\nB = dict[str, int]\nC = 1\n'words'\n"
        "def D():\n    'words'\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        bare = importlib.import_module("bare")
        found = public.documented(bare)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("bare", None)
    assert {name: words for name, (_, words) in found.items()} == {
        "A": "", "B": "", "C": "words", "D": "words",
    }  # fmt: skip


def test_completion_shows_public_names_alone() -> None:
    """Whatever was imported before."""
    code = (
        "import rlcompleter, mix2fld, mix2fld.extend, mix2fld.runs.simulation\n"
        "done = rlcompleter.Completer({'mix2fld': mix2fld}).global_matches\n"
        "found = rlcompleter.Completer({'mix2fld': mix2fld}).attr_matches('mix2fld.')\n"
        "print(*sorted(name.removeprefix('mix2fld.').rstrip('()') for name in found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown = [name for name in done.stdout.split() if not name.startswith("_")]
    assert shown == sorted(mix2fld.__all__)


def concrete() -> dict[str, str]:
    """Protocols, codecs and tasks that can be made, by the file that defines them."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        if not name.startswith(("mix2fld.protocols", "mix2fld.codecs", "mix2fld.tasks")):
            continue
        for value in vars(importlib.import_module(name)).values():
            if inspect.isclass(value) and value.__module__ == name and _is_one(value):
                found[value.__name__] = name
    return found


def _is_one(kind: type) -> bool:
    if issubclass(kind, Protocol | Task):
        return kind not in (Protocol, Task)
    return kind is not Payload and all(hasattr(kind, name) for name in PAYLOAD_METHODS)


def asked_elsewhere(source: str, module: str, kinds: dict[str, str]) -> list[str]:
    """What a file asks of the class of a protocol, codec or task that it does not define."""
    asked = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            tested = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            tested |= {e.attr for e in ast.walk(node.args[1]) if isinstance(e, ast.Attribute)}
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            tested = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.MatchClass):
            tested = {ast.unparse(node.cls).rpartition(".")[2]}
        else:
            continue
        found = any(kinds.get(name, module) != module for name in tested)
        asked += [f"{module}:{node.lineno}"] if found else []
    return asked


def test_nobody_asks_which_protocol_codec_or_task_it_is() -> None:
    kinds = concrete()
    assert {"Mix2FLD", "Murmur", "RotatedUpdate", "Weights", "Classification"} <= kinds.keys()
    asked = []
    for path in sorted(SOURCES.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        asked += asked_elsewhere(path.read_text(), module, kinds)
    assert asked == []


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(p, FL)",
        "issubclass(type(p), (int, weights.FL))",
        "isinstance(p, FL | int)",
        "type(p) is FL",
        "match p:\n    case FL():\n        pass",
    ],
)
def test_a_question_of_the_class_is_found(question: str) -> None:
    kinds = {"FL": "mix2fld.protocols.weights"}
    (line,) = asked_elsewhere(question, "mix2fld.engine.wire", kinds)
    assert line.startswith("mix2fld.engine.wire:")
    assert asked_elsewhere(question, "mix2fld.protocols.weights", kinds) == []
