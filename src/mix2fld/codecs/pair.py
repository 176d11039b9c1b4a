"""Two values, one after the other."""

from dataclasses import dataclass
from typing import Any

from mix2fld.codecs.codec import Encoded, Payload, PayloadError, Size
from mix2fld.types import Dimensions


@dataclass(frozen=True)
class Pair:
    """A value of whole bytes and of a size that is known, then another."""

    first: Payload
    second: Payload

    @property
    def name(self) -> str:
        """For records and messages."""
        return f"{self.first.name} and {self.second.name}"

    def size(self, dims: Dimensions) -> Size:
        """Of both."""
        rest = self.second.size(dims)
        return Size(8 * self._first_bytes(dims) + rest.bits, rest.exact)

    def encode(self, value: tuple[Any, Any], dims: Dimensions) -> Encoded:
        """The bytes of both."""
        first = self.first.encode(value[0], dims)
        rest = self.second.encode(value[1], dims)
        return Encoded(first.data + rest.data, 8 * len(first.data) + rest.bits)

    def decode(self, data: bytes, dims: Dimensions) -> tuple[Any, Any]:
        """Both values."""
        end = self._first_bytes(dims)
        if len(data) < end:
            raise PayloadError(f"{self.name}: {len(data)} bytes; must be at least {end}")
        return self.first.decode(data[:end], dims), self.second.decode(data[end:], dims)

    def _first_bytes(self, dims: Dimensions) -> int:
        size = self.first.size(dims)
        if not size.exact:
            raise PayloadError(f"{self.name}: {self.first.name} has no fixed size to end at")
        return -(-size.bits // 8)
