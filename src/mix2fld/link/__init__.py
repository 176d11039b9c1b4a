"""What is sent, what of it arrives, and when."""

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
