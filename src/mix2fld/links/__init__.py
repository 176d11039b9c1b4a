"""What arrives over a link, when, and at what cost."""

from typing import TYPE_CHECKING

from mix2fld.base.lazy import names_of

if TYPE_CHECKING:
    from mix2fld.links.budget import Budget, Direction, Forecast
    from mix2fld.links.channels import (
        LINKS,
        CellLink,
        IdealLink,
        Link,
        MarkovAvailability,
        Memoryless,
        Radio,
        RayleighLink,
        TraceLink,
        check_delivery,
        make_link,
    )

__all__ = [
    "LINKS",
    "Budget",
    "CellLink",
    "Direction",
    "Forecast",
    "IdealLink",
    "Link",
    "MarkovAvailability",
    "Memoryless",
    "Radio",
    "RayleighLink",
    "TraceLink",
    "check_delivery",
    "make_link",
]

_HOMES = {
    "Budget": "budget",
    "CellLink": "channels",
    "MarkovAvailability": "channels",
    "Direction": "budget",
    "Forecast": "budget",
    "IdealLink": "channels",
    "LINKS": "channels",
    "Link": "channels",
    "Memoryless": "channels",
    "Radio": "channels",
    "RayleighLink": "channels",
    "TraceLink": "channels",
    "check_delivery": "channels",
    "make_link": "channels",
}
__getattr__ = names_of(__name__, _HOMES)
