"""What is sent, what of it arrives, and when."""

from mix2fld.link.budget import Budget, budget, estimate
from mix2fld.link.channel import (
    Direction,
    IdealLink,
    Link,
    Radio,
    RayleighLink,
    check_delivery,
    make_link,
)
from mix2fld.link.payload import Nothing, Outputs, Payload, PayloadError, SeedSamples, Weights

__all__ = [
    "Budget",
    "Direction",
    "IdealLink",
    "Link",
    "Nothing",
    "Outputs",
    "Payload",
    "PayloadError",
    "Radio",
    "RayleighLink",
    "SeedSamples",
    "Weights",
    "budget",
    "check_delivery",
    "estimate",
    "make_link",
]
