"""Configs as TOML: files written by hand, and ``config.toml`` of a run, which has a checksum."""

import hashlib
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import PRESETS, Config, field_names, setting

FORMAT = 2
"""Of ``config.toml``; a file written by hand has no number and is of this format."""
MOST_BYTES = 1 << 20
SEAL = "# checksum "
SECTIONS_BEFORE_SEALS = ("data", "learning", "seeding", "channel", "clock")


def load_config(path: Path, start: Grid | None = None) -> Grid:
    """Read a TOML file written by hand; what it does not name is as in ``start``."""
    return _parse_named(path, _read(path), start)


def parse_config(data: bytes, start: Grid | None = None) -> Grid:
    """The settings in the bytes of a TOML file."""
    # help needs no NumPy
    from mix2fld.runs.old_formats import settings_today, with_downlink_as_it_was, with_rates_as_used

    if len(data) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES:,} bytes")
    try:
        tree = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a TOML file ({error})") from None
    if "format" in tree:  # of a run
        tree = with_downlink_as_it_was(tree)
    found = tree.pop("format", FORMAT)
    if found not in (1, FORMAT):
        raise InputError(
            field="format",
            value=f"{str(found)[:20]}",
            hint=f"this version of mix2fld reads formats up to {FORMAT}",
        )
    if found == 1:
        tree = with_rates_as_used(tree)
    return Grid(**_over(start or Grid(), settings_today(tree)))


def dump_config(settings: Config | Grid) -> str:
    """The resolved settings as TOML; one run is a grid with one protocol and one seed."""
    grid = settings if isinstance(settings, Grid) else Grid.of_run(settings)
    return tomli_w.dumps(grid.model_dump(mode="json", exclude_none=True))


def dump_sealed_config(config: Config) -> bytes:
    """The bytes of the file."""
    text = f"format = {FORMAT}\n{dump_config(config)}"
    return f"{SEAL}{_checksum(text)}\n{text}".encode()


def load_sealed_config(path: Path) -> Config:
    """The settings of a run; a file that was changed or cut, or is not of a run, is refused.

    A file from before there were checksums has all sections and names one protocol and one seed.
    """
    data = _read(path)
    text = data.decode(errors="replace")
    first, _, rest = text.partition("\n")
    begins_sealed = bool(first) and SEAL.startswith(first[: len(SEAL)])
    if begins_sealed or "format = " in text.partition("[")[0]:
        if first != f"{SEAL}{_checksum(rest)}":
            raise InputError(
                f"{path}: was changed or damaged after its run began; put it back as it was, or "
                "use mix2fld run --overwrite to start the run again"
            )
    elif not all(f"[{section}]" in text for section in SECTIONS_BEFORE_SEALS):
        raise InputError(f"{path}: is not a complete config.toml of a run")
    config = _parse_named(path, data if begins_sealed else b"format = 1\n" + data).only_run()
    if config is None:
        raise InputError(f"{path}: does not belong to a run, which has one protocol and one seed")
    return config


def is_of_run(path: Path) -> bool:
    """Whether a file is the config of a run, intact or not."""
    try:
        return _read(path).startswith(SEAL.encode()) or bool(load_sealed_config(path))
    except Mix2fldError:
        return False


def _read(path: Path) -> bytes:
    """The bytes of a file, hardly more than a config may have."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(field="config", value=path, hint="cannot be read (not a file)")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            field="config", value=path, hint=f"cannot be read ({error.strerror})"
        ) from None
    except ValueError as error:
        raise InputError(field="config", value=path, hint=f"cannot be read ({error})") from None


def _over(start: Grid, tree: dict[str, Any]) -> dict[str, Any]:
    """The fields of a tree, and those of ``start`` that it does not name."""
    base = start.model_dump()
    for name, value in tree.items():
        section = base.get(name)
        if isinstance(section, dict) and isinstance(value, dict):
            base[name] = {**section, **value}
        else:
            base[name] = value
    return base


def _parse_named(path: Path, data: bytes, start: Grid | None = None) -> Grid:
    """As ``parse_config``, with the file in what it says."""
    try:
        return parse_config(data, start)
    except Mix2fldError as error:
        raise InputError(field="config", value=path, hint=f"{error}") from None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def command(grid: Grid, presets: Sequence[str] = ()) -> str:
    """``mix2fld run`` with a flag for every field that presets and defaults leave, shell-quoted."""
    told = {name: value for preset in presets for name, value in PRESETS[preset].items()}
    default = Grid.of(**told)
    words = ["mix2fld", "run", *(["--preset", *presets] if presets else [])]
    for name in field_names(Grid):
        value = setting(grid, name)
        if value == setting(default, name):
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            listed = value if isinstance(value, tuple) else (value,)
            words += [f"--{flag}", *map(str, listed)]
    return shlex.join(words)
