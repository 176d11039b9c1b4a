"""Custom modules of the user: imported from the working folder only if the user asks for it."""

import importlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from mix2fld.base.errors import InputError

TRUST_FLAG = "--trust-code"


def names_custom_module(arguments: Sequence[str]) -> bool:
    """Whether a command line trusts the working folder, or names a module with ``--model``."""
    models = [
        following if flag == "--model" else flag.removeprefix("--model=")
        for flag, following in pairwise([*arguments, ""])
        if flag == "--model" or flag.startswith("--model=")
    ]
    return TRUST_FLAG in arguments or any(":" in model for model in models)


def trust_working_folder() -> None:
    """Search the working folder for modules, after everything that is installed."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def import_custom(name: str, field: str) -> ModuleType:
    """Import a module that ``field`` names; one of an untrusted working folder is refused."""
    package = name.partition(".")[0]
    if package not in sys.modules and find_spec(package) is None:
        found = [path for path in (Path(f"{package}.py"), Path(package)) if path.exists()]
        if found:
            raise InputError(
                f"{field}: would run {found[0].resolve()}, which stored settings name and the "
                f"command does not; read it, then repeat the command with {TRUST_FLAG}"
            )
    return importlib.import_module(name)
