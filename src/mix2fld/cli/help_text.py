"""Help without what says nothing: ``{None}|PATH`` is a path, and no default is not shown as one."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OPTIONAL = re.compile(r"\{None\}\|(?:\{([^}]*)\}|([A-Z]+))")
_EMPTY_DEFAULT = re.compile(r"\(default: (?:None)?\)")


@contextmanager
def tidy_help() -> Iterator[None]:
    """Tidy what is printed meanwhile, if it is help."""
    before = sys.stdout
    tidied = _Tidied(before)
    sys.stdout = tidied
    try:
        yield
    finally:
        sys.stdout = before
        tidied.end()


class _Tidied:
    """A stream that tidies whole lines; a terminal stays one."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._begun = stream, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Pass on the lines that are whole."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._stream.write(tidy(line) + "\n")
        return len(text)

    def end(self) -> None:
        """Pass on the rest."""
        self._stream.write(tidy(self._begun))
        self._stream.flush()


def tidy(line: str) -> str:
    """The line as wide as before, so that frames and columns stay where they are."""
    line = _EMPTY_DEFAULT.sub(lambda found: " " * len(found[0]), line)
    ends = [found.end() for found in _OPTIONAL.finditer(line)]
    if not ends:
        return line
    names = _OPTIONAL.sub(lambda found: found[1] or found[2], line[: ends[-1]])
    return names.ljust(ends[-1]) + line[ends[-1] :]
