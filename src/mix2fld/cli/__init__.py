"""The command line. Only the requested command is imported, so that help is instant."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from mix2fld.base.custom_code import names_custom_module, trust_working_folder
from mix2fld.base.errors import InputError, Mix2fldError, did_you_mean
from mix2fld.cli.commands import COMMANDS, COMPUTES, RESUMES, overview, parse
from mix2fld.runs.interrupts import remembered

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
NEEDED_BY = {
    "matplotlib": "a figure needs matplotlib; pip install 'mix2fld[figures]'",
    "jinja2": "a page needs Jinja; pip install 'mix2fld[lab]'",
}
"""What to install, by the module that is missing."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``mix2fld``; the guide lists the exit codes."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _make_printable()
    if names_custom_module(given):
        with suppress(FileNotFoundError):  # the working folder was removed
            trust_working_folder()
    try:
        with remembered():
            _run(given)
    except (Exception, KeyboardInterrupt) as error:
        try:
            sys.exit(_exit_code(error, given))
        except BrokenPipeError:
            # The flush at exit must not raise it again.
            for stream in (sys.stdout, sys.stderr):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            sys.exit(PIPE_CLOSED)


def _make_printable() -> None:
    """Replace closed streams by the null device, and unencodable characters by question marks."""
    sys.stdout = sys.stdout or _null_device()
    sys.stderr = sys.stderr or _null_device()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _null_device() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C behind an error: during its import, an extension raises ImportError."""
    if error is None or isinstance(error, KeyboardInterrupt):
        return error
    return _interrupt_behind(error.__cause__) or _interrupt_behind(error.__context__)


def _exit_code(error: BaseException, given: list[str]) -> int:
    """Print what is wrong and return the exit code; any other error is raised again."""
    stopped = _interrupt_behind(error)
    if stopped is not None:
        print(f"\nmix2fld: stopped{_how_to_resume(given, stopped)}", file=sys.stderr)
        return INTERRUPTED
    match error:
        case BrokenPipeError():
            raise error
        case Mix2fldError() | OSError():
            print(f"mix2fld: {error}", file=sys.stderr)
        case ModuleNotFoundError(name=str(name)) if name.split(".")[0] in NEEDED_BY:
            print(f"mix2fld: {NEEDED_BY[name.split('.')[0]]}", file=sys.stderr)
        case MemoryError():
            print(f"mix2fld: out of memory ({error})", file=sys.stderr)
        case _:
            raise error
    return BAD_INPUT


def _run(given: list[str]) -> None:
    if not given:
        print(overview(), file=sys.stderr)
        sys.exit(BAD_INPUT)
    name = given[0]
    if name in ("-h", "--help", "help"):
        print(overview())
        return
    if name == "--version":
        from mix2fld import __version__

        print(f"mix2fld {__version__}")
        return
    if name not in COMMANDS:
        raise InputError(f"{name}: no such command; {did_you_mean(name, COMMANDS)}")
    command = parse(name, given[1:])
    if name in COMPUTES:
        _import_jax()
    command.run()
    sys.stdout.flush()


def _import_jax() -> None:
    """Delay Ctrl-C until JAX is imported: within the import it prints tracebacks, or crashes."""
    from mix2fld.base.files import uninterrupted

    with uninterrupted():
        import jax  # noqa: F401


def _how_to_resume(given: list[str], stopped: KeyboardInterrupt) -> str:
    if not (given and given[0] in RESUMES):
        return ""
    resume = f"mix2fld resume {stopped.args[0]}" if stopped.args else ""
    if "--overwrite" in given:  # the same command starts over
        return f"; {resume} resumes after the last finished round" if resume else ""
    how = f", or {resume}," if resume else ""
    return f"; the same command{how} resumes after the last finished round"
