"""A download with the edges of the bins of a target ahead of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mix2fld.codecs.codec import Encoded, Payload, PayloadError, Size
from mix2fld.types import Dimensions


@dataclass(frozen=True)
class WithBins:
    """The edges as float32, in every download, so that late devices have them, too; the rest."""

    edges: tuple[float, ...]
    rest: Payload

    @property
    def name(self) -> str:
        """For records and messages."""
        return f"bins and {self.rest.name}"

    def size(self, dims: Dimensions) -> Size:
        """32 bits for each edge, and the rest."""
        rest = self.rest.size(dims)
        return Size(32 * len(self.edges) + rest.bits, rest.exact)

    def encode(self, value: Any, dims: Dimensions) -> Encoded:
        """Little-endian float32, then the rest."""
        rest = self.rest.encode(value, dims)
        return Encoded(self._ahead + rest.data, 8 * len(self._ahead) + rest.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Any:
        """The rest, if the bins are those by which outputs were averaged."""
        end = len(self._ahead)
        if data[:end] != self._ahead:
            raise PayloadError(f"{self.name}: other bins than those of this run")
        return self.rest.decode(data[end:], dims)

    @property
    def _ahead(self) -> bytes:
        return np.asarray(self.edges, "<f4").tobytes()
