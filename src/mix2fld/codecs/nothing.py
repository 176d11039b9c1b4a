"""No payload at all."""

from dataclasses import dataclass

from mix2fld.codecs.codec import Encoded, Size, check_size
from mix2fld.types import Dimensions


@dataclass(frozen=True)
class Nothing:
    """No payload: 0 bits."""

    name: str = "nothing"

    def size(self, dims: Dimensions) -> Size:
        """0."""
        return Size(0)

    def encode(self, value: None, dims: Dimensions) -> Encoded:
        """No bytes."""
        return Encoded(b"", 0)

    def decode(self, data: bytes, dims: Dimensions) -> None:
        """None, if there are no bytes."""
        check_size(self.name, data, 0)
