"""Updates as some of their entries, each so many bytes: a base for custom codecs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.codec import Encoded, Floats, PayloadError, Restored, Size
from mix2fld.types import Dimensions


@dataclass(frozen=True, kw_only=True)
class Entries(ABC):
    """An update codec whose codes are rows of one type, in any number up to one for each weight.

    What is sent is the rows, byte by byte. A field ``place`` of them is a place among all weights.
    """

    row: ClassVar[np.dtype[Any]]
    """What is sent of an entry, such as ``np.dtype([("place", "<u4"), ("value", "<f4")])``."""
    name: str = "entries"

    @abstractmethod
    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Any:
        """The rows of an update [N_mod], as ``rows`` makes them."""

    @abstractmethod
    def restore(self, codes: Any, rng: np.random.Generator, size: int) -> Restored:
        """The update [size] that rows stand for."""

    def rows(self, **fields: NDArray[Any]) -> NDArray[np.void]:
        """Rows from the values of their fields."""
        (count,) = {len(values) for values in fields.values()}
        found: NDArray[np.void] = np.zeros(count, self.row)
        for name, values in fields.items():
            found[name] = values
        return found

    def size(self, dims: Dimensions) -> Size:
        """At most a row for each weight."""
        return Size(8 * self.row.itemsize * dims.num_weights, exact=False)

    def encode(self, value: NDArray[np.void], dims: Dimensions) -> Encoded:
        """The bytes of all rows."""
        return Encoded(value.tobytes(), 8 * value.nbytes)

    def decode(self, data: bytes, dims: Dimensions) -> NDArray[np.void]:
        """Rows of finite numbers, whose places are increasing ones of a weight."""
        if len(data) % self.row.itemsize or len(data) > self.row.itemsize * dims.num_weights:
            raise PayloadError(
                f"{self.name}: {len(data)} bytes; must be at most {dims.num_weights} "
                f"rows of {self.row.itemsize}"
            )
        found: NDArray[np.void] = np.frombuffer(data, self.row)
        names = self.row.names or ()
        for name in names:
            if not np.isfinite(found[name]).all():
                raise PayloadError(f"{self.name}: a {name} is not finite")
        places = found["place"].astype(np.int64) if "place" in names else np.zeros(0, np.int64)
        if len(places) and (np.diff(places).min(initial=1) < 1 or places[-1] >= dims.num_weights):
            raise PayloadError(f"{self.name}: places must increase, up to {dims.num_weights - 1}")
        return found
