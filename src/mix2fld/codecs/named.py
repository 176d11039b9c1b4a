"""Several values by name, one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mix2fld.codecs.codec import Encoded, Payload, PayloadError, Size
from mix2fld.types import Dimensions


@dataclass(frozen=True)
class Named:
    """A dict of values; all but the last are of whole bytes and of a size that is known."""

    parts: Mapping[str, Payload]

    @property
    def name(self) -> str:
        return " and ".join(payload.name for payload in self.parts.values())

    def size(self, dims: Dimensions) -> Size:
        *first, last = self.parts.values()
        rest = last.size(dims)
        return Size(8 * sum(self._bytes(each, dims) for each in first) + rest.bits, rest.exact)

    def encode(self, value: Mapping[str, Any], dims: Dimensions) -> Encoded:
        """The bytes of each, in the order of the parts."""
        carried = [payload.encode(value[name], dims) for name, payload in self.parts.items()]
        data = b"".join(each.data for each in carried)
        return Encoded(data, 8 * (len(data) - len(carried[-1].data)) + carried[-1].bits)

    def decode(self, data: bytes, dims: Dimensions) -> dict[str, Any]:
        """The values, by name."""
        found = {}
        *first, last = self.parts
        for name in first:
            end = self._bytes(self.parts[name], dims)
            if len(data) < end:
                raise PayloadError(f"{self.name}: {len(data)} bytes; must be at least {end}")
            found[name], data = self.parts[name].decode(data[:end], dims), data[end:]
        return {**found, last: self.parts[last].decode(data, dims)}

    def _bytes(self, payload: Payload, dims: Dimensions) -> int:
        size = payload.size(dims)
        if not size.exact:
            raise PayloadError(f"{self.name}: {payload.name} has no fixed size to end at")
        return -(-size.bits // 8)
