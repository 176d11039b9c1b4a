"""Read and check a custom dataset from a .npz file."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.npz import MissingArrayError, read_npz
from mix2fld.data.readers import PlaceError
from mix2fld.errors import InputError

_NAMES = {
    "train_inputs": ("x_train", "train_images"),
    "train_labels": ("y_train",),
    "test_inputs": ("x_test", "test_images"),
    "test_labels": ("y_test",),
}
"""The arrays of the file, each with other names under which it is found."""


class OwnArrays(NamedTuple):
    """The contents of the file, checked."""

    train_inputs: NDArray[np.uint8]  # [n, H, W, C]
    train_labels: NDArray[np.int32]  # [n]
    test_inputs: NDArray[np.uint8]  # [m, H, W, C]
    test_labels: NDArray[np.int32]  # [m]
    num_labels: int


def read_own_file(path: Path, num_labels: int | None = None) -> OwnArrays:
    """Return the four arrays of a .npz file; labels are 0 .. N_L - 1, each with a training sample.

    If ``num_labels`` is given, the file is one device's part, which need not hold every label.
    """
    arrays = {name: _array(path, name) for name in _NAMES}
    images = [_images(path, name, arrays[name]) for name in ("train_inputs", "test_inputs")]
    labels = [_labels(path, name, arrays[name]) for name in ("train_labels", "test_labels")]
    for kind, some_images, some_labels in zip(("train", "test"), images, labels, strict=True):
        if len(some_images) != len(some_labels):
            raise InputError(
                f"dataset = {path}: {len(some_images)} {kind}_inputs but {len(some_labels)} "
                f"{kind}_labels; must be one label for each image"
            )
    if images[0].shape[1:] != images[1].shape[1:]:
        raise InputError(
            f"dataset = {path}: train_inputs are {_by(images[0])} but test_inputs are "
            f"{_by(images[1])}; both must have the same height, width and channels"
        )
    if num_labels is None:
        num_labels = _count_labels(path, *labels)
    elif (highest := max(int(some.max()) for some in labels)) >= num_labels:
        raise InputError(f"dataset = {path}: has label {highest}; must be below {num_labels}")
    train, test = (some.astype(np.int32) for some in labels)
    return OwnArrays(images[0], train, images[1], test, num_labels)


def _array(path: Path, name: str) -> NDArray[Any]:
    try:
        return read_npz(path, name, *_NAMES[name])
    except FileNotFoundError:
        raise InputError(f"dataset = {path}: there is no such file") from None
    except MissingArrayError as error:
        raise InputError(
            f"dataset = {path}: has no array {name!r} (or {_NAMES[name][0]!r}); must hold "
            f"{', '.join(_NAMES)}, but {error}"
        ) from None
    except (PlaceError, OSError, ValueError) as error:
        raise InputError(f"dataset = {path}: {error}") from None


def _images(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or array.size == 0:
        raise InputError(
            f"dataset = {path}: {name} is {array.dtype} of shape {list(array.shape)}; must be "
            "uint8 pixels in 0..255 of shape [n, H, W] or [n, H, W, C]"
        )
    return array[..., np.newaxis] if array.ndim == 3 else array


def _labels(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.integer[Any]]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1 or array.size == 0:
        raise InputError(
            f"dataset = {path}: {name} is {array.dtype} of shape {list(array.shape)}; must be "
            "integers of shape [n]"
        )
    if array.min() < 0:
        raise InputError(f"dataset = {path}: {name} has label {array.min()}; must be 0 or above")
    if array.max() >= 2**31:
        raise InputError(f"dataset = {path}: {name} has label {array.max()}; must be below {2**31}")
    return array


def _count_labels(
    path: Path, train: NDArray[np.integer[Any]], test: NDArray[np.integer[Any]]
) -> int:
    seen = np.unique(train)
    if len(seen) != int(train.max()) + 1:
        gap = int(np.flatnonzero(seen != np.arange(len(seen)))[0])
        raise InputError(
            f"dataset = {path}: train_labels go up to {train.max()} but label {gap} has no sample; "
            "labels must be 0, 1, 2, ..., each with at least one sample"
        )
    if len(seen) < 2:
        raise InputError(f"dataset = {path}: train_labels has one label; must have at least two")
    if int(test.max()) >= len(seen):
        raise InputError(
            f"dataset = {path}: test_labels has label {test.max()}, which no training sample has"
        )
    return len(seen)


def _by(images: NDArray[np.uint8]) -> str:
    return " x ".join(str(size) for size in images.shape[1:])
