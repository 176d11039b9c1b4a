"""Codes of any width from 1 to 16 bits, packed without gaps."""

import numpy as np
from numpy.typing import NDArray

WIDEST = 16


def to_bits(codes: NDArray[np.uint16], width: int) -> NDArray[np.uint8]:
    """The lowest ``width`` bits of each code [n], one after the other: zeros and ones."""
    bits = np.unpackbits(codes.astype(">u2").view(np.uint8)).reshape(-1, WIDEST)
    return bits[:, WIDEST - width :].ravel()


def from_bits(bits: NDArray[np.uint8], width: int, count: int = -1) -> NDArray[np.uint16]:
    """The codes [n] that ``to_bits`` took apart; of width 0 there may be any ``count``."""
    count = len(bits) // width if count < 0 else count
    whole = np.zeros((count, WIDEST), dtype=np.uint8)
    whole[:, WIDEST - width :] = bits.reshape(count, width)
    return np.packbits(whole).view(">u2").astype(np.uint16)


def pack(codes: NDArray[np.uint16], width: int) -> bytes:
    """The lowest ``width`` bits of each code, one after the other, zeros up to a whole byte."""
    return np.packbits(to_bits(codes, width)).tobytes()


def unpack(data: bytes, count: int, width: int) -> NDArray[np.uint16]:
    """``count`` codes of ``width`` bits each, as ``pack`` wrote them."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width)
    return from_bits(bits, width, count)
