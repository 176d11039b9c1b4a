"""What holds of every protocol as a class: its parameters, its flags, and that nobody names it."""

import ast
import functools
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, get_origin

import numpy as np
import pytest

import mix2fld
from mix2fld import codecs
from mix2fld.codecs import PayloadError
from mix2fld.config.settings import Config
from mix2fld.engine.checks import check_upload
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.types import SampleFormat, Upload

PACKAGE = Path(mix2fld.__file__).parent
KINDS = {kind for row in PROTOCOLS.values() for kind in type(row).__mro__}
OURS = sorted(
    (kind for kind in KINDS if issubclass(kind, Protocol)), key=lambda kind: kind.__name__
)
every_protocol = pytest.mark.parametrize("name", PROTOCOLS)


@functools.cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


@every_protocol
def test_a_parameter_that_is_a_setting_has_its_default(name: str) -> None:
    for each in fields(PROTOCOLS[name]):
        if path := each.metadata.get("setting"):
            default = functools.reduce(getattr, path.split("."), Config())
            assert (each.default, type(each.default)) == (default, type(default)), path


@every_protocol
def test_in_a_run_a_parameter_has_the_value_of_its_setting(name: str) -> None:
    for each in fields(PROTOCOLS[name]):
        if path := each.metadata.get("setting"):
            (section, field), wanted, config = path.split("."), object(), Config()
            part = getattr(config, section).model_copy(update={field: wanted})
            sizes: Any = SimpleNamespace(config=config.model_copy(update={section: part}))
            assert getattr(PROTOCOLS[name].bound(sizes), each.name) is wanted


@every_protocol
def test_a_default_is_that_of_the_class_that_declares_it_first(name: str) -> None:
    """A dataclass takes a field from its last base, with the fields that this inherits."""
    kind = type(PROTOCOLS[name])
    for each in fields(kind):
        declares = next(one for one in kind.__mro__ if each.name in inspect.get_annotations(one))
        own = {field.name: field.default for field in fields(declares)}
        assert each.default is own[each.name] or each.default == own[each.name], each.name


def flags() -> Iterator[str]:
    """What protocols declare of themselves for others to ask."""
    for kind in OURS:
        for name, declared in inspect.get_annotations(kind).items():
            if get_origin(declared) is ClassVar or declared is bool:
                yield name
        for name, value in vars(kind).items():
            if isinstance(value, property) and value.fget.__annotations__["return"] is bool:
                yield name


def test_somebody_reads_every_flag() -> None:
    declared = set(flags())
    assert {"needs_groups", "upload_kind", "trusted_sum", "same_for_all"} <= declared
    read = {
        node.attr
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert declared <= read


CHECKS = ("isinstance", "issubclass")


def concrete() -> dict[str, Path]:
    """Protocols, codecs and tasks by the name of their class, each with its file."""
    of_codecs = [
        kind
        for kind in vars(codecs).values()
        if inspect.isclass(kind) and hasattr(kind, "decode") and not inspect.isabstract(kind)
    ]
    kinds = [*(set(OURS) - {Protocol}), *of_codecs, Classification, Learning, Sizes]
    return {kind.__name__: Path(inspect.getfile(kind)) for kind in kinds}


def test_nobody_asks_whether_a_protocol_codec_or_task_is_a_certain_one() -> None:
    kinds = concrete()
    assert {"Mix2FLD", "RotatedUpdate", "SplitUpdate", "Weights", "Learning"} <= kinds.keys()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) in CHECKS):
                continue
            named = {
                part.attr if isinstance(part, ast.Attribute) else part.id
                for part in ast.walk(node.args[1])
                if isinstance(part, ast.Attribute | ast.Name)
            }
            elsewhere = {name for name in named & kinds.keys() if kinds[name] != path}
            assert not elsewhere, f"{path}:{node.lineno}: {ast.unparse(node)}"


KNOWN = {"ACCURACY": "metric.py", "as_collected": "seed_samples.py", "label_loss": "losses.py"}
"""What is one of several, too, and its file."""


def test_nobody_compares_with_a_certain_protocol_codec_task_or_metric() -> None:
    """Whoever must know something of it asks it: ``==`` and ``is`` are checks of a class, too."""
    kinds = {name: path.name for name, path in concrete().items()} | KNOWN
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Compare):
                continue
            if not any(isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) for op in node.ops):
                continue
            named = {
                part.attr if isinstance(part, ast.Attribute) else part.id
                for side in (node.left, *node.comparators)
                for part in (side.func if isinstance(side, ast.Call) else side,)
                if isinstance(part, ast.Attribute | ast.Name)
            }
            elsewhere = {name for name in named & kinds.keys() if kinds[name] != path.name}
            assert not elsewhere, f"{path}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("nested", [False, True])
def test_a_protocol_without_a_word_on_it_has_its_uploads_checked_for_size(nested: bool) -> None:
    """As one written from scratch, which says nothing of the arrays in its uploads."""
    far = (np.full(3, 1e9, np.float32),)
    value = (far, far) if nested else far
    with pytest.raises(PayloadError, match=r"1e\+09; must be at most 1e\+06"):
        check_upload(PROTOCOLS["isolated"], Upload(value, samples=1), SampleFormat((2,)))
    near = (np.ones(3, np.float32), 7)
    check_upload(PROTOCOLS["isolated"], Upload(near, samples=1), SampleFormat((2,)))
