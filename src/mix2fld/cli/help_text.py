"""Help and errors in plain words: what tyro prints, tidied."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO, TextIOWrapper
from typing import Any

from mix2fld.base.errors import InputError

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
        """The encoding, by which the parser chooses its box characters."""
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


_FLAG = r"(?:-\w/)?(?P<flag>[\w-]+)"
_NUMBER = rf"Error parsing {_FLAG}: (?:invalid literal for int|could not convert string to float)"
_WORDS = (
    (rf"{_NUMBER}\(\).*: '(?P<value>.*)'", "{flag} {value}: must be a whole number"),
    (rf"{_NUMBER}: '(?P<value>.*)'", "{flag} {value}: must be a number"),
    (
        rf"Error parsing {_FLAG}: no type matching (?:\{{None\}}\|)?(?P<kind>.+?) could be "
        r"instantiated from \[(?P<value>.*?)\]",
        "{flag} {value}: must be {kind}",
    ),
    (rf"Missing value for argument '{_FLAG}'. Expected 1 values", "{flag}: needs a value"),
    (rf"Missing value for argument '{_FLAG}'. Expected (?P<n>\d+)", "{flag}: needs {n} values"),
    (
        rf"invalid choice '(?P<value>.*?)' for argument '{_FLAG}'. Expected one of "
        r"\((?P<kind>.*)\)",
        "{flag} {value}: must be one of {kind}",
    ),
    (
        rf"Error parsing {_FLAG}: .* parse for arguments: \[(?P<value>.*?)\]",
        "{flag} {value}: is not a valid value; see {command} --help",
    ),
    (r"Unrecognized options: (?P<value>.*)", "{value}: belongs to no option; see {command} --help"),
    (r"Expected one of \{(?P<kind>.*)\}", "{name}: needs a subcommand: {kind}"),
    (
        r"Missing from (?P<command>mix2fld (?P<name>[^:]*)): (?P<kind>\S+)",
        "{name}: needs {kind}; see {command} --help",
    ),
)  # fmt: skip
"""What the parser says, and how we say it."""
_KINDS = {"INT": "a whole number", "FLOAT": "a number", "FLOAT FLOAT": "two numbers"}


@contextmanager
def plain_errors(command: str) -> Iterator[None]:
    """Raise what is printed as an error meanwhile as ``InputError``, in one line."""
    before, written = sys.stderr, BytesIO()
    held = TextIOWrapper(written, encoding="utf-8", write_through=True)
    sys.stderr, line = held, None
    try:
        yield
    except SystemExit as stopped:
        line = one_line(written.getvalue().decode(), command) if stopped.code else None
        if line is None:
            raise
        raise InputError(line) from None
    finally:
        sys.stderr = before
        if line is None:
            before.write(written.getvalue().decode())
        held.close()


def one_line(box: str, command: str) -> str | None:
    """The message of a box of the parser; None if it is of an unknown kind."""
    said = _body(re.sub(r"\x1b\[[0-9;]*m", "", box))
    for pattern, words in _WORDS:
        found = re.search(pattern, said)
        if found:
            parts = {name: _plain(value) for name, value in found.groupdict().items()}
            known = {"command": command, "name": command.removeprefix("mix2fld ")}
            return words.format(**known | parts)
    return None


def _body(box: str) -> str:
    """What is between the title and the first rule, framed or not."""
    lines = [line.strip("│ ") for line in box.splitlines()]
    rules = [n for n, line in enumerate(lines) if line.startswith(("╭", "╰", "──", "---"))]
    first, second = [*rules, len(lines), len(lines)][:2]
    return " ".join(" ".join(lines[first + 1 : second]).split())


def _plain(value: str) -> str:
    """Without the marks of Python and of the help."""
    plain = re.sub(r"['{}]", "", value).replace("|", " or ").rstrip(".,")
    return " or ".join(_KINDS.get(kind, kind) for kind in plain.split(" or "))
