"""The command that repeats a run."""

import shlex

from mix2fld.config import Config, field_names, setting


def command(config: Config) -> str:
    """``mix2fld run`` with a flag for every field that is not at its default, shell-quoted."""
    default = Config()
    words = ["mix2fld", "run"]
    for name in field_names():
        value = setting(config, name)
        if value == setting(default, name):
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            listed = value if isinstance(value, tuple) else (value,)
            words += [f"--{flag}", *map(str, listed)]
    return shlex.join(words)
