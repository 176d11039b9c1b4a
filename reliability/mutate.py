"""Small random damage to bytes, and now and then large."""

import random
import re
from collections.abc import Callable, Sequence

TOKENS = (
    *(b"\x00", b"\xff", b"-1", b"0", b"1e999", b"nan", b"Infinity", b"9" * 30, b"\n", b"\r\n"),
    *(b"[", b"]" * 99, b"{" * 999, b'"', b"=", b"../", b"/etc/passwd", b"\\", b"format = 9"),
    *(b'"format": 9', b"self", b"__class__", b"true", b"null", b"PK\x03\x04", b"PK\x01\x02"),
    *(
        b"\x93NUMPY",
        b"cos\nsystem\n",
        b"\x80\x04",
        b"\x00\x00\x08\x03",
        b"\x1f\x8b",
        b"\xed\xa0\x80",
    ),
)


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """The bytes after one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_WAYS)(data, rng, others)
    return data


def _flip(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    new = rng.choice(TOKENS)
    return data[:at] + new + data[at + len(new) :]


def _insert(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _cut(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    begin = rng.randrange(len(data) + 1)
    return data[:begin] + data[begin + rng.randrange(1, 40) :]


def _repeat(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    begin = rng.randrange(len(data) + 1)
    end = begin + rng.randrange(1, 200)
    return data[:end] + data[begin:end] * rng.choice((1, 2, 50)) + data[end:]


def _splice(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Another number in place of one that is written out."""
    found = list(re.finditer(rb"\d+", data[:20_000]))
    if not found:
        return _flip(data, rng, others)
    place = rng.choice(found)
    new = rng.choice((b"0", b"-1", b"2", b"4294967296", b"1e308", b"0.5", b"1" * 5000))
    return data[: place.start()] + new + data[place.end() :]


def _size(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A huge number in place of four or eight bytes."""
    at, width = rng.randrange(len(data) + 1), rng.choice((4, 8))
    huge = rng.choice((2**31 - 1, 2**32 - 1, 2**24, 1)).to_bytes(
        width, rng.choice(("big", "little"))
    )
    return data[:at] + huge + data[at + width :]


_WAYS: tuple[Callable[[bytes, random.Random, Sequence[bytes]], bytes], ...] = (
    *(_flip, _flip, _overwrite, _insert, _cut, _drop, _repeat, _splice, _number, _size),
)
