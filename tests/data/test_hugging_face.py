"""Datasets from and to Hugging Face; the partitions of flwr-datasets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld import (
    Dataset,
    InputError,
    dataset_from_hugging_face,
    dataset_to_hugging_face,
    dataset_with_partitions,
    run,
)
from mix2fld.config.settings import Config
from mix2fld.data.sources import load_dataset
from toys import examples, toy_config, toy_dataset

datasets = pytest.importorskip("datasets")

SHAPES = [(4, 5), (4, 5, 1), (4, 5, 3), (6,), (3, 2), (2, 3, 2)]


def drawn(shape: tuple[int, ...], dtype: str, seed: int, **fields: Any) -> Dataset:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 256, (n, *shape)).astype(dtype) for n in (7, 4)]
    labels = [rng.permutation(np.arange(n) % 3).astype(np.int32) for n in (7, 4)]
    return Dataset("drawn", inputs[0], labels[0], inputs[1], labels[1], 3, **fields)


@examples(12)
@given(st.sampled_from(SHAPES), st.sampled_from(["uint8", "float32", "int32"]), st.integers(0, 99))
def test_what_is_written_is_what_is_read(shape: tuple[int, ...], dtype: str, seed: int) -> None:
    before = drawn(shape, dtype, seed, label_names=("a", "b", "c"))
    after = dataset_from_hugging_face(dataset_to_hugging_face(before))
    for part in ("train", "test"):
        same = getattr(before, f"{part}_inputs")
        found = getattr(after, f"{part}_inputs")
        assert found.dtype == same.dtype
        np.testing.assert_array_equal(found.reshape(same.shape), same)
        np.testing.assert_array_equal(
            getattr(after, f"{part}_labels"), getattr(before, f"{part}_labels")
        )
    assert after.label_names == before.label_names


def test_pictures_are_bytes_with_channels_last() -> None:
    splits = dataset_to_hugging_face(drawn((4, 5), "uint8", 0))
    assert splits["train"].features["input"].__class__.__name__ == "Image"
    assert dataset_from_hugging_face(splits).sample_shape == (4, 5, 1)


def test_numbers_are_targets() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(9, 3)).astype(np.float32), np.arange(9, dtype=np.float32)
    numbers = Dataset(
        "n", inputs, test_inputs=inputs[:4], train_targets=targets, test_targets=targets[:4]
    )
    after = dataset_from_hugging_face(dataset_to_hugging_face(numbers), label_column="target")
    np.testing.assert_array_equal(after.train_values, targets)
    np.testing.assert_array_equal(after.train_inputs, inputs)


def test_names_of_labels_and_sources_are_numbered_in_sorted_order() -> None:
    rows = {"x": [[0.0, 1.0]] * 3, "kind": ["low", "high", "low"], "person": ["b", "a", "b"]}
    splits = {part: datasets.Dataset.from_dict(rows) for part in ("train", "test")}
    found = dataset_from_hugging_face(splits, label_column="kind", source_column="person")
    assert found.label_names == ("high", "low")
    assert found.train_labels.tolist() == [1, 0, 1]
    assert found.source_names == ("a", "b")
    assert found.train_sources is not None
    assert found.train_sources.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"test": "held"}, "held.*no such split; must be one of train, test"),
        ({"label_column": "kind"}, "kind.*no column; must be one of x, y, label"),
        ({}, "input_column.*must be one of x, y"),
        ({"input_column": "x"}, "samples have 2 shapes"),
    ],
)
def test_what_cannot_be_read_is_named(fields: dict[str, str], words: str) -> None:
    rows = {"x": [[1.0], [1.0, 2.0]], "y": [1, 2], "label": [0, 1]}
    splits = {part: datasets.Dataset.from_dict(rows) for part in ("train", "test")}
    with pytest.raises(InputError, match=words):
        dataset_from_hugging_face(splits, **fields)


def test_a_saved_folder_is_a_dataset(tmp_path: Path) -> None:
    toy = toy_dataset()
    folder = tmp_path / "toy"
    dataset_to_hugging_face(toy).save_to_disk(str(folder))
    read = load_dataset(Config.of(dataset=str(folder)).data)
    np.testing.assert_array_equal(read.train_labels, toy.train_labels)
    np.testing.assert_array_equal(
        read.train_inputs.reshape(toy.train_inputs.shape), toy.train_inputs
    )
    with pytest.raises(InputError, match="no dataset that datasets can read"):
        load_dataset(Config.of(dataset=str(tmp_path)).data)


def test_partitions_of_flwr_datasets_are_devices(tmp_path: Path) -> None:
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    toy = toy_dataset()
    partitioner = partitioners.DirichletPartitioner(
        num_partitions=3, partition_by="label", alpha=0.5, min_partition_size=4, seed=1
    )
    split = dataset_with_partitions(toy, partitioner)
    assert split.train_sources is not None
    for number in range(3):
        mine = np.flatnonzero(split.train_sources == number)
        theirs = partitioner.load_partition(number)["row"]
        np.testing.assert_array_equal(mine, np.sort(theirs))
    config = toy_config(protocol="fd", partition="by-source", devices=3)
    (result,) = run(config, tmp_path, dataset=split)
    assert result.summary["devices"]["all"] == 3


def test_a_sample_in_two_partitions_is_refused() -> None:
    class Twice:
        num_partitions = 2
        dataset: Any = None

        def load_partition(self, number: int) -> Any:
            return self.dataset.select([0, number])

    with pytest.raises(InputError, match=r"partitioner = 1.*has samples of an earlier partition"):
        dataset_with_partitions(toy_dataset(), Twice())
