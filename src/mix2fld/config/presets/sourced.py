"""What a preset is made of: settings, each with where its value comes from."""

from dataclasses import dataclass
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
IP_PACKETS: Fields = {
    "packet_bytes": Sourced(1472, "MTU of 1,500 bytes, RFC 894, less the header"),
    "header_bytes": Sourced(28, "IPv4 20 bytes, RFC 791; UDP 8 bytes, RFC 768"),
}
