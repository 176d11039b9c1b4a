"""The package with the evidence, which some commands and panels need: never imported by its name.

It comes with the same installation, and everything else works without it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mix2fld.base.errors import InputError

LAB = "mix2fld_lab"


def has_lab() -> bool:
    """Whether the package is installed."""
    return find_spec(LAB) is not None


def lab(module: str) -> Any:
    """A module of it; raises ``InputError`` if it is not installed."""
    if not has_lab():
        raise InputError(f"this needs the package {LAB}; install it with: pip install mix2fld")
    return import_module(f"{LAB}.{module}")
