"""Rotations by machine code: the bits of an upload must not depend on who has a compiler."""

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import RotatedUpdate, rotation
from mix2fld.codecs.rotation import Rotation, draw_choices
from mix2fld.native.rotation import rotation_kernel
from mix2fld.types import Dimensions, SampleFormat

pytestmark = pytest.mark.skipif(rotation_kernel() is None, reason="no compiler here")
SIZES = [1, 2, 3, 4, 5, 31, 421, 4095, 12_544]


@pytest.fixture
def tried_anew() -> Iterator[None]:
    for tried in (rotation.usable_kernel, rotation.check_draws):
        tried.cache_clear()
    yield
    for tried in (rotation.usable_kernel, rotation.check_draws):
        tried.cache_clear()


def draws_one_more(rng: np.random.Generator, size: int) -> rotation.Choices:
    """NumPy may change what a generator draws from version to version."""
    rng.random()
    return draw_choices(rng, size)


def in_groups(size: int, seed: int) -> np.ndarray:
    """Groups of several lengths, which may leave out some coordinates."""
    lengths = np.random.default_rng(seed).integers(1, 6, size)
    return lengths[np.cumsum(lengths) <= size] if size > 5 else np.ones(1, np.int64)


def picked_and_placed(
    vector: np.ndarray, lengths: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    within, found = rotation.pick([np.random.default_rng(seed)], vector[None], [0.3], lengths)
    back = rotation.place([np.random.default_rng(seed)], len(vector), lengths, within, found)
    return within[0], found[0], back[0]


@given(size=st.one_of(st.sampled_from(SIZES), st.integers(1, 700)), seed=st.integers(0, 10**6))
def test_kernel_and_numpy_agree_to_the_bit(size: int, seed: int) -> None:
    kernel = rotation.usable_kernel()
    assert kernel is not None
    drawn = kernel.draw(np.random.default_rng(seed), size)
    assert all(map(np.array_equal, drawn, draw_choices(np.random.default_rng(seed), size)))
    vector = (np.random.default_rng(seed).standard_cauchy(size) * 1e-3).astype(np.float32)
    lengths = in_groups(size, seed)
    fast = picked_and_placed(vector, lengths, seed)
    with mock.patch.object(rotation, "usable_kernel", return_value=None):
        plain = picked_and_placed(vector, lengths, seed)
    assert [part.tobytes() for part in fast] == [part.tobytes() for part in plain]


@given(size=st.integers(1, 300), seed=st.integers(0, 99))
def test_picks_are_the_largest_rotated_coordinates_of_their_groups(size: int, seed: int) -> None:
    vector = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    lengths = in_groups(size, seed)
    within, found, back = picked_and_placed(vector, lengths, seed)
    turned = Rotation(np.random.default_rng(seed), size)
    dealt = (turned.forward(vector) / np.float32(0.3))[turned.choices.dealt]
    start, placed = 0, np.zeros(size, np.float32)
    for length, place, value in zip(lengths, within, found, strict=True):
        group = np.abs(dealt[start : start + length])
        assert place == int(np.argmax(group))
        assert value == dealt[start + place]
        placed[turned.choices.dealt[start + place]] = value
        start += length
    np.testing.assert_array_equal(back, turned.backward(placed))


def test_of_equal_magnitudes_the_first_is_the_largest() -> None:
    """Updates with few values, such as a single weight that moved, rotate to many equal ones."""
    vector = np.zeros(256, np.float32)
    vector[17] = -1
    for lengths in (np.full(8, 32), np.array([2, 2])):
        within, found, _ = picked_and_placed(vector, lengths, 3)
        assert len(np.unique(np.abs(found))) == 1
        assert within.tolist() == [0] * len(lengths)
        with mock.patch.object(rotation, "usable_kernel", return_value=None):
            assert picked_and_placed(vector, lengths, 3)[0].tolist() == [0] * len(lengths)


@pytest.mark.parametrize("largest_per_group", [True, False])
@pytest.mark.parametrize("bits", [20, 200, 4000, 12_000, 12_560, 40_000])
def test_a_payload_is_the_same_without_a_kernel(
    bits: int, largest_per_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, size = RotatedUpdate(largest_per_group=largest_per_group, bits=bits), 12_544
    dims = Dimensions(((size,),), 4, SampleFormat((8, 8, 1)), 10, 8, (8, 8, 1))
    sent, read = [], []
    for kernel in (rotation.usable_kernel(), None):
        monkeypatch.setattr(rotation, "usable_kernel", lambda kernel=kernel: kernel)
        for device in range(3):
            update = np.random.default_rng(device).standard_t(2, size).astype(np.float32)
            codes = codec.compress(update, stream(1, "update", 1, device), None)
            sent.append(codec.encode(codes, dims).data)
            read.append(codec.restore(codes, stream(1, "update", 1, device), size).update.tobytes())
    assert sent[:3] == sent[3:]
    assert read[:3] == read[3:]
    assert len(set(sent)) == 3


def test_a_kernel_that_draws_otherwise_than_numpy_is_not_used(
    tried_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "draw_choices", draws_one_more)
    assert rotation.usable_kernel() is None


def test_a_numpy_that_draws_otherwise_is_refused_with_one_message(
    tried_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the server would add noise to its model, and nobody would notice."""
    monkeypatch.setattr(rotation, "draw_choices", draws_one_more)
    with pytest.raises(InputError, match=r"^numpy = [\d.]+: draws random numbers that differ"):
        Rotation(np.random.default_rng(0), 8)


def test_a_generator_that_keeps_half_of_a_draw_is_left_to_numpy() -> None:
    """The kernel would begin with the next whole draw."""
    vector, lengths = np.random.default_rng(1).normal(size=100).astype(np.float32), np.ones(100)
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    for each in (rng, other):
        each.integers(2, dtype=np.int32)
    _, (found,) = rotation.pick([rng], vector[None], [1.0], lengths.astype(np.int64))
    turned = Rotation(other, 100)
    assert np.array_equal(found, turned.forward(vector)[turned.choices.dealt])
