"""A dataset created in Python is validated."""

import hashlib

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.data import fingerprint
from mix2fld.types import Dataset, SampleFormat
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
        ("train_inputs", np.zeros((6, 4, 4, 1), np.float32), "uint8; training samples are fl"),
        ("train_inputs", np.zeros(6, np.uint8), r"uint8\[6\]; must be samples \[n, ...\]"),
        ("train_inputs", np.zeros((6, 4, 4, 1), complex), "complex128; must be uint8, float32 or"),
        ("train_inputs", np.full((6, 4), -1), "from -1 to -1; integers other than uint8 are token"),
        ("train_inputs", np.zeros((5, 4, 4, 1), np.uint8), "one for each of 5 samples"),
        ("train_labels", np.zeros(6), "train_labels: float64"),
        ("train_labels", np.array([0, 1, 2, 3, 1, 2]), "from 0 to 3; must be from 0 to 2"),
        ("test_labels", np.array([-1, 1, 2]), "test_labels: from -1 to 2"),
        ("test_labels", np.array([0]), "one for each of 3 samples"),
        ("test_inputs", np.zeros((3, 5, 4, 1), np.uint8), r"test_inputs: \[5, 4, 1\] each"),
        ("num_labels", 1, "train_labels: from 0 to 2; must be from 0 to 0"),
        ("value_range", (0, 255), "only float32 samples have one; these are uint8"),
        ("mean", (1.0,), "mean and std: 1 and 0 numbers for uint8 samples"),
        ("train_sources", np.zeros(5, int), "train_sources: int64.*one for each of 6 training"),
        ("train_sources", np.zeros(6), "train_sources: float64"),
        ("train_sources", np.arange(6) - 1, "train_sources: from -1 to 4; must be 0 or above"),
    ],
)
def test_invalid_arrays_are_named(name, value, words) -> None:
    with pytest.raises(InputError, match=words):
        Dataset(**{**GOOD, name: value})


def test_an_empty_array_is_named() -> None:
    empty = {"test_inputs": np.zeros((0, 4, 4, 1), np.uint8), "test_labels": np.zeros(0, int)}
    with pytest.raises(InputError, match=r"test_inputs: uint8.* at least one"):
        Dataset(**{**GOOD, **empty})


SIGNALS = {
    **GOOD,
    "train_inputs": np.arange(48, dtype=np.float32).reshape(6, 4, 2) - 8,
    "test_inputs": np.zeros((3, 4, 2), np.float32),
}


def test_float_samples_have_the_range_of_those_to_train_with() -> None:
    data = Dataset(**SIGNALS)
    assert data.value_range == (-8, 39)
    assert data.samples == SampleFormat((4, 2), "float32", -8.0, 39.0)
    given = Dataset(**SIGNALS, value_range=(-1, 0.1), mean=(1.0, 2.0), std=(3.0, 4.0))
    tenth = float(np.float32(0.1))
    assert given.samples == SampleFormat((4, 2), "float32", -1.0, tenth, (1.0, 2.0), (3.0, 4.0))
    assert str(given.samples) == "float32 [4, 2] from -1 to 0.1, standardised"


def test_other_numbers_are_converted() -> None:
    wide = {name: SIGNALS[name].astype(np.float64) for name in ("train_inputs", "test_inputs")}
    assert Dataset(**{**SIGNALS, **wide}).samples.dtype == "float32"
    tokens = {name: np.abs(SIGNALS[name]).astype(np.int64) for name in wide}
    data = Dataset(**{**SIGNALS, **tokens})
    assert (data.samples.dtype, data.samples.mixable) == ("int32", False)
    assert Dataset(**GOOD).samples == SampleFormat((4, 4, 1))


NOT_A_NUMBER = SIGNALS["train_inputs"].copy()
NOT_A_NUMBER[3, 1, 0] = np.nan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_inputs": NOT_A_NUMBER}, "train_inputs: sample 3 has a value that is not finite"),
        ({"test_inputs": np.full((3, 4, 2), 1e39)}, "test_inputs: sample 0 has a value that is"),
        ({"train_inputs": np.ones((6, 4, 2))}, "all training samples are the same"),
        ({"value_range": (2, -1)}, r"value_range = \(2, -1\): must be two numbers, the smaller"),
        ({"value_range": (1, 1)}, "the smaller one first"),
        ({"value_range": (0, np.inf)}, "must be two numbers"),
        ({"value_range": (0, 1, 2)}, "must be two numbers"),
        ({"mean": (0.0,), "std": (1.0,)}, "1 and 1 numbers for float32 samples of 2 channels"),
        ({"mean": (0.0, 0.0), "std": (1.0, 0.0)}, "std above 0"),
        ({"mean": (0.0, np.nan), "std": (1.0, 1.0)}, "finite numbers"),
    ],
)
def test_bad_float_samples_are_named(changes, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        Dataset(**{**SIGNALS, **changes})
    assert "\n" not in str(caught.value)


def test_a_fingerprint_covers_all_that_decides_the_numbers() -> None:
    """That of plain uint8 samples is the one of version 0.1.0."""
    digest = hashlib.sha256()
    data = toy_dataset()
    for array in (data.train_inputs, data.train_labels, data.test_inputs, data.test_labels):
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    assert fingerprint(data) == digest.hexdigest()[:16]
    variants = [
        GOOD,
        {**GOOD, "train_sources": np.arange(6)},
        {**GOOD, "train_sources": np.arange(6) // 2},
        SIGNALS,
        {**SIGNALS, "value_range": (-8, 40)},
        {**SIGNALS, "mean": (0.0, 0.0), "std": (1.0, 1.0)},
        {**SIGNALS, "mean": (0.0, 0.0), "std": (1.0, 2.0)},
    ]
    prints = [fingerprint(Dataset(**fields)) for fields in variants]
    assert len(set(prints)) == len(prints)
    assert fingerprint(Dataset(**SIGNALS, value_range=(-8, 39))) == prints[3]
