"""Custom datasets, as .npz files."""

import numpy as np
import pytest

from mix2fld.config import DataConfig
from mix2fld.data import dataset_sizes, load_dataset
from mix2fld.errors import InputError


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
    assert dataset_sizes(DataConfig(dataset=str(path))) == ((5, 4, 1), 3)


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
        ({"train_inputs": np.zeros((6, 5, 4))}, "train_inputs is float64"),
        ({"train_inputs": np.zeros((6, 5), np.uint8)}, r"train_inputs is uint8 of shape \[6, 5\]"),
        ({"train_inputs": np.zeros((5, 5, 4), np.uint8)}, "5 train_inputs but 6 train_labels"),
        ({"test_inputs": np.zeros((3, 5, 5), np.uint8)}, "5 x 4 x 1 but test_inputs are 5 x 5 x 1"),
        ({"test_inputs": np.zeros((0, 5, 4), np.uint8)}, "test_inputs is uint8 of shape"),
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
