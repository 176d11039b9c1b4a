"""Small seeds: means of neighbouring values on the uplink, interpolated at the server."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from mix2fld.base.errors import InputError
from mix2fld.data.resolution import enlarge, pool, pooled_shape
from mix2fld.runs.simulation import check, make_simulation, run
from mix2fld.types import Dataset
from toys import toy_config, toy_dataset


def test_pooling_by_hand() -> None:
    image = np.arange(16.0).reshape(1, 4, 4, 1)
    small = pool(image, pooled_shape((4, 4, 1), 2))
    np.testing.assert_array_equal(small[0, ..., 0], [[2.5, 4.5], [10.5, 12.5]])
    series = np.array([[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 9.0]]])
    np.testing.assert_array_equal(pool(series, pooled_shape((4, 2), 2)), [[[1, 2], [5, 7]]])


def test_enlarging_by_hand() -> None:
    """A mean stands in the middle of its values: quarters between, and the nearest at the ends."""
    series = np.array([[[0.0], [4.0]]])
    np.testing.assert_allclose(enlarge(series, (4, 1))[0, :, 0], [0, 1, 3, 4])
    np.testing.assert_allclose(enlarge(series, (8, 1))[0, :, 0], [0, 0, 0.5, 1.5, 2.5, 3.5, 4, 4])


@pytest.mark.parametrize("factor", [2, 4])
def test_enlarging_is_scipys_bilinear_zoom(factor: int) -> None:
    images = np.random.default_rng(0).random((3, 7, 5, 2))
    zoom = (1, factor, factor, 1)
    expected = ndimage.zoom(images, zoom, order=1, mode="nearest", grid_mode=True)
    np.testing.assert_allclose(enlarge(images, (7 * factor, 5 * factor, 2)), expected, atol=1e-12)


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=3), st.sampled_from([1, 2, 3]), st.integers(0)
)
def test_planes_survive_inside_and_means_everywhere(
    small: list[int], factor: int, seed: int
) -> None:
    """A constant sample comes back as it is; pooling what was enlarged keeps the overall mean."""
    shape = (factor * small[0], *[factor * n for n in small[1:2]], *small[2:])
    shape = (factor * small[0], small[1]) if len(small) == 2 else shape
    values = np.random.default_rng(seed % 2**32).random((2, *shape))
    reduced = pool(values, pooled_shape(shape, factor))
    assert reduced.shape[1:] == pooled_shape(shape, factor)
    np.testing.assert_allclose(reduced.mean(), values.mean())
    constant = np.full_like(values, 0.3)
    again = enlarge(pool(constant, pooled_shape(shape, factor)), shape)
    np.testing.assert_allclose(again, constant)
    large = enlarge(reduced, shape)
    assert large.min() >= reduced.min() - 1e-12
    assert large.max() <= reduced.max() + 1e-12


@pytest.mark.parametrize(
    ("shape", "pooling", "words"),
    [
        ((28, 28, 1), 3, r"seed_pooling = 3: samples are \[28, 28, 1\]; must divide 28"),
        ((28, 28, 1), 56, r"seed_pooling = 56: .*must divide 28: 1, 2, 4, 7, 14, 28$"),
        ((12, 8, 3), 6, "must divide 12 and 8: 1, 2, 4$"),
        ((10, 6), 4, "must divide 10"),
        ((16,), 2, r"seed_pooling = 2: samples are \[16\], not images .* must be 1"),
        ((2, 4, 4, 1), 2, "not images"),
    ],
)
def test_what_cannot_be_pooled_is_refused(shape: tuple[int, ...], pooling: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        pooled_shape(shape, pooling)


def test_small_seeds_are_charged_by_their_size() -> None:
    sizes = {}
    for fields in ({}, {"seed_pooling": 2, "seed_bits": 4}):
        config = toy_config(protocol="mixfld", seed_samples=9, **fields)
        wire = make_simulation(config, toy_dataset()).scenario.wire
        whole = wire.upload_size(with_seeds=True).bits - wire.upload_size(with_seeds=False).bits
        sizes[bool(fields)] = whole
    assert sizes == {False: 9 * (64 * 8 + 2 * 2), True: 9 * (16 * 4 + 2 * 2)}


@pytest.mark.parametrize("protocol", ["fld", "mixfld", "mix2fld"])
@pytest.mark.parametrize("bits", [1, 4, 8, 32])
def test_the_server_learns_from_samples_of_full_size(protocol: str, bits: int) -> None:
    config = toy_config(protocol=protocol, seed_pooling=2, seed_bits=bits, rounds=1)
    simulation = make_simulation(config, toy_dataset())
    state, info = simulation.run_round(simulation.start())
    seeds = state.server.seed_set
    assert seeds is not None
    assert seeds.inputs.shape[1:] == (8, 8, 1)
    assert seeds.inputs.dtype == np.float32
    assert info.scores["global"] is not None


def test_series_are_pooled_along_time() -> None:
    rng = np.random.default_rng(1)
    labels = (np.arange(300) % 3).astype(np.int32)
    series = (rng.normal(size=(300, 12, 2)) + labels[:, None, None]).astype(np.float32)
    dataset = Dataset("series", series[:240], labels[:240], series[240:], labels[240:], 3)
    config = toy_config(protocol="mixfld", model="mlp", seed_pooling=4, seed_bits=6, rounds=1)
    simulation = make_simulation(config, dataset)
    assert simulation.scenario.learning.dims.seed_shape == (3, 2)
    state, _ = simulation.run_round(simulation.start())
    assert state.server.seed_set is not None
    assert state.server.seed_set.inputs.shape[1:] == (12, 2)


def one_label_on_device_2(by_label: Any, data: Any, rng: np.random.Generator) -> Any:
    del data
    mixed = rng.permutation(np.concatenate(by_label))
    return [mixed[:40], mixed[40:80], by_label[1][:40], mixed[80:120]]


def test_a_device_with_one_label_cannot_mix(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from mix2fld.data import PARTITIONS

    monkeypatch.setitem(PARTITIONS, "lonely", one_label_on_device_2)
    config = toy_config(protocol="mixfld", partition="lonely")
    words = r"device 2: mixing_ratio = \[0.1\]: mixes 2 samples .* holds only 1 label"
    with pytest.raises(InputError, match=words):
        check(config, toy_dataset())
    assert not check(config.replace(protocol="fld", seed_samples=4), toy_dataset())


def test_too_few_pairs_for_inverse_mixup_are_one_message() -> None:
    """Devices with different pairs of labels have nothing to unmix with each other."""
    config = toy_config(protocol="mix2fld", partition="shards", shards_per_device=2, devices=2)
    with pytest.raises(InputError, match="hold 0 groups of 2 with rotated labels"):
        run(config, dataset=toy_dataset())
