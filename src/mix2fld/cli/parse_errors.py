"""What the parser says of a command line that it cannot read, as one line instead of a box."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper

from mix2fld.base.errors import InputError

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
