"""Read and check a custom dataset from a .npz file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.data.npz import MissingArrayError, read_npz
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.samples import standardise
from mix2fld.dataset import Dataset, FrozenNetwork, SampleFormat

_NAMES = {
    "train_inputs": ("x_train", "train_images"),
    "train_labels": ("y_train",),
    "test_inputs": ("x_test", "test_images"),
    "test_labels": ("y_test",),
}
_OF_NUMBERS = {
    "train_inputs": _NAMES["train_inputs"],
    "train_targets": (),
    "test_inputs": _NAMES["test_inputs"],
    "test_targets": (),
}
"""The arrays of the file, each with other names under which it is found."""
_OPTIONAL = (
    *("value_range", "mean", "std", "train_sources", "label_names", "source_names", "rate"),
)
"""Arrays that the file may hold besides: fields of ``Dataset``."""


class ValueFormat(NamedTuple):
    """What the target of every sample of a run is: one of so many labels, or so many numbers."""

    num_labels: int
    numbers: int = 0

    @property
    def name(self) -> str:
        """Of the arrays of a file that hold them, behind ``train_`` or ``test_``."""
        return "targets" if self.numbers else "labels"


def read_own_file(path: Path) -> Dataset:
    """Return the dataset in a .npz file; labels are 0 .. N_L - 1, each with a training sample.

    A file with ``train_targets`` has numbers in place of labels.
    """
    with _about(path):
        if _has_targets(path):
            return _dataset(path.stem, _arrays(path, _OF_NUMBERS), 0)
        arrays = _arrays(path)
        num_labels = _count_labels(arrays["train_labels"], arrays["test_labels"])
        return _dataset(path.stem, arrays, num_labels)


def read_device_file(path: Path, samples: SampleFormat, values: ValueFormat) -> Dataset:
    """Return one device's part of a dataset of this format; it need not hold every label.

    A file that does not say how its samples were standardised holds them as they were measured:
    they are standardised here, as those of all other devices.
    """
    with _about(path):
        arrays = _arrays(path, _OF_NUMBERS if values.numbers else _NAMES)
    return device_dataset(path, arrays, samples, values)


def device_dataset(
    path: Path, arrays: dict[str, NDArray[Any]], samples: SampleFormat, values: ValueFormat
) -> Dataset:
    """The same from arrays, wherever they come from; ``path`` names them in messages."""
    with _about(path):
        if samples.network is not None:
            arrays = _through_network(arrays, samples.network)
        for name in ("train_inputs", "test_inputs"):
            found = list(arrays[name].shape[1:])
            if found != list(samples.shape):
                raise InputError(f"{name} are {found}; this run has {list(samples.shape)}")
            if samples.mean and "mean" not in arrays:
                arrays[name] = standardise(arrays[name], samples.mean, samples.std)
        if samples.dtype == "float32":
            run = {
                "value_range": (samples.low, samples.high),
                "mean": samples.mean,
                "std": samples.std,
            }
            for name, numbers in run.items():
                stated = arrays.setdefault(name, np.array(numbers))
                if not _same_numbers(stated, numbers):
                    raise InputError(f"{name} is {stated.tolist()}; this run has {list(numbers)}")
        dataset = _dataset(path.stem, arrays, values.num_labels)
        if values.numbers and dataset.train_values[0].size != values.numbers:
            found = dataset.train_values[0].size
            raise InputError(
                f"train_targets are {found} numbers each; this run has {values.numbers}"
            )
        if dataset.samples.dtype != samples.dtype:
            raise InputError(f"samples are {dataset.samples.dtype}; this run has {samples.dtype}")
        return dataset


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Within the block, what is wrong is wrong with this file."""
    try:
        yield
    except (Mix2fldError, PlaceError, OSError, ValueError) as error:
        raise InputError(field="dataset", value=path, hint=f"{error}") from None


def _through_network(
    arrays: dict[str, NDArray[Any]], network: FrozenNetwork
) -> dict[str, NDArray[Any]]:
    """The vectors of samples as they were recorded; a file may hold the vectors themselves."""
    found = dict(arrays)
    for name in ("train_inputs", "test_inputs"):
        if arrays[name].shape[1:] == network.shape:
            from mix2fld.data.features.compute import features_of

            for numbers in ("value_range", "mean", "std"):  # those of what was recorded
                found.pop(numbers, None)
            found[name] = features_of(network, arrays[name])
    return found


def _same_numbers(stated: NDArray[Any], numbers: tuple[float, ...]) -> bool:
    """Whether they are the same to the precision of float32."""
    return stated.shape == (len(numbers),) and np.allclose(stated, numbers, rtol=1e-6, atol=0)


def _has_targets(path: Path) -> bool:
    try:
        read_npz(path, "train_targets")
    except (OSError, ValueError, MissingArrayError, PlaceError):
        return False
    return True


def _arrays(path: Path, names: Mapping[str, tuple[str, ...]] = _NAMES) -> dict[str, NDArray[Any]]:
    arrays = {name: _array(path, name, names) for name in names}
    for name in _OPTIONAL:
        try:
            arrays[name] = read_npz(path, name)
        except MissingArrayError:
            continue
    for part in ("train", "test"):
        inputs = arrays[f"{part}_inputs"]
        if inputs.dtype == np.uint8 and inputs.ndim == 3:
            arrays[f"{part}_inputs"] = inputs[..., np.newaxis]  # grey images
        if f"{part}_labels" not in arrays:
            continue
        labels = arrays[f"{part}_labels"] = _labels(f"{part}_labels", arrays[f"{part}_labels"])
        if len(inputs) != len(labels):
            raise InputError(
                f"{len(inputs)} {part}_inputs but {len(labels)} "
                f"{part}_labels; must be one label for each sample"
            )
    return arrays


def _dataset(name: str, arrays: dict[str, NDArray[Any]], num_labels: int) -> Dataset:
    fields: dict[str, Any] = dict(arrays)
    for field in ("value_range", "mean", "std", "label_names", "source_names"):
        if field in fields:
            fields[field] = tuple(fields[field].ravel().tolist())
    if "rate" in fields:
        fields["rate"] = _rate(fields["rate"])
    return Dataset(name, num_labels=num_labels, **fields)


def _rate(stated: NDArray[Any]) -> int:
    if stated.size != 1 or stated.dtype.kind not in "iuf" or not 0 < stated.item() < 2**31:
        raise InputError("rate must be one number above 0: samples of a recording per second")
    return round(stated.item())


def _array(path: Path, name: str, names: Mapping[str, tuple[str, ...]]) -> NDArray[Any]:
    try:
        return read_npz(path, name, *names[name])
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except MissingArrayError as error:
        other = f" (or {names[name][0]!r})" if names[name] else ""
        raise InputError(
            f"has no array {name!r}{other}; must hold {', '.join(names)}, but {error}"
        ) from None


def _labels(name: str, array: NDArray[Any]) -> NDArray[np.integer[Any]]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} is {array.dtype} of shape {list(array.shape)}; must be integers of shape [n]"
        )
    if array.min() < 0:
        raise InputError(f"{name} has label {array.min()}; must be 0 or above")
    if array.max() >= 2**31:
        raise InputError(f"{name} has label {array.max()}; must be below {2**31}")
    return array


def _count_labels(train: NDArray[np.integer[Any]], test: NDArray[np.integer[Any]]) -> int:
    seen = np.unique(train)
    if len(seen) != int(train.max()) + 1:
        gap = int(np.flatnonzero(seen != np.arange(len(seen)))[0])
        raise InputError(
            f"train_labels go up to {train.max()} but label {gap} has no sample; "
            "labels must be 0, 1, 2, ..., each with at least one sample"
        )
    if len(seen) < 2:
        raise InputError("train_labels has one label; must have at least two")
    if int(test.max()) >= len(seen):
        raise InputError(f"test_labels has label {test.max()}, which no training sample has")
    return len(seen)
