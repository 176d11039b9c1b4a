"""Uploads that are some steps old: how far a step goes with them, on the server and on devices."""

from typing import Protocol

import numpy as np

from mix2fld.protocols.parts import Inbox
from mix2fld.types import Tensors


class Lateness(Protocol):
    """What a policy of time says of the uploads of a step."""

    @property
    def uses_late(self) -> bool:
        """Whether an upload that the server did not wait for is used in a later step."""

    @property
    def share(self) -> float:
        """How far the server's model goes towards what a step without staleness makes of it."""

    def enough(self, asked: int) -> float:
        """How many uploads of a round in which so many devices were asked end the wait."""

    def weight(self, staleness: int) -> float:
        """Of an upload that is so many steps old; 0: it is not used."""


def mixed(policy: Lateness, last: Tensors, after: Tensors, inbox: Inbox) -> Tensors:
    """The weights after a step, which goes the less far the staler its uploads are."""
    part = np.float32(
        policy.share * np.mean([policy.weight(upload.staleness) for upload in inbox.values()])
    )
    if part == 1:
        return after
    return tuple(old + part * (new - old) for old, new in zip(last, after, strict=True))
