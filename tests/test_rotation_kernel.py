"""Rotations by machine code: the bits of an upload must not depend on who has a compiler."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.errors import InputError
from mix2fld.link.payloads import RotatedUpdate, rotation
from mix2fld.link.payloads.rotation import Rotation, draw_choices
from mix2fld.native.rotation import rotation_kernel
from mix2fld.streams import stream
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


def both(size: int, seed: int) -> tuple[Rotation, Rotation]:
    fast = Rotation(np.random.default_rng(seed), size)
    assert fast._kernel is not None
    return fast, Rotation(np.random.default_rng(seed), size, plain=True)


@given(size=st.one_of(st.sampled_from(SIZES), st.integers(1, 700)), seed=st.integers(0, 10**6))
def test_kernel_and_numpy_agree_to_the_bit(size: int, seed: int) -> None:
    fast, plain = both(size, seed)
    for mine, other in zip(fast.choices, plain.choices, strict=True):
        assert np.array_equal(mine, other)
    vector = (np.random.default_rng(seed).standard_cauchy(size) * 1e-3).astype(np.float32)
    turned = fast.forward(vector)
    assert turned.tobytes() == plain.forward(vector).tobytes()
    assert fast.backward(turned).tobytes() == plain.backward(turned).tobytes()


def test_of_equal_magnitudes_the_first_is_the_largest() -> None:
    """Updates with few values, such as a single weight that moved, rotate to many equal ones."""
    fast, plain = both(256, 3)
    vector = np.zeros(256, np.float32)
    vector[17] = -1
    turned = fast.forward(vector)
    assert len(np.unique(np.abs(turned))) == 1
    for groups in (fast.choices.dealt.reshape(8, 32), np.array([[4, 1], [2, 3]], np.int32)):
        assert fast.largest(turned, groups).tolist() == [0] * len(groups)
        assert plain.largest(turned, groups).tolist() == [0] * len(groups)


@pytest.mark.parametrize("picks", [True, False])
@pytest.mark.parametrize("bits", [20, 200, 4000, 12_000, 12_560, 40_000])
def test_a_payload_is_the_same_without_a_kernel(
    bits: int, picks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, size = RotatedUpdate(picks=picks, bits=bits), 12_544
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
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    for each in (rng, other):
        each.integers(2, dtype=np.int32)
    found = Rotation(rng, 100).choices
    assert all(map(np.array_equal, found, draw_choices(other, 100)))
