"""Folders of the user."""

import os
import sys
from pathlib import Path

from mix2fld.base.errors import InputError


def cache_folder() -> Path:
    """Return ``$MIX2FLD_CACHE``, or the operating system's cache folder of the user."""
    named = os.environ.get("MIX2FLD_CACHE")
    return expand_home(Path(named), "MIX2FLD_CACHE") if named else own_cache_folder()


def own_cache_folder() -> Path:
    """Return the operating system's cache folder of the user."""
    try:
        folder = _system_cache() / "mix2fld"
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():
        raise InputError("MIX2FLD_CACHE: no home folder is known; set it to a folder for the cache")
    return folder


def expand_home(path: Path, setting: str) -> Path:
    """Expand ``~`` in a path; an error names the setting that the path comes from."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(
            f"{setting} = {path}: no home folder is known for {path.parts[0]}; use an absolute path"
        ) from None


def _system_cache() -> Path:
    """By the XDG rule on Linux, where a small device has no package for it."""
    if sys.platform == "linux":
        return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache").expanduser()
    from platformdirs import user_cache_path

    return user_cache_path()
