"""What is sent, what of it arrives, and when."""

from typing import TYPE_CHECKING

from mix2fld.lazy import names_of

if TYPE_CHECKING:
    from mix2fld.link.budget import Budget, Direction, Forecast
    from mix2fld.link.channels import (
        LINKS,
        CellLink,
        ComesAndGoes,
        IdealLink,
        Link,
        Memoryless,
        Radio,
        RayleighLink,
        TraceLink,
        check_delivery,
        make_link,
    )
    from mix2fld.link.payloads import (
        Encoded,
        Nothing,
        Outputs,
        Payload,
        PayloadError,
        SeedSamples,
        Size,
        Weights,
    )

__all__ = [
    "LINKS",
    "Budget",
    "CellLink",
    "ComesAndGoes",
    "Direction",
    "Encoded",
    "Forecast",
    "IdealLink",
    "Link",
    "Memoryless",
    "Nothing",
    "Outputs",
    "Payload",
    "PayloadError",
    "Radio",
    "RayleighLink",
    "SeedSamples",
    "Size",
    "TraceLink",
    "Weights",
    "check_delivery",
    "make_link",
]

_HOMES = {
    "Budget": "budget",
    "CellLink": "channels",
    "ComesAndGoes": "channels",
    "Direction": "budget",
    "Encoded": "payloads",
    "Forecast": "budget",
    "IdealLink": "channels",
    "LINKS": "channels",
    "Link": "channels",
    "Memoryless": "channels",
    "Nothing": "payloads",
    "Outputs": "payloads",
    "Payload": "payloads",
    "PayloadError": "payloads",
    "Radio": "channels",
    "RayleighLink": "channels",
    "SeedSamples": "payloads",
    "Size": "payloads",
    "TraceLink": "channels",
    "Weights": "payloads",
    "check_delivery": "channels",
    "make_link": "channels",
}
__getattr__ = names_of(__name__, _HOMES)
