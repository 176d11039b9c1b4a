"""The command that repeats a run."""

import shlex
from collections.abc import Sequence

from mix2fld.config.grid import Grid
from mix2fld.config.settings import PRESETS, field_names, setting


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
