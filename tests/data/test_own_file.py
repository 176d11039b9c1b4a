"""Custom datasets, as .npz files."""

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.config.settings import DataConfig
from mix2fld.data import dataset_sizes, load_dataset
from mix2fld.data.own_file import ValueFormat, read_device_file
from mix2fld.types import SampleFormat


def own_arrays(**changed):
    rng = np.random.default_rng(0)
    arrays = {
        "train_inputs": rng.integers(0, 256, (6, 5, 4), dtype=np.uint8),
        "train_labels": np.array([0, 1, 2, 0, 1, 2]),
        "test_inputs": rng.integers(0, 256, (3, 5, 4), dtype=np.uint8),
        "test_labels": np.array([2, 1, 0], dtype=np.uint8),
    } | changed
    return {name: array for name, array in arrays.items() if array is not None}


def load_own(path):
    return load_dataset(DataConfig(dataset=str(path)))


def test_own_file(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **own_arrays())
    dataset = load_own(path)
    assert (dataset.name, dataset.sample_shape, dataset.num_labels) == ("mine", (5, 4, 1), 3)
    assert np.array_equal(dataset.train_inputs[..., 0], own_arrays()["train_inputs"])
    assert dataset.test_labels.tolist() == [2, 1, 0]
    assert dataset.test_labels.dtype == np.int32
    assert dataset_sizes(DataConfig(dataset=str(path))) == (SampleFormat((5, 4, 1)), 3)


def test_own_file_with_keras_names_and_label_columns(tmp_path):
    keras = ("x_train", "y_train", "x_test", "y_test")
    arrays = dict(zip(keras, own_arrays().values(), strict=True))
    arrays["y_train"] = arrays["y_train"][:, None]
    np.savez_compressed(tmp_path / "k.npz", **arrays)
    assert load_own(tmp_path / "k.npz").train_labels.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_labels": None}, r"has no array 'test_labels' \(or 'y_test'\)"),
        ({"train_inputs": np.zeros((6, 5, 4))}, "test_inputs: uint8; training samples are fl"),
        ({"train_inputs": np.zeros(6, np.uint8)}, r"train_inputs: uint8\[6\]; must be samples"),
        ({"train_inputs": np.full((6, 5, 4), "a")}, "train_inputs: <U1; must be uint8"),
        ({"train_inputs": np.zeros((5, 5, 4), np.uint8)}, "5 train_inputs but 6 train_labels"),
        (
            {"test_inputs": np.zeros((3, 5, 5), np.uint8)},
            r"test_inputs: \[5, 5, 1\] each; training samples",
        ),
        ({"test_inputs": np.zeros((0, 5, 4), np.uint8)}, "0 test_inputs but 3 test_labels"),
        ({"value_range": np.array([0, 1])}, "only float32 samples have one"),
        ({"train_sources": np.array([0, 1])}, "train_sources: int64"),
        ({"train_labels": np.arange(6.0)}, "train_labels is float64"),
        ({"train_labels": np.array([0, 1, 2, 0, 1, -1])}, "label -1"),
        (
            {"train_labels": np.array([0, 1, 2, 0, 1, 2**31])},
            "label 2147483648; must be below",
        ),
        ({"train_labels": np.array([0, 1, 3, 0, 1, 3])}, "label 2 has no sample"),
        ({"train_labels": np.array([1, 2, 3, 1, 2, 3])}, "label 0 has no sample"),
        ({"train_labels": np.zeros(6, int)}, "at least two"),
        ({"test_labels": np.array([0, 1, 3])}, "test_labels has label 3"),
        ({"train_labels": np.array([{}] * 6)}, "train_labels cannot be read"),
    ],
)
def test_own_file_with_invalid_arrays(tmp_path, changed, message):
    path = tmp_path / "mine.npz"
    np.savez(path, **own_arrays(**changed))
    with pytest.raises(InputError, match=message) as caught:
        load_own(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nothing", b"text"])
def test_own_file_that_is_not_npz(tmp_path, content):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        load_own(path)
    with pytest.raises(InputError, match="there is no such file"):
        load_own(tmp_path / "absent.npz")


def test_own_file_of_one_array(tmp_path):
    with (tmp_path / "mine.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InputError, match=r"must be a \.npz file of four"):
        load_own(tmp_path / "mine.npz")


def signals(**changed):
    rng = np.random.default_rng(1)
    return own_arrays(
        train_inputs=rng.normal(size=(6, 5, 4)), test_inputs=rng.normal(size=(3, 5, 4)), **changed
    )


def test_signals_with_all_that_is_recorded(tmp_path):
    path = tmp_path / "mine.npz"
    arrays = signals(
        value_range=np.array([-3.0, 3.0]),
        mean=np.arange(4.0),
        std=np.arange(4.0) + 1,
        train_sources=np.arange(6) // 2,
        label_names=np.array(["run", "walk", "sit"]),
    )
    np.savez(path, **arrays)
    data = load_own(path)
    expected = SampleFormat(
        (5, 4), "float32", -3.0, 3.0, (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0)
    )
    assert data.samples == expected
    assert data.train_sources.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.label_names == ("run", "walk", "sit")
    assert np.array_equal(data.train_inputs, arrays["train_inputs"].astype(np.float32))
    assert dataset_sizes(DataConfig(dataset=str(path))) == (expected, 3)


FORMAT = SampleFormat((5, 4), "float32", -3.0, 3.0)


@pytest.mark.parametrize(
    ("changed", "samples", "words"),
    [
        ({}, SampleFormat((4, 5), "float32"), r"are \[5, 4\]; this run has \[4, 5\]"),
        ({}, SampleFormat((5, 4)), "samples are float32; this run has uint8"),
        ({"value_range": np.array([0, 1])}, FORMAT, r"value_range is \[0, 1\]; this run has \[-3"),
        ({"mean": np.ones(4), "std": np.ones(4)}, FORMAT, r"mean is .* this run has \[\]"),
    ],
)
def test_a_device_whose_samples_are_stored_otherwise(tmp_path, changed, samples, words):
    path = tmp_path / "mine.npz"
    np.savez(path, **signals(**changed))
    with pytest.raises(InputError, match=words):
        read_device_file(path, samples, ValueFormat(3))


def test_a_device_standardises_what_nobody_has(tmp_path):
    """Measured samples are treated as the server says; those that were treated stay as they are."""
    mean, std = (1.0, 0.0, -1.0, 2.0), (2.0, 1.0, 0.5, 4.0)
    samples = SampleFormat((5, 4), "float32", -9.0, 9.0, mean, std)
    np.savez(tmp_path / "raw.npz", **signals())
    raw = read_device_file(tmp_path / "raw.npz", samples, ValueFormat(3))
    assert raw.samples == samples
    expected = (signals()["train_inputs"] - np.array(mean)) / np.array(std)
    np.testing.assert_allclose(raw.train_inputs, expected, rtol=1e-6)
    treated = {
        **signals(), "train_inputs": raw.train_inputs, "test_inputs": raw.test_inputs,
        "mean": mean, "std": std,
    }  # fmt: skip
    np.savez(tmp_path / "treated.npz", **treated)
    again = read_device_file(tmp_path / "treated.npz", samples, ValueFormat(3))
    assert np.array_equal(again.train_inputs, raw.train_inputs)


def test_a_file_is_standardised_and_given_a_range_when_asked(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **signals(value_range=np.array([-9.0, 9.0])))
    plain = load_own(path)
    data = load_dataset(DataConfig(dataset=str(path), standardise="always", value_range=(-4, 4)))
    flat = plain.train_inputs.reshape(-1, 4).astype(np.float64)
    np.testing.assert_allclose(data.mean, flat.mean(axis=0))
    np.testing.assert_allclose(data.std, flat.std(axis=0))
    restored = data.test_inputs * np.array(data.std) + np.array(data.mean)
    np.testing.assert_allclose(restored, plain.test_inputs, atol=1e-6)
    assert (plain.value_range, data.value_range) == ((-9, 9), (-4, 4))


@pytest.mark.parametrize(
    ("arrays", "fields", "words"),
    [
        (own_arrays(), {"standardise": "always"}, r"samples are uint8 \[5, 4, 1\]; only float32"),
        (own_arrays(), {"value_range": (0, 1)}, "only float32 samples have one"),
        (
            signals() | {"train_inputs": signals()["train_inputs"] * np.array([1, 1, 0, 1])},
            {"standardise": "always"},
            "channel 2: is 0 in every training sample and cannot be standardised",
        ),
        (signals(), {"value_range": (1, -1)}, r"value_range = \(1.0, -1.0\): must be two numbers"),
        (signals(mean=np.ones(4), std=np.ones(4)), {"standardise": "always"}, "only once"),
    ],
)
def test_what_cannot_be_standardised_or_ranged(tmp_path, arrays, fields, words):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(InputError, match=words):
        load_dataset(DataConfig(dataset=str(tmp_path / "mine.npz"), **fields))
