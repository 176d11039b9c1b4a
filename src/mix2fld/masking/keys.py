"""Agreements of two devices (X25519), what they seal for each other, and masks of a seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.masking.shamir import MaskError

Words = NDArray[np.uint32]
KEY_BYTES, TAG_BYTES = 32, 16
MOST_BITS = 32


def crypto() -> Any:
    """The package that has the ciphers."""
    try:
        from mix2fld.masking import ciphers
    except ImportError:
        raise InputError(
            "sums = masked needs cryptography, which is not installed; install it with: pip "
            "install cryptography"
        ) from None
    return ciphers


def mask_of(seed: bytes, count: int, bits: int) -> Words:
    """So many numbers below 2^bits, as the stream cipher draws them from a seed."""
    drawn = np.frombuffer(crypto().keystream(seed, 4 * count), "<u4")
    return (drawn & np.uint32((1 << bits) - 1)).astype(np.uint32)


def opened(key: bytes, data: bytes, place: bytes, sender: int) -> bytes:
    """What was sealed for its receiver; raises ``MaskError`` if it was not, or changed."""
    found: bytes | None = crypto().unseal(key, data, place, sender)
    if found is None:
        raise MaskError(f"shares of device {sender} that cannot be opened")
    return found
