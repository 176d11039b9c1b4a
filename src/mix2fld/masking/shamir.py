"""Shares of a secret: so many of them determine it, fewer say nothing (Shamir, 1979)."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

PRIME = (1 << 255) - 19
SECRET_BYTES, SHARE_BYTES = 31, 32
"""A secret is a number below 2^248, a share one below the prime."""
DRAWN_BYTES = 48
"""For each coefficient, so that its remainder is uniform to 2^-129."""


class MaskError(ValueError):
    """What no party that follows the protocol would send; the text is one line."""


def split(
    secret: bytes, devices: Iterable[int], threshold: int, draw: Callable[[int], bytes]
) -> dict[int, bytes]:
    """A share for each device, of which ``threshold`` determine the secret."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes; must be {SECRET_BYTES}")
    drawn = draw(DRAWN_BYTES * (threshold - 1))
    parts = (drawn[at : at + DRAWN_BYTES] for at in range(0, len(drawn), DRAWN_BYTES))
    coefficients = [int.from_bytes(part, "little") % PRIME for part in parts]
    found = {}
    for device in devices:
        value, at = 0, _point(device)
        for coefficient in coefficients:
            value = (value + coefficient) * at % PRIME
        value = (value + int.from_bytes(secret, "little")) % PRIME
        found[device] = value.to_bytes(SHARE_BYTES, "little")
    return found


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret of at least ``threshold`` shares; raises ``MaskError`` if they have none."""
    if len(shares) < threshold:
        raise MaskError(f"{len(shares)} shares of a secret; must be at least {threshold}")
    devices = tuple(sorted(shares)[:threshold])
    numbers = [int.from_bytes(shares[device], "little") for device in devices]
    pairs = zip(_at_zero(devices), numbers, strict=True)
    secret = sum(factor * number for factor, number in pairs) % PRIME
    if secret >> (8 * SECRET_BYTES):
        raise MaskError("shares that belong to no secret")
    return secret.to_bytes(SECRET_BYTES, "little")


@lru_cache(maxsize=64)
def _at_zero(devices: tuple[int, ...]) -> tuple[int, ...]:
    """What each share counts in the polynomial's value at zero (Lagrange)."""
    points, found = [_point(device) for device in devices], []
    for own in points:
        above, below = 1, 1
        for other in points:
            if other != own:
                above = above * other % PRIME
                below = below * (other - own) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(found)


def _point(device: int) -> int:
    """Where the polynomial is evaluated for a device: never at zero, where the secret is."""
    return device + 1
