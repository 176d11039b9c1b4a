"""What crosses the link: one type for every sender and every transport."""

from typing import NamedTuple

from mix2fld.codecs import Encoded

SERVER = -1
"""The number of the server among senders."""


class Message(NamedTuple):
    """What one sender sends in one round: the bytes that are carried, and their bits."""

    sender: int
    round_number: int
    body: Encoded
    """What the protocol's codec carries: of an upload or of a download."""
    once: Encoded | None = None
    """What a device uploads once: seed samples, or statistics."""
    samples: int = 0
    """|S_d| of a device, known to the server."""

    @property
    def bits(self) -> int:
        """Bits that are charged; what is uploaded once is charged whenever it is sent."""
        return self.body.bits + (self.once.bits if self.once else 0)
