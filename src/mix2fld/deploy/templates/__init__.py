"""Configurations and units, of nginx, Mosquitto and systemd, with {{values}} to fill in."""

import re
from pathlib import Path

_VALUE = re.compile(r"{{([a-z_]+)}}")


def fill(name: str, **values: object) -> str:
    """A template with its values, each of which must be given."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return _VALUE.sub(lambda found: str(values[found[1]]), text)
