"""What a preset is made of: settings, each with where its value comes from."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Sourced(NamedTuple):
    """The value of a setting, and its source; ``ours`` where it is a choice of this package."""

    value: Any
    source: str


Fields = dict[str, Sourced]
"""Settings by their names in the config."""


@dataclass(frozen=True)
class Standard:
    """A link that one can buy, as settings of ``link = cell``."""

    title: str
    fields: Fields
    device: str
    """The class of device that one would meet there, by its name in ``DEVICE_CLASSES``."""
    says: str
    """What the settings leave out, in a sentence."""


@dataclass(frozen=True)
class DeviceClass:
    """What a kind of device draws, and how long it computes."""

    title: str
    fields: Fields


def values(fields: Fields) -> dict[str, Any]:
    """The settings alone."""
    return {name: sourced.value for name, sourced in fields.items()}


def ours(value: Any, why: str) -> Sourced:
    """A value that this package chose."""
    return Sourced(value, f"ours: {why}")


CELL = ours("cell", "the link is put together from [cell] and [radio]")


def _fields(table: dict[str, Any]) -> Fields:
    return {
        name: Sourced(tuple(value) if isinstance(value, list) else value, source)
        for name, (value, source) in table.items()
    }


def _read() -> tuple[dict[str, Standard], dict[str, DeviceClass]]:
    """The links and the classes of devices in ``presets.toml``."""
    tree = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    links = {}
    for name, link in tree["links"].items():
        groups = [tree["groups"][group] for group in link.pop("groups", ())]
        joined = {key: row for table in (*groups, link.pop("fields")) for key, row in table.items()}
        links[name] = Standard(fields=_fields(joined), **link)
    devices = {
        n: DeviceClass(one["title"], _fields(one["fields"])) for n, one in tree["devices"].items()
    }
    return links, devices


LINKS, DEVICE_CLASSES = _read()
