"""What arrives, and when: one file for each link, with its budget beside it."""

from collections.abc import Callable

from mix2fld.config import ChannelConfig
from mix2fld.errors import InputError, did_you_mean
from mix2fld.link.channels.channel import Link, Memoryless, check_delivery
from mix2fld.link.channels.ideal import IdealLink
from mix2fld.link.channels.rayleigh import Radio, RayleighLink

__all__ = [
    "LINKS",
    "IdealLink",
    "Link",
    "Memoryless",
    "Radio",
    "RayleighLink",
    "check_delivery",
    "make_link",
]

LINKS: dict[str, Callable[[ChannelConfig, int], Link]] = {
    "rayleigh": RayleighLink.from_config,
    "ideal": IdealLink.from_config,
}
"""Every link by its name in the config."""


def make_link(config: ChannelConfig, devices: int) -> Link:
    """The link that a config names, for at most ``devices`` devices at once."""
    if config.link not in LINKS:
        raise InputError(
            f"link = {config.link!r}: no such link; {did_you_mean(config.link, LINKS)}"
        )
    return LINKS[config.link](config, devices)
