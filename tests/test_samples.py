"""How samples are mixed, rounded and scaled, in the one place that does it."""

from fractions import Fraction

import numpy as np
import pytest

from mix2fld.config import Config, SeedingConfig
from mix2fld.data import device_parts
from mix2fld.data.samples import (
    as_uploaded,
    clip_to_real,
    for_display,
    mix,
    to_8_bits,
    to_pixels,
    to_unit_range,
)
from mix2fld.device.seeds import mixed_samples
from mix2fld.privacy import measure
from mix2fld.server.inverse_mixup import Groups
from toys import toy_dataset

PAIRS = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2)
"""Every pair of pixels, 65,536 in total."""


@pytest.mark.parametrize("ratio", ["0.1", "0.2", "0.25", "0.3", "0.45", "0.001"])
def test_every_pair_of_pixels_rounds_as_exact_arithmetic_does(ratio: str) -> None:
    """Halves go to the even value, however floating point misses them."""
    exact = Fraction(ratio)
    pixels = mix(PAIRS.astype(np.uint8), (float(exact), 1 - float(exact)))
    expected = [round(exact * int(a) + (1 - exact) * int(b)) for a, b in PAIRS]
    np.testing.assert_array_equal(to_8_bits(pixels), expected)


def test_plain_rounding_differs_for_520_pairs() -> None:
    """Why the care is needed: this many ties are decided by float noise at a ratio of 0.1."""
    pixels = mix(PAIRS.astype(np.uint8), (0.1, 0.9))
    assert (np.rint(pixels) != to_8_bits(pixels)).sum() == 520


def test_privacy_is_measured_on_what_devices_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides agree, ties included: the pooled samples are those of ``mixed_samples``."""
    data = toy_dataset(1200)
    pools = []
    monkeypatch.setattr(
        measure, "find_groups", lambda pool, *_: pools.append(pool) or _no_groups(pool)
    )
    measure.measure(data, (0.1,), seed_samples=50, seed=3)
    config = SeedingConfig(seed_samples=50, mixing_ratio=(0.1,))
    parts = device_parts(data, Config.of(partition="iid", devices=2, seed=3))
    for bits, pool in zip((32, 8), pools, strict=True):
        bits_config = config.model_copy(update={"seed_bits_per_pixel": bits})
        uploaded = [
            mixed_samples(
                measure.stream(3, "seeds", device),
                data.train_inputs[part],
                data.train_labels[part],
                bits_config,
            ).inputs
            for device, part in enumerate(parts)
        ]
        np.testing.assert_array_equal(pool.inputs, np.concatenate(uploaded))


def _no_groups(pool):
    size = pool.labels.shape[1]
    return Groups(np.zeros((0, size), np.int64), np.zeros((0, size), np.int32))


def test_scales_fit_together() -> None:
    stored = np.arange(256, dtype=np.uint8)
    carried = as_uploaded(stored.astype(np.float64), 32)
    assert carried.dtype == np.float32
    np.testing.assert_array_equal(carried, to_unit_range(stored))
    np.testing.assert_array_equal(to_unit_range(carried), carried)
    np.testing.assert_array_equal(to_pixels(stored), stored)
    np.testing.assert_allclose(to_pixels(carried), stored, rtol=1e-7)
    for images in (stored, carried):
        np.testing.assert_array_equal(for_display(images), stored)
    outside = np.array([-0.5, 0.25, 1.5], np.float32)
    np.testing.assert_array_equal(clip_to_real(outside), np.array([0, 0.25, 1], np.float32))
    np.testing.assert_array_equal(for_display(outside), [0, 64, 255])
