"""Wait for everyone (decision 13): all compute, then all transmit, then the server works."""

from dataclasses import dataclass
from typing import ClassVar

from mix2fld.engine.policies.policy import Policy


@dataclass(frozen=True)
class All(Policy):
    """A round ends when its slowest device has computed, and its slowest upload is over."""

    at_once: ClassVar[bool] = True
