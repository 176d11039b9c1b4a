"""What a transport adds to a payload on its way: stated bytes, measured over real links.

TCP/IP and TLS cost the same under both: a header for every segment, and one for every record. What
differs is what a message costs whatever it carries. Figures: docs/thin_wire.md for MQTT,
docs/asymmetric_link.md for Flower.
"""

from dataclasses import dataclass

from mix2fld.codecs import Size
from mix2fld.links.budget import Direction

SEGMENT_BYTES, SEGMENT_HEADER = 1448, 52
"""Payload of a TCP segment, and its IP and TCP headers with timestamps."""
RECORD_BYTES, RECORD_HEADER = 16_384, 22
"""Payload of a TLS record, and what encryption adds to it."""


@dataclass(frozen=True)
class Transport:
    """A transport as a link sees it."""

    name: str
    up: int
    """Bytes in an upload's own direction beside payload, segments and records."""
    down: int
    """The same of a download."""
    up_share: float = 0.0
    """What an upload grows by with its payload, beside segments and records."""

    def carried(self, size: Size, direction: Direction) -> Size:
        """The size of a payload with all that is sent along with it; nothing stays nothing."""
        if not size.bits:
            return size
        payload = -(-size.bits // 8)
        if direction == "uplink":
            payload += self.up + round(self.up_share * payload)
        else:
            payload += self.down
        records = -(-payload // RECORD_BYTES)
        stream = payload + records * RECORD_HEADER
        segments = -(-stream // SEGMENT_BYTES)
        return Size(8 * (stream + segments * SEGMENT_HEADER), size.exact)


TRANSPORTS = {
    "mqtt": Transport("mqtt", up=100, down=21),
    "flower": Transport("flower", up=4200, down=2000, up_share=0.07),
}
