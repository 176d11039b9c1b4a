"""Public names of a package, each imported when it is first asked for."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def from_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its file.

    The stub has a line ``from home import name as name`` for every public name, which is what type
    checkers read.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    homes = {name: home for _from, home, _import, _name, _as, name in lines}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes), sorted(homes)
