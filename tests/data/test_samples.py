"""How samples are mixed, rounded and scaled, in the one place that does it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mix2fld.config.settings import Config
from mix2fld.data import device_parts
from mix2fld.data.samples import Coding, clip_to_real, mix, standardise, to_stored_units
from mix2fld.protocols.inverse_mixup import Groups, Pool, inverse_ratios, unmix
from mix2fld.protocols.seed_samples import mixed_samples
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.types import SampleFormat
from mix2fld_lab.attacks import measure
from toys import toy_dataset

PAIRS = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2)
"""Every pair of pixels, 65,536 in total."""
PIXELS = SampleFormat((1,))
WIDTHS = st.integers(1, 16)


@pytest.mark.parametrize("ratio", ["0.1", "0.2", "0.25", "0.3", "0.45", "0.001"])
def test_every_pair_of_pixels_rounds_as_exact_arithmetic_does(ratio: str) -> None:
    """Halves go to the even value, however floating point misses them."""
    exact = Fraction(ratio)
    pixels = mix(PAIRS.astype(np.uint8), (float(exact), 1 - float(exact)))
    expected = [round(exact * int(a) + (1 - exact) * int(b)) for a, b in PAIRS]
    np.testing.assert_array_equal(Coding(PIXELS, 8).carry(pixels), expected)


def test_plain_rounding_differs_for_520_pairs() -> None:
    """Why the care is needed: this many ties are decided by float noise at a ratio of 0.1."""
    pixels = mix(PAIRS.astype(np.uint8), (0.1, 0.9))
    assert (np.rint(pixels) != Coding(PIXELS, 8).carry(pixels)).sum() == 520


def test_privacy_is_measured_on_what_devices_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides agree, ties included: the pooled samples are those of ``mixed_samples``."""
    data = toy_dataset(1200)
    pools = []
    monkeypatch.setattr(
        measure, "find_groups", lambda pool, *_: pools.append(pool) or _no_groups(pool)
    )
    measure.measure(data, (0.1,), seed_samples=50, seed=3)
    config = Config.of(partition="iid", devices=2, seed=3, seed_samples=50, mixing_ratio=0.1)
    parts = device_parts(data, config)
    for bits, pool in zip((32, 8), pools, strict=True):
        with_bits = config.replace(seed_bits=bits)
        sizes = sizes_for(Classification(data.num_labels), with_bits, data.samples)
        uploaded = [
            mixed_samples(
                measure.stream(3, "seeds", device),
                data.train_inputs[part],
                data.train_labels[part],
                sizes,
            ).inputs
            for device, part in enumerate(parts)
        ]
        np.testing.assert_array_equal(pool.inputs, np.concatenate(uploaded))


def _no_groups(pool):
    size = pool.labels.shape[1]
    return Groups(np.zeros((0, size), np.int64), np.zeros((0, size), np.int32))


def test_scales_of_pixels_fit_together() -> None:
    stored = np.arange(256, dtype=np.uint8)
    codes, floats = Coding(PIXELS, 8), Coding(PIXELS, 32)
    pixels = stored.astype(np.float64)
    carried = floats.carry(pixels)
    assert carried.dtype == np.float32
    np.testing.assert_array_equal(carried, stored / np.float32(255))
    np.testing.assert_array_equal(codes.carry(pixels), stored)
    assert codes.as_fed(stored) is stored
    assert floats.as_fed(carried) is carried
    np.testing.assert_array_equal(codes.in_stored_units(stored), stored)
    np.testing.assert_allclose(floats.in_stored_units(carried), stored, rtol=1e-7)
    np.testing.assert_array_equal(to_stored_units(carried, PIXELS), floats.in_stored_units(carried))
    outside = np.array([-0.5, 0.25, 1.5], np.float32)
    np.testing.assert_array_equal(clip_to_real(outside, PIXELS), np.float32([0, 0.25, 1]))
    np.testing.assert_array_equal(codes.carry(to_stored_units(outside, PIXELS)), [0, 64, 255])


def test_codes_of_a_signal_by_hand() -> None:
    """Two bits over -1 to 2: -1, 0, 1 and 2; halves go to the even code, the rest is clipped."""
    coding = Coding(SampleFormat((8,), "float32", -1.0, 2.0), 2)
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.5, 2.0, -7.0, 9.0])
    codes = coding.carry(values)
    assert codes.tolist() == [0, 0, 1, 2, 2, 3, 0, 3]
    assert coding.as_fed(codes).tolist() == [-1, -1, 0, 1, 1, 2, -1, 2]
    assert coding.in_stored_units(codes).tolist() == [-1, -1, 0, 1, 1, 2, -1, 2]
    floats = Coding(coding.samples, 32)
    assert floats.carry(values).tolist() == [-1, -0.5, 0, 0.5, 1.5, 2, -1, 2]
    assert clip_to_real(values.astype(np.float32), coding.samples).tolist()[-2:] == [-1, 2]


def test_codes_of_pixels_span_the_whole_range() -> None:
    pixels = np.array([0.0, 127.4, 127.6, 255.0])
    assert Coding(PIXELS, 1).carry(pixels).tolist() == [0, 0, 1, 1]
    assert Coding(PIXELS, 16).carry(pixels).tolist() == [0, 32742, 32793, 65535]
    np.testing.assert_allclose(
        Coding(PIXELS, 16).as_fed(np.array([0, 257, 65535], np.uint16)), [0, 1 / 255, 1], rtol=1e-7
    )


@st.composite
def formats(draw: st.DrawFn) -> SampleFormat:
    """uint8, or float32 with a range that is wide compared with the spacing of its floats."""
    if draw(st.booleans()):
        return PIXELS
    low = draw(st.floats(-1e3, 1e3, width=32))
    span = draw(st.floats(2**-6, 1e4, width=32))
    high = float(np.float32(low + span))
    assume(max(abs(low), abs(high)) < 100 * (high - low))
    return SampleFormat((1,), "float32", low, high)


@st.composite
def values_in(draw: st.DrawFn, samples: SampleFormat, count: int = 12) -> np.ndarray:
    """Values in the units of storage, some of them outside the range."""
    unit = 255 if samples.dtype == "uint8" else 1
    parts = draw(hnp.arrays(np.float64, count, elements=st.floats(-0.2, 1.2)))
    return unit * (samples.low + parts * (samples.high - samples.low))


@given(st.data(), formats(), WIDTHS)
def test_rounding_twice_is_rounding_once(data, samples, bits) -> None:
    coding = Coding(samples, bits)
    codes = coding.carry(data.draw(values_in(samples)))
    np.testing.assert_array_equal(coding.carry(coding.in_stored_units(codes)), codes)
    fed = coding.as_fed(codes)
    again = fed if fed.dtype == np.uint8 else to_stored_units(fed, samples)
    np.testing.assert_array_equal(coding.carry(again.astype(np.float64)), codes)


@given(st.data(), formats(), WIDTHS)
def test_rounding_moves_a_value_by_half_a_step(data, samples, bits) -> None:
    coding, values = Coding(samples, bits), data.draw(values_in(samples))
    unit = 255 if samples.dtype == "uint8" else 1
    low, high = unit * samples.low, unit * samples.high
    step = (high - low) / (2**bits - 1)
    moved = coding.in_stored_units(coding.carry(values)) - np.clip(values, low, high)
    assert np.abs(moved).max() <= step / 2 * (1 + 1e-9) + 1e-9


@given(st.data(), formats(), st.one_of(WIDTHS, st.just(32)), st.floats(0.01, 0.45))
def test_unmixing_undoes_mixing_up_to_the_rounding(data, samples, bits, ratio) -> None:
    """Two devices mix the same two samples; what is restored is off by what Eq. 8 amplifies."""
    unit = 255 if samples.dtype == "uint8" else 1
    low, high = unit * samples.low, unit * samples.high
    pair = np.clip([data.draw(values_in(samples)) for _ in range(2)], low, high)
    pair = np.rint(pair).astype(np.uint8) if unit == 255 else pair.astype(np.float32)
    pair = pair if unit == 255 else np.clip(pair, np.float32(low), np.float32(high))
    ratios, coding = (ratio, 1 - ratio), Coding(samples, bits)
    mixed = mix(np.stack([pair, pair[::-1]]), ratios)
    pool = Pool(coding.carry(mixed), np.array([[0, 1], [1, 0]], np.int32), np.array([0, 1]))
    groups = Groups(np.array([[0, 1]]), np.array([[0, 1]], np.int32))
    restored = to_stored_units(unmix(pool, groups, ratios, coding)[0], samples)
    rounding = (high - low) / (2**bits - 1) / 2 if coding.rounds else 0.0
    floats = 1e-6 * (max(abs(low), abs(high)) + (high - low))
    amplified = np.abs(inverse_ratios(ratios)).sum(axis=1).max()
    np.testing.assert_allclose(restored, pair, rtol=0, atol=amplified * (rounding + floats))


def test_standardising_by_hand() -> None:
    raw = np.array([[[1.0, 10.0], [3.0, 30.0]]])
    made = standardise(raw, (2.0, 10.0), (0.5, 20.0))
    assert made.dtype == np.float32
    assert made.tolist() == [[[-2, 0], [2, 1]]]
