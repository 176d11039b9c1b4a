"""Codes of any width from 1 to 16 bits, packed without gaps."""

import numpy as np
from numpy.typing import NDArray


def pack(codes: NDArray[np.uint16], width: int) -> bytes:
    """The lowest ``width`` bits of each code, one after the other, zeros up to a whole byte."""
    bits = np.unpackbits(codes.astype(">u2").view(np.uint8)).reshape(-1, 16)
    return np.packbits(bits[:, 16 - width :]).tobytes()


def unpack(data: bytes, count: int, width: int) -> NDArray[np.uint16]:
    """``count`` codes of ``width`` bits each, as ``pack`` wrote them."""
    bits = np.zeros((count, 16), dtype=np.uint8)
    packed = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width)
    bits[:, 16 - width :] = packed.reshape(count, width)
    return np.packbits(bits).view(">u2").astype(np.uint16)
