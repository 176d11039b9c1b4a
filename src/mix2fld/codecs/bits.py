"""Codes of any width up to 32 bits, packed without gaps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
"""Zeros and ones, one to an entry."""


def to_bits(codes: NDArray[Any], width: int) -> Bits:
    """The lowest ``width`` bits of each code, one after the other, the highest first."""
    container = _container_bits(width)
    bits = np.unpackbits(codes.astype(f">u{container // 8}").view(np.uint8)).reshape(-1, container)
    return bits[:, container - width :].ravel()


def from_bits(bits: Bits, width: int, count: int = -1) -> NDArray[np.uint32]:
    """The codes that ``to_bits`` took apart; of width 0 there may be any ``count``."""
    count = len(bits) // width if count < 0 else count
    container, padded = _container_bits(width), bits
    if width < container:
        padded = np.zeros((count, container), np.uint8)
        padded[:, container - width :] = bits.reshape(count, width)
    return np.packbits(padded).view(f">u{container // 8}").astype(np.uint32)


def _container_bits(width: int) -> int:
    """Bits of the smallest number of whole bytes that NumPy has a type for."""
    return 8 if width <= 8 else 16 if width <= 16 else 32


def pack(codes: NDArray[Any], width: int) -> bytes:
    """The lowest ``width`` bits of each code, one after the other, zeros up to a whole byte."""
    return np.packbits(to_bits(codes, width)).tobytes()


def unpack(data: bytes, count: int, width: int) -> NDArray[np.uint16]:
    """``count`` codes of at most 16 bits each, as ``pack`` wrote them."""
    packed = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width)
    return from_bits(packed, width, count).astype(np.uint16)
