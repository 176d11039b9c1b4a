"""Custom modules of the user: imported from the working folder only if the user asks for it."""

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from mix2fld.base.errors import InputError, Mix2fldError, first_line

TRUST_FLAG = "--trust-code"
CODE_FLAGS = ("--model", "--features")
PROTOCOL_FLAGS = ("--protocol", "--protocols", "--contender")
"""With parameters behind a colon: a custom one has a name there, murmur:bits=200 has none."""
MODULES = "MIX2FLD_MODULES"
"""Names to a process the folders, beside what is installed, that have a custom module."""


def names_custom_module(arguments: Sequence[str]) -> bool:
    """Whether a command line trusts the working folder, or names a module with a flag."""
    flag = ""
    for word in arguments:
        value = word
        if word.startswith("-"):
            flag, _, value = word.partition("=")
        if flag == TRUST_FLAG or (flag in CODE_FLAGS and ":" in value):
            return True
        parts = value.split(":")
        if flag in PROTOCOL_FLAGS and len(parts) > 1 and parts[1].isidentifier():
            return True
    return False


def trust_working_folder() -> None:
    """Search the working folder for modules, after everything that is installed."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def modules_in(folder: Path | None) -> dict[str, str]:
    """What a process finds in its environment so that it imports custom modules from a folder."""
    return {} if folder is None else {MODULES: str(folder)}


def search_also(folders: Sequence[str]) -> None:
    """Search these folders, too, after all others: those of the process that began this one."""
    sys.path += [folder for folder in folders if folder not in sys.path]


def searched_folders() -> list[str]:
    """Where this process searches for modules, as another one can name it."""
    return [str(Path(folder).absolute()) for folder in sys.path]


@contextmanager
def custom_code(field: str, value: str, what: str) -> Iterator[None]:
    """Within the block, whatever the code of a user raises is one sentence: ``what``, and why."""
    try:
        yield
    except Mix2fldError:
        raise
    except Exception as error:
        hint = f"{what} ({first_line(error)})"
        raise InputError(field=field, value=value, hint=hint) from error


def import_custom(name: str, field: str) -> ModuleType:
    """Import a module that ``field`` names; one of an untrusted working folder is refused."""
    search_also([folder for folder in os.environ.get(MODULES, "").split(os.pathsep) if folder])
    package = name.partition(".")[0]
    if package not in sys.modules and find_spec(package) is None:
        found = [path for path in (Path(f"{package}.py"), Path(package)) if path.exists()]
        if found:
            raise InputError(
                f"{field}: would run {found[0].resolve()}, which stored settings name and the "
                f"command does not; read it, then repeat the command with {TRUST_FLAG}, or with "
                f"--{field.replace(' = ', ' ')}"
            )
    return importlib.import_module(name)
