"""What is sent, to the bit: a payload knows its size in advance and counts what it encodes.

A payload is encoded to ceil(bits / 8) bytes, big-endian bits within them, pad bits zero. Both ends
know the dimensions, so nothing but the values is carried. ``decode`` trusts no one: whatever the
bytes, it returns a valid value or raises ``PayloadError``; ``encode`` holds its value to the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Dimensions, Group

FORMAT = 1
"""Of the bytes of all payloads. Both ends have the same version of the package, which a deployment
checks by the number of its messages: the payloads' own number is not sent."""


def keeps_weights(codec: "Payload") -> bool:
    """Whether a codec carries the weights of a model, all as they are and nothing else."""
    return bool(getattr(codec, "keeps_weights", False))


class PayloadError(ValueError):
    """Bytes or a value that no honest sender would send; the message is one line."""


class Size(NamedTuple):
    """Bits of a payload before its value is known."""

    bits: int
    exact: bool = True
    """Whether every value has that many bits; otherwise none has more."""

    def __str__(self) -> str:
        return f"{self.bits:,}" if self.exact else f"at most {self.bits:,}"


class Encoded(NamedTuple):
    """A value as it is carried, and charged."""

    data: bytes
    bits: int


class Payload(Protocol):
    """One kind of value, such as weights, as bits."""

    @property
    def name(self) -> str:
        """Short name for records and messages."""

    def size(self, dims: Dimensions) -> Size:
        """Bits carried, and charged, in advance."""

    def encode(self, value: Any, dims: Dimensions) -> Encoded:
        """The value as ceil(bits / 8) bytes."""

    def decode(self, data: bytes, dims: Dimensions) -> Any:
        """The value that the other end gets."""


def encoded(data: bytes, size: Size) -> Encoded:
    """What a payload of exact size encoded."""
    return Encoded(data, size.bits)


def check_size(name: str, data: bytes, bits: int) -> None:
    """Refuse bytes that are not exactly ``bits`` bits and zeros up to a whole byte."""
    expected = -(-bits // 8)
    if len(data) != expected:
        raise PayloadError(f"{name}: {len(data)} bytes; must be {expected}")
    padding = 8 * expected - bits
    if padding and data[-1] & ((1 << padding) - 1):
        raise PayloadError(f"{name}: the last {padding} bits are padding; must be 0")


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinities; mostly, the sum of squares says that there are none."""
    if not math.isfinite(np.vdot(values, values)) and not np.isfinite(values).all():
        raise PayloadError(f"{name}: a value is not finite")


def typed(name: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array, if it has that type and shape."""
    array = np.asarray(value)
    if array.dtype != dtype or array.shape != shape:
        raise PayloadError(
            f"{name}: {array.dtype}{list(array.shape)}; must be {np.dtype(dtype)}{list(shape)}"
        )
    return array


@dataclass(frozen=True)
class Nothing:
    """The codec of an empty payload: 0 bits."""

    name: str = "nothing"

    def size(self, dims: Dimensions) -> Size:
        return Size(0)

    def encode(self, value: None, dims: Dimensions) -> Encoded:
        return Encoded(b"", 0)

    def decode(self, data: bytes, dims: Dimensions) -> None:
        check_size(self.name, data, 0)


Floats = NDArray[np.float32]
"""An update, or a part of one, in one row."""


class Restored(NamedTuple):
    """What is left of an update that went through codes."""

    update: Floats  # [N_mod]
    captured: float
    """Expected share of the update's squared norm retained by the code.

    An unbiased codec restores a vector of 1 / captured times the squared norm of the
    update: the surplus is noise. 1 if there is none.
    """
    apart: tuple[Group, ...] = ()
    """Arrays that were encoded by themselves; empty: all of them together."""


class UpdateCodec(Payload, Protocol):
    """A payload that carries an update as codes."""

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Any:
        """The codes of an update [N_mod], in ``bit_budget`` bits if the codec can choose."""

    def restore(self, codes: Any, rng: np.random.Generator, size: int) -> Restored:
        """The update [size] that codes stand for."""


Rngs = Sequence[np.random.Generator]
"""One for each row."""


@runtime_checkable
class RowCodec(Protocol):
    """An update codec that is faster for many updates at once."""

    def compress_rows(
        self, updates: Floats, rngs: Rngs, bit_budgets: Sequence[int | None]
    ) -> list[Any]:
        """The codes of each row."""

    def restore_rows(self, codes: Sequence[Any], rngs: Rngs, size: int) -> list[Restored]:
        """What the codes of each row stand for."""


def compress_rows(
    codec: UpdateCodec, updates: Floats, rngs: Rngs, bit_budgets: Sequence[int | None]
) -> list[Any]:
    """The codes of updates [n, N_mod], at once if the codec can."""
    if isinstance(codec, RowCodec):
        return codec.compress_rows(updates, rngs, bit_budgets)
    each = zip(updates, rngs, bit_budgets, strict=True)
    return [codec.compress(update, rng, bit_budget) for update, rng, bit_budget in each]


def restore_rows(codec: UpdateCodec, codes: Sequence[Any], rngs: Rngs, size: int) -> list[Restored]:
    """The updates that codes stand for, at once if the codec can."""
    if isinstance(codec, RowCodec):
        return codec.restore_rows(codes, rngs, size)
    return [codec.restore(own, rng, size) for own, rng in zip(codes, rngs, strict=True)]


def estimated_norm(restored: Floats, captured: float) -> float:
    """The norm of what was encoded."""
    # not np.linalg.norm, which shares out so short a sum to threads, in any order
    length = math.sqrt(float(np.sum(np.square(restored, dtype=np.float64))))
    return math.sqrt(captured) * length
