"""Which messages arrive over a link, when, and at what cost; or their sum, where a link adds."""

from collections.abc import Callable

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.settings import Config
from mix2fld.links.budget import Budget, Direction, Forecast
from mix2fld.links.channels.air import AirLink
from mix2fld.links.channels.availability import MarkovAvailability
from mix2fld.links.channels.cell import CellLink
from mix2fld.links.channels.channel import IdealLink, Link, Memoryless, check_delivery
from mix2fld.links.channels.rayleigh import RayleighLink
from mix2fld.links.channels.trace import TraceLink

__all__ = [
    "LINKS",
    "AirLink",
    "Budget",
    "CellLink",
    "Direction",
    "Forecast",
    "IdealLink",
    "Link",
    "MarkovAvailability",
    "Memoryless",
    "RayleighLink",
    "TraceLink",
    "check_delivery",
    "make_link",
]

LINKS: dict[str, Callable[[Config, int], Link]] = {
    "rayleigh": lambda config, devices: RayleighLink.from_config(config.channel, devices),
    "cell": CellLink.from_config,
    "trace": TraceLink.from_config,
    "air": lambda config, devices: AirLink.from_config(config.channel, devices),
    "ideal": IdealLink.from_config,
}
"""Every link by its name in the config, from the config and the most devices that it can have."""


def make_link(config: Config, devices: int) -> Link:
    """The link that a config names, for at most ``devices`` devices at once."""
    name = config.channel.link
    if name not in LINKS:
        raise InputError(
            field="link", value=f"{name!r}", hint=f"no such link; {did_you_mean(name, LINKS)}"
        )
    link, coming = LINKS[name](config, devices), config.availability
    if not coming.leave_probability:
        return link
    return MarkovAvailability(link, coming.leave_probability, coming.return_probability)
