"""Help without noise: ``{None}|PATH`` becomes a path, and a missing default is not shown."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

NOTHING = "\0"
"""Stands where a default was."""
_SIMPLER = (
    (re.compile(r"\{None\}\|(?:\{([^}]*)\}|([A-Z]+))"), r"\1\2"),
    (re.compile(r"\{None,"), "{"),
    (re.compile(r"\[\[([A-Z]+) \[\1 \.\.\.\]\]\]|\[([A-Z]+) \[\2 \.\.\.\]\]"), r"\1\2 ..."),
    (re.compile("``"), ""),
    (re.compile(f"{NOTHING}+"), ""),
    (re.compile(r"\(default: (?:None)?\)"), ""),
)
"""What is shown, and what says the same in fewer words."""
_WRAPPED_DEFAULT = re.compile(r"\(default:(?P<end> *│?\n│? *)(?P<value>(?:None)?\))")
_EMPTY = re.compile(r"│ *│")
_SECTION = re.compile(r"^╭─ (settings(?:\.(\w+))? options) ─", re.MULTILINE)
_OPTION = re.compile(r"^(│ )(-.+?)(?=  | *│$)", re.MULTILINE)
FRAME = "│╭╰"


@contextmanager
def tidy_help() -> Iterator[None]:
    """Tidy what is printed meanwhile, if it is help."""
    before = sys.stdout
    held = _Held(before)
    sys.stdout = held
    try:
        yield
    finally:
        sys.stdout = before
        text = tidy_text(held.getvalue(), shutil.get_terminal_size().columns)
        coloured = before.isatty() and not os.environ.get("NO_COLOR")
        before.write(_OPTION.sub("\\1\x1b[1m\\2\x1b[0m", text) if coloured else text)
        before.flush()


class _Held(StringIO):
    """Keeps what is written, as plain text."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Decides about frames."""
        return str(getattr(self._stream, "encoding", None) or "utf-8")

    def fileno(self) -> int:
        """The terminal's, to ask for its width."""
        return int(self._stream.fileno())


def tidy_text(text: str, columns: int) -> str:
    """The whole help: no line that was only about a missing default, no line beyond the edge."""
    text = _WRAPPED_DEFAULT.sub(_without_default, text)
    text = _SECTION.sub(_named_as_in_toml, text)
    lines: list[str] = []
    for line in text.split("\n"):
        tidied = tidy(line)
        framed = any(mark in line for mark in FRAME)
        empty = _EMPTY.fullmatch(tidied) is not None or not tidied.strip()
        if empty and (tidied != line or (framed and _follows_option(lines))):
            continue
        wraps = not framed and len(tidied) > columns and not tidied.startswith("  ")
        kept = tidied if framed else tidied.rstrip()
        lines += textwrap.wrap(kept, columns) if wraps else [kept]
    return "\n".join(lines)


def _without_default(found: re.Match[str]) -> str:
    return f"{' ' * len('(default:')}{found['end']}{NOTHING * len(found['value'])}"


def _named_as_in_toml(found: re.Match[str]) -> str:
    """``settings.data options`` are the settings of ``[data]``."""
    title = f"settings [{found[2]}]" if found[2] else "settings"
    return f"╭─ {title} ─" + "─" * (len(found[1]) - len(title))


def tidy(line: str) -> str:
    """The line as wide as before, so that frames and columns stay where they are."""
    end = line.rfind("│")
    body, rest = (line, "") if end < 0 else (line[:end], line[end:])
    for pattern, simpler in _SIMPLER:
        while found := pattern.search(body):
            body = _shortened(body, found, found.expand(simpler))
    return body.ljust(len(line) - len(rest)) + rest


def _shortened(body: str, found: re.Match[str], simpler: str) -> str:
    """What follows two spaces or more is a column, and keeps its place."""
    gap = len(found[0]) - len(simpler)
    after = body[found.end() :]
    column = re.search(r" {2,}(?=\S)", after)
    if column is None:
        return body[: found.start()] + simpler + after
    return (
        body[: found.start()] + simpler + after[: column.end()] + " " * gap + after[column.end() :]
    )


def _follows_option(lines: list[str]) -> bool:
    """Whether the last line is the text of an option, whose missing default was wrapped."""
    return bool(lines) and re.match(r"│ {7,}\S", lines[-1]) is not None
