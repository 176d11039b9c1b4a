"""Streams: what NumPy draws from the numbers that name them, however they are read."""

import zlib

import numpy as np
import pytest

from mix2fld.base.streams import stream

NAMES = [
    (0, ()),
    (5, (1, 2)),
    (2**32 - 1, (7,)),
    (2**32, (7,)),
    (2**70, (0, 3)),
    (1, tuple(range(20))),
]


@pytest.mark.parametrize(("seed", "indices"), NAMES)
def test_a_stream_is_that_of_its_numbers(seed: int, indices: tuple[int, ...]) -> None:
    plain = np.random.default_rng([seed, zlib.crc32(b"purpose"), *indices])
    own = stream(seed, "purpose", *indices)
    assert own.integers(2**60, size=8).tolist() == plain.integers(2**60, size=8).tolist()
    for one, other in zip(own.spawn(2), plain.spawn(2), strict=True):
        assert one.random() == other.random()


def test_a_number_below_zero_names_no_stream() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        stream(-1, "purpose")
