"""Which files of the package a small device gets: what its program imports."""

import ast
import tomllib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
CONTRACT = "small-device"
"""Of import-linter, in pyproject.toml: make check holds the program to it."""


def contents() -> dict[str, str]:
    """The files of the distribution, and their names in it."""
    contract = read_contract()
    modules = imported_modules(contract["source_modules"], set(contract["ignore_imports"]))
    packages = [file.parent for file in modules.values() if file.name == "__init__.py"]
    data = [file for package in packages for file in package.iterdir() if is_data(file)]
    return {str(file): str(file.relative_to(SOURCES)) for file in (*modules.values(), *data)}


def read_contract() -> dict[str, Any]:
    """The import contract of a small device: where it starts, and what it never reaches."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = rules["tool"]["importlinter"]["contracts"]
    return next(each for each in known if each.get("id") == CONTRACT)


def imported_modules(start: Iterable[str], ignored: Container[str]) -> dict[str, Path]:
    """The modules of the package that these import, directly or not, and their files."""
    found: dict[str, Path] = {}
    left = list(start)
    while left:
        name = left.pop()
        file = module_file(name)
        if name in found or file is None:
            continue
        found[name] = file
        wanted = [name.rpartition(".")[0], *imports_in(file)]
        left += [other for other in wanted if f"{name} -> {other}" not in ignored]
    return found


def module_file(name: str) -> Path | None:
    """The file of a module of the package; None for what is none."""
    stem = SOURCES.joinpath(*name.split("."))
    return next((f for f in (stem / "__init__.py", stem.with_suffix(".py")) if f.is_file()), None)


def is_data(file: Path) -> bool:
    """Whether a file is no module, such as the C source of a kernel."""
    return file.is_file() and file.suffix not in {".py", ".pyc"}


def imports_in(file: Path) -> Iterator[str]:
    """The names that a module imports, also within functions; not those for the type checker."""
    left: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        left += ast.iter_child_nodes(node)
