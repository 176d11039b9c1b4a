"""Datasets from and to Hugging Face ``datasets``, which is imported when it is used.

Partitions of ``flwr-datasets`` become sources: with the partition by-source, each is a device.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.dataset import Dataset

if TYPE_CHECKING:
    import datasets

INPUT, LABEL, TARGET, SOURCE = "input", "label", "target", "source"
"""The columns that ``dataset_to_hugging_face`` writes."""


def dataset_from_hugging_face(
    splits: "Mapping[str, datasets.Dataset]",
    *,
    input_column: str = "",
    label_column: str = LABEL,
    source_column: str | None = None,
    train: str = "train",
    test: str = "test",
    name: str = "hugging-face",
) -> Dataset:
    """Take a ``DatasetDict`` with labels, or with numbers in the label column, as a dataset.

    Samples are the only other column, or ``input_column``: pictures of one size and mode, or
    arrays of one shape. ``source_column`` says who recorded a sample.
    """
    _library()
    for split in (train, test):
        if split not in splits:
            raise InputError(field="dataset", value=split, hint=f"no such split; {_listed(splits)}")
    columns = splits[train].column_names
    for column in filter(None, (label_column, source_column, input_column)):
        if column not in columns:
            raise InputError(field="dataset", value=column, hint=f"no column; {_listed(columns)}")
    others = [column for column in columns if column not in (label_column, source_column)]
    if not input_column and len(others) != 1:
        raise InputError(field="input_column", hint=f"must be one of {', '.join(others) or 'none'}")
    inputs = {part: _samples(splits[part], input_column or others[0]) for part in (train, test)}
    sources, names = _numbered(splits, (train, test), source_column)
    dataset = _with_values(name, inputs, splits, (train, test), label_column)
    return replace(
        dataset, train_sources=sources[0], test_sources=sources[1], source_names=names
    ) if source_column else dataset  # fmt: skip


def _with_values(
    name: str,
    inputs: Mapping[str, NDArray[Any]],
    splits: "Mapping[str, datasets.Dataset]",
    parts: tuple[str, str],
    column: str,
) -> Dataset:
    """With labels, or with numbers where the column has floats."""
    train, test = parts
    kind = splits[train].features[column]
    if str(getattr(kind, "dtype", "")).startswith("float"):
        numbers = {part: np.asarray(splits[part][column][:], np.float32) for part in parts}
        return Dataset(
            name, inputs[train], test_inputs=inputs[test],
            train_targets=numbers[train], test_targets=numbers[test],
        )  # fmt: skip
    (first, second), names = _numbered(splits, parts, column)
    assert first is not None
    assert second is not None
    return Dataset(name, inputs[train], first, inputs[test], second, len(names), label_names=names)


def _numbered(
    splits: "Mapping[str, datasets.Dataset]", parts: tuple[str, str], column: str | None
) -> tuple[list[NDArray[np.int32] | None], tuple[str, ...]]:
    """A column of classes in each part as numbers, and their names: in sorted order, or stated."""
    if column is None:
        return [None, None], ()
    stated = getattr(splits[parts[0]].features[column], "names", None)
    values = [
        np.asarray(splits[part][column][:]) if column in splits[part].column_names else None
        for part in parts
    ]
    if stated:
        return [None if v is None else v.astype(np.int32) for v in values], tuple(stated)
    kinds, numbers = np.unique(
        np.concatenate([v for v in values if v is not None]), return_inverse=True
    )
    numbered: list[NDArray[np.int32] | None] = []
    for each in values:
        numbered.append(None if each is None else numbers[: len(each)].astype(np.int32))
        numbers = numbers[0 if each is None else len(each) :]
    return numbered, tuple(map(str, kinds.tolist()))


def _samples(split: "datasets.Dataset", column: str) -> NDArray[Any]:
    """One array of all samples; pictures as uint8 [height, width, channels]."""
    kind = split.features[column]
    stated = getattr(kind, "dtype", None) or getattr(getattr(kind, "feature", None), "dtype", None)
    dtype = stated if stated and kind.__class__.__name__ != "Image" else None
    values = [np.asarray(value, dtype) for value in split.with_format(None)[column]]
    shapes = {value.shape for value in values}
    if len(shapes) != 1:
        raise InputError(
            field="dataset",
            value=column,
            hint=f"samples have {len(shapes)} shapes, such as {sorted(shapes)[:2]}; "
            "must have one shape and mode",
        )
    samples = np.stack(values)
    return samples[..., None] if samples.dtype == np.uint8 and samples.ndim == 3 else samples


def read_saved(folder: Path, label_column: str, source_column: str | None) -> Dataset:
    """The dataset that ``DatasetDict.save_to_disk`` wrote into a folder."""
    datasets = _library()
    try:
        splits = datasets.load_from_disk(str(folder))
    except (OSError, ValueError):
        raise InputError(
            field="dataset", value=folder, hint="a folder with no dataset that datasets can read"
        ) from None
    if not isinstance(splits, Mapping):
        raise InputError(field="dataset", value=folder, hint="must have the splits train and test")
    return dataset_from_hugging_face(
        splits, label_column=label_column, source_column=source_column, name=folder.name
    )


def dataset_to_hugging_face(dataset: Dataset) -> "datasets.DatasetDict":
    """All samples as a ``DatasetDict`` with the splits train and test."""
    datasets = _library()
    parts = {}
    for part in ("train", "test"):
        inputs = getattr(dataset, f"{part}_inputs")
        columns: dict[str, Any] = {INPUT: _as_pictures(inputs) if _pictured(inputs) else inputs}
        if dataset.train_targets is not None:
            columns[TARGET] = getattr(dataset, f"{part}_targets")
        else:
            columns[LABEL] = getattr(dataset, f"{part}_labels")
        if (sources := getattr(dataset, f"{part}_sources")) is not None:
            columns[SOURCE] = sources
        parts[part] = datasets.Dataset.from_dict(columns, features=_features(dataset, columns))
    return datasets.DatasetDict(parts)


def _features(dataset: Dataset, columns: Mapping[str, Any]) -> Any:
    datasets = _library()
    inputs, shape = dataset.train_inputs, dataset.sample_shape
    value, number = datasets.Value(str(inputs.dtype)), datasets.Value("float32")
    if _pictured(inputs):
        kinds = {INPUT: datasets.Image()}
    elif len(shape) == 1:
        kinds = {INPUT: datasets.List(value, shape[0])}
    else:
        arrays = {2: datasets.Array2D, 3: datasets.Array3D, 4: datasets.Array4D}
        kinds = {INPUT: arrays[len(shape)](shape, value.dtype)}
    if TARGET in columns:
        kinds[TARGET] = number if columns[TARGET].ndim == 1 else datasets.List(number)
    else:
        names = dataset.label_names or [str(n) for n in range(dataset.num_labels)]
        kinds[LABEL] = datasets.ClassLabel(names=list(names))
    if SOURCE in columns:
        names = list(dataset.source_names)
        kinds[SOURCE] = datasets.ClassLabel(names=names) if names else datasets.Value("int32")
    return datasets.Features(kinds)


def _pictured(inputs: NDArray[Any]) -> bool:
    """Whether samples are pictures: bytes, grey or in three colours."""
    return inputs.dtype == np.uint8 and (
        inputs.ndim == 3 or (inputs.ndim == 4 and inputs.shape[-1] in (1, 3))
    )


def _as_pictures(inputs: NDArray[Any]) -> list[Any]:
    from PIL import Image

    grey = inputs[..., 0] if inputs.ndim == 4 and inputs.shape[-1] == 1 else inputs
    return [Image.fromarray(sample) for sample in grey]


def dataset_with_partitions(dataset: Dataset, partitioner: Any) -> Dataset:
    """The dataset with the partitions of a ``flwr_datasets`` partitioner as its sources.

    Run it with ``partition="by-source"`` and as many devices as there are partitions. Training
    samples that are in no partition are left out.
    """
    datasets = _library()
    columns = {"row": np.arange(len(dataset.train_inputs)), LABEL: dataset.train_labels}
    partitioner.dataset = datasets.Dataset.from_dict(columns)
    sources = np.full(len(dataset.train_inputs), -1, np.int32)
    for number in range(partitioner.num_partitions):
        rows = np.asarray(partitioner.load_partition(number)["row"][:], np.int64)
        if (sources[rows] >= 0).any():
            raise InputError(
                field="partitioner", value=number, hint="has samples of an earlier partition"
            )
        sources[rows] = number
    kept = sources >= 0
    return replace(
        dataset,
        train_inputs=dataset.train_inputs[kept],
        train_labels=dataset.train_labels[kept],
        train_sources=sources[kept],
        source_names=(),
        test_sources=None,
    )


def _listed(names: Any) -> str:
    return f"must be one of {', '.join(map(str, names))}"


def _library() -> Any:
    """The package ``datasets``."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            "Hugging Face datasets are not installed: pip install 'mix2fld[hugging-face]'"
        ) from None
    return datasets
