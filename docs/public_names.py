"""What users and extensions import: every public name, with the words that stand with it."""

import ast
import importlib
import inspect
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

PUBLIC = ("mix2fld", "mix2fld.extend", "mix2fld.codecs", "mix2fld.models", "mix2fld.tensors")


def reference_of(module: str) -> str:
    """The page of a public module: its names in a table, then each with its own words."""
    public = importlib.import_module(module)
    names = {name: words for name, (_, words) in documented(public).items()}
    if bare := [name for name, words in names.items() if not words]:
        raise SystemExit(f"{module}: public names without a docstring: {', '.join(bare)}")
    lines = [f"# {module}", "", inspect.cleandoc(public.__doc__ or ""), ""]
    lines += ["| name | what it is |", "|---|---|"]
    lines += [
        f"| {{py:obj}}`{name} <{module}.{name}>` | {words.splitlines()[0]} |"
        for name, words in names.items()
    ]
    described = [_described(module, name, words) for name, words in names.items()]
    return "\n".join([*lines, "", *described])


def _described(module: str, name: str, words: str) -> str:
    value: Any = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) and value.__name__ == name:
        body = f".. autoclass:: {module}.{name}\n   :members:"
        body += "\n   :no-index:" if _is_of_an_earlier(module, value) else ""
    elif inspect.isfunction(value):
        body = f".. autofunction:: {module}.{name}"
    else:
        body = f".. py:data:: {module}.{name}\n\n" + textwrap.indent(words, "   ")
    return f"```{{eval-rst}}\n{body}\n```\n"


def _is_of_an_earlier(module: str, value: Any) -> bool:
    """Whether a public module that comes before has the same class, which is indexed once."""
    before = [importlib.import_module(name) for name in PUBLIC[: PUBLIC.index(module)]]
    return any(getattr(each, name) is value for each in before for name in each.__all__)


def documented(module: ModuleType) -> dict[str, tuple[str, str]]:
    """Where each public name of a module is defined, and its own words; ``""`` if it has none."""
    return {name: _home_and_words(module, name) for name in module.__all__}


def _home_and_words(module: ModuleType, name: str) -> tuple[str, str]:
    value: Any = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        said = inspect.cleandoc(value.__doc__ or "")
        made = f"{value.__name__}("  # of a dataclass or a tuple that says nothing itself
        return value.__module__, "" if said.startswith(made) else said
    return _assigned(module.__name__, name)


def _source_of(module: ModuleType, name: str) -> str | None:
    """The module that a name is imported from, or is when it is asked for: a stub says it."""
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    source = stub.read_text(encoding="utf-8") if stub.exists() else inspect.getsource(module)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return str(node.module)
    return None


def _assigned(home: str, name: str) -> tuple[str, str]:
    """The words below an assignment, here or where it is imported from."""
    module = importlib.import_module(home)
    if elsewhere := _source_of(module, name):
        return _assigned(elsewhere, name)
    body = ast.parse(inspect.getsource(module)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                return home, str(after.value.value) if said else ""
    raise LookupError(f"{home} has no {name}")
