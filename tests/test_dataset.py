"""A dataset created in Python is validated."""

import numpy as np
import pytest

from mix2fld.errors import InputError
from mix2fld.types import Dataset
from toys import toy_dataset

GOOD = {
    "name": "mine",
    "train_inputs": np.zeros((6, 4, 4, 1), np.uint8),
    "train_labels": np.array([0, 1, 2, 0, 1, 2]),
    "test_inputs": np.zeros((3, 4, 4, 1), np.uint8),
    "test_labels": np.array([0, 1, 2]),
    "num_labels": 3,
}


def test_labels_of_any_integer_type_are_accepted() -> None:
    for kind in (np.uint8, np.int64, np.int32):
        labels = np.array([0, 1, 2, 0, 1, 2], kind)
        data = Dataset(**{**GOOD, "train_labels": labels})
        assert data.train_labels.dtype == np.int32
        np.testing.assert_array_equal(data.train_labels, labels)
    assert toy_dataset().sample_shape == toy_dataset().train_inputs.shape[1:]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("train_inputs", np.zeros((6, 4, 4, 1), np.float32), "train_inputs: float32"),
        ("train_inputs", np.zeros((6, 4, 4), np.uint8), r"must be uint8 \[n, H, W, C\]"),
        ("train_inputs", np.zeros((5, 4, 4, 1), np.uint8), "one for each of 5 images"),
        ("train_labels", np.zeros(6), "train_labels: float64"),
        ("train_labels", np.array([0, 1, 2, 3, 1, 2]), "from 0 to 3; must be from 0 to 2"),
        ("test_labels", np.array([-1, 1, 2]), "test_labels: from -1 to 2"),
        ("test_labels", np.array([0]), "one for each of 3 images"),
        ("test_inputs", np.zeros((3, 5, 4, 1), np.uint8), r"test_inputs: \[5, 4, 1\] each"),
    ],
)
def test_invalid_arrays_are_named(name, value, words) -> None:
    with pytest.raises(InputError, match=words):
        Dataset(**{**GOOD, name: value})


def test_an_empty_array_is_named() -> None:
    empty = {"test_inputs": np.zeros((0, 4, 4, 1), np.uint8), "test_labels": np.zeros(0, int)}
    with pytest.raises(InputError, match="test_inputs: there are none"):
        Dataset(**{**GOOD, **empty})
