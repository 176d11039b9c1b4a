"""Many updates at once: each gets the codes, and is restored to the bits, that it has alone."""

import numpy as np
import pytest

from mix2fld.codecs import (
    LargestEntries,
    PayloadError,
    RotatedUpdate,
    UpdateCodec,
    compress_rows,
    restore_rows,
    with_last_layer_apart,
)
from mix2fld.types import Dimensions, SampleFormat

SHAPES = ((30, 12), (12,), (12, 10), (10,))
SIZE = 502
DIMS = Dimensions(SHAPES, 10, SampleFormat((8, 8, 1)), 10, 8, (8, 8, 1))
VARIABLE = RotatedUpdate(largest_per_group=True, bits=400, variable_rate=True)
CODECS: dict[str, UpdateCodec] = {
    "largest": RotatedUpdate(largest_per_group=True, bits=200),
    "levels": RotatedUpdate(largest_per_group=False, bits=1200),
    "least error": RotatedUpdate(largest_per_group=False, bits=530, min_mse=True),
    "variable": VARIABLE,
    "split": with_last_layer_apart(VARIABLE, 0.4, DIMS, (2, 3)),
    "one after the other": LargestEntries(0.05),
}


def streams(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


@pytest.mark.parametrize("name", CODECS)
def test_rows_are_coded_as_each_is_alone(name: str) -> None:
    codec, budgets = CODECS[name], [None, 24, 160, 32, 160, 0, 400]
    updates = np.random.default_rng(1).standard_t(2, (len(budgets), SIZE)).astype(np.float32)
    updates[3] = 0
    rows = compress_rows(codec, updates, streams(len(budgets)), budgets)
    sent = [codec.encode(codes, DIMS) for codes in rows]
    each = zip(updates, streams(len(budgets)), budgets, strict=True)
    assert sent == [codec.encode(codec.compress(*own), DIMS) for own in each]
    read = [codec.decode(own.data, DIMS) for own in sent]
    together = restore_rows(codec, read, streams(len(budgets)), SIZE)
    for own, codes, rng in zip(together, read, streams(len(budgets)), strict=True):
        alone = codec.restore(codes, rng, SIZE)
        assert own.update.tobytes() == alone.update.tobytes()
        assert own[1:] == alone[1:]


def test_no_rows_are_none() -> None:
    for codec in CODECS.values():
        assert compress_rows(codec, np.zeros((0, SIZE), np.float32), [], []) == []
        assert restore_rows(codec, [], [], SIZE) == []


def test_a_budget_is_that_of_its_row() -> None:
    rows = compress_rows(VARIABLE, np.ones((2, SIZE), np.float32), streams(2), [80, 240])
    assert [own.bits for own in rows] == [80, 240]
    with pytest.raises(PayloadError, match="bits; must be from"):
        VARIABLE.decode(bytes(2), DIMS)
