"""File formats: decode the bytes of a place to arrays, and verify them.

Nothing here opens a connection or trusts a header: every size is known before a file is decoded.
"""

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.catalogue import DatasetInfo, LayoutName
from mix2fld.data.place_errors import PlaceError, one_line
from mix2fld.data.unpickle import array_of, load_plain_pickle
from mix2fld.data.watch import WATCH_FILE, read_recordings, windows_of, worn_arm

Bytes = NDArray[np.uint8]


class Arrays(NamedTuple):
    """A dataset in the form that its checksums refer to."""

    train_inputs: NDArray[Any]  # [n, ...]
    train_labels: Bytes  # [n]
    test_inputs: NDArray[Any]  # [m, ...]
    test_labels: Bytes  # [m]
    train_sources: Bytes = np.zeros(0, np.uint8)  # [n], or empty


@dataclass(frozen=True)
class Layout:
    """How the four arrays are stored in files."""

    files: Callable[[DatasetInfo], dict[str, int]]
    """Names of the files, and the largest size in bytes of each."""
    decode: Callable[[Mapping[str, bytes], DatasetInfo], Arrays]


def decode(layout: LayoutName, files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
    """Return the arrays in ``files``, verified against the catalogue."""
    for name, md5 in info.file_md5s.items():
        if name in files and md5_of(files[name]) != md5:
            raise PlaceError(f"MD5 of {name} differs from the published one")
    try:
        arrays = LAYOUTS[layout].decode(files, info)
    except PlaceError:
        raise
    except Exception as error:  # damaged bytes can make a decoder raise anything
        raise PlaceError(f"the files cannot be decoded ({one_line(error)})") from None
    verify(info, arrays)
    return arrays


def verify(info: DatasetInfo, arrays: Arrays) -> None:
    """Raise ``PlaceError`` unless these are the arrays that the catalogue describes."""
    sources = (info.train_count if info.source_names else 0,)
    expected = {
        "train_inputs": (info.train_count, *info.sample_shape),
        "train_labels": (info.train_count,),
        "test_inputs": (info.test_count, *info.sample_shape),
        "test_labels": (info.test_count,),
        "train_sources": sources,
    }
    for name, shape in expected.items():
        array, kind = getattr(arrays, name), info.dtype if name.endswith("inputs") else "uint8"
        if array.dtype != kind or array.shape != shape:
            raise PlaceError(f"{name} are {array.dtype} {array.shape}; must be {kind} {shape}")
    for (name, array), checksum in zip(
        arrays._asdict().items(), info.checksums or (), strict=False
    ):
        if sha256_of(array) != checksum:
            raise PlaceError(f"{name} differ from the published {info.name} (SHA-256)")
    if not info.checksums:
        _verify_balance(info, arrays)


def _verify_balance(info: DatasetInfo, arrays: Arrays) -> None:
    for name, labels in (("train", arrays.train_labels), ("test", arrays.test_labels)):
        counts = np.bincount(labels, minlength=info.num_labels)
        if not np.array_equal(counts, [len(labels) // info.num_labels] * info.num_labels):
            raise PlaceError(f"{name}_labels differ from the published {info.name}: not balanced")


def sha256_of(array: NDArray[Any]) -> str:
    """SHA-256 of ``array.tobytes()``."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def md5_of(content: bytes) -> str:
    """MD5, which the official CIFAR files are published with; no defence against forgery."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


# --- IDX: a header of big-endian sizes, then the bytes -------------------------------------------

_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx_header(shape: tuple[int, ...]) -> bytes:
    """The header of an IDX file of unsigned bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, 8, len(shape)]) + sizes


def _idx_shapes(info: DatasetInfo) -> dict[str, tuple[int, ...]]:
    height, width, _ = info.sample_shape
    train, test = info.train_count, info.test_count
    shapes = ((train, height, width), (train,), (test, height, width), (test,))
    return dict(zip(_IDX_FILES, shapes, strict=True))


def _idx_sizes(info: DatasetInfo) -> dict[str, int]:
    shapes = _idx_shapes(info)
    return {name: len(idx_header(shape)) + _product(shape) for name, shape in shapes.items()}


def _decode_idx(files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
    arrays = []
    for name, shape in _idx_shapes(info).items():
        header = idx_header(shape)
        if not files[name].startswith(header) or len(files[name]) != len(header) + _product(shape):
            raise PlaceError(f"{name} is not an IDX file of {shape} bytes")
        flat = np.frombuffer(files[name], np.uint8, offset=len(header))
        arrays.append(flat.reshape(-1, *info.sample_shape) if len(shape) > 1 else flat)
    return Arrays(*arrays)


def _product(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))


# --- CSV: a header line, then label and pixels of one sample per line ----------------------------


def _csv_sizes(info: DatasetInfo) -> dict[str, int]:
    line = 4 * (1 + _product(info.sample_shape)) + 2
    header = 8 * line
    return {
        "mnist_train.csv": header + line * info.train_count,
        "mnist_test.csv": header + line * info.test_count,
    }


def _decode_csv(files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
    arrays = []
    for name in _csv_sizes(info):
        table = np.loadtxt(io.BytesIO(files[name]), np.uint8, delimiter=",", skiprows=1, ndmin=2)
        arrays += [np.ascontiguousarray(table[:, 1:]).reshape(-1, *info.sample_shape), table[:, 0]]
    return Arrays(*arrays)


# --- PNG: one sample per row, as consecutive pixels; labels in JSON -------------------------

_PNG_TRAIN = tuple(f"data_batch_{batch}.png" for batch in range(1, 6))
_PNG_TEST = ("test_batch.png",)
_PNG_TRAIN_LABELS, _PNG_TEST_LABELS = "train_lables.json", "test_lables.json"  # spelt so in there


def _png_sizes(info: DatasetInfo) -> dict[str, int]:
    sample = _product(info.sample_shape)
    slack = 1 << 20
    train_batch = info.train_count // len(_PNG_TRAIN) * sample + slack
    return {
        **dict.fromkeys(_PNG_TRAIN, train_batch),
        **dict.fromkeys(_PNG_TEST, info.test_count * sample + slack),
        _PNG_TRAIN_LABELS: 8 * info.train_count + 8,
        _PNG_TEST_LABELS: 8 * info.test_count + 8,
    }


def _decode_png(files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
    return Arrays(
        np.concatenate(
            [_png_rows(files[name], info.train_count // 5, info) for name in _PNG_TRAIN]
        ),
        _json_labels(files[_PNG_TRAIN_LABELS]),
        np.concatenate([_png_rows(files[name], info.test_count, info) for name in _PNG_TEST]),
        _json_labels(files[_PNG_TEST_LABELS]),
    )


def _png_rows(content: bytes, count: int, info: DatasetInfo) -> Bytes:
    from PIL import Image

    height, width, _ = info.sample_shape
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        if image.size != (height * width, count) or image.mode != "RGB":
            raise PlaceError(
                f"an image is {image.mode} {image.size}; must be RGB {(height * width, count)}"
            )
        return np.asarray(image).reshape(-1, *info.sample_shape)


def _json_labels(content: bytes) -> Bytes:
    return np.array(json.loads(content), dtype=np.uint8)


# --- CIFAR: label bytes and three colour planes, as records or in a pickled dictionary -----------


@dataclass(frozen=True)
class _Cifar:
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    label_key: bytes
    label_bytes: int = 1  # the last one is the label

    def sizes(self, info: DatasetInfo) -> dict[str, int]:
        record = self.label_bytes + _product(info.sample_shape)
        train = record * (info.train_count // len(self.train_files))
        test = record * (info.test_count // len(self.test_files))
        return dict.fromkeys(self.train_files, train) | dict.fromkeys(self.test_files, test)

    def pickle_sizes(self, info: DatasetInfo) -> dict[str, int]:
        return {name: size + size // 8 + (1 << 20) for name, size in self.sizes(info).items()}

    def decode_binary(self, files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
        return self._join(lambda name: self._records(files[name], info), info)

    def decode_pickle(self, files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
        return self._join(lambda name: self._pickled(files[name]), info)

    def _records(self, content: bytes, info: DatasetInfo) -> tuple[Bytes, Bytes]:
        width = self.label_bytes + _product(info.sample_shape)
        records = np.frombuffer(content, np.uint8).reshape(-1, width)
        return records[:, self.label_bytes :], records[:, self.label_bytes - 1]

    def _pickled(self, content: bytes) -> tuple[Bytes, Bytes]:
        batch = load_plain_pickle(content)
        return array_of(batch[b"data"]), np.array(batch[self.label_key], dtype=np.uint8)

    def _join(self, read: Callable[[str], tuple[Bytes, Bytes]], info: DatasetInfo) -> Arrays:
        height, width, channels = info.sample_shape
        arrays: list[Bytes] = []
        for names in (self.train_files, self.test_files):
            planes, labels = zip(*map(read, names), strict=True)
            images = np.concatenate(planes).reshape(-1, channels, height, width)
            arrays += [np.ascontiguousarray(images.transpose(0, 2, 3, 1)), np.concatenate(labels)]
        return Arrays(*arrays)


# --- Smartwatch ----------------------------------------------------------------------------------


def _watch_sizes(info: DatasetInfo) -> dict[str, int]:
    del info
    return {WATCH_FILE: 1 << 25}


def _decode_watch(files: Mapping[str, bytes], info: DatasetInfo) -> Arrays:
    """Windows of the arm that wears the watch to train with, of the other arm to test with."""
    recordings, length = read_recordings(files[WATCH_FILE]), info.sample_shape[0]
    worn = worn_arm(recordings)
    train, test = (windows_of(recordings, arm, length) for arm in (worn, ~worn))
    return Arrays(train.inputs, train.labels, test.inputs, test.labels, train.sources)


_BATCHES = tuple(f"data_batch_{batch}" for batch in range(1, 6))
_CIFAR10_BINARY = _Cifar(tuple(f"{name}.bin" for name in _BATCHES), ("test_batch.bin",), b"")
_CIFAR10_PICKLE = _Cifar(_BATCHES, ("test_batch",), b"labels")
_CIFAR100_BINARY = _Cifar(("train.bin",), ("test.bin",), b"", label_bytes=2)
_CIFAR100_PICKLE = _Cifar(("train",), ("test",), b"fine_labels")

LAYOUTS: dict[LayoutName, Layout] = {
    "idx": Layout(_idx_sizes, _decode_idx),
    "csv": Layout(_csv_sizes, _decode_csv),
    "png-rows": Layout(_png_sizes, _decode_png),
    "cifar10-binary": Layout(_CIFAR10_BINARY.sizes, _CIFAR10_BINARY.decode_binary),
    "cifar10-pickle": Layout(_CIFAR10_PICKLE.pickle_sizes, _CIFAR10_PICKLE.decode_pickle),
    "cifar100-binary": Layout(_CIFAR100_BINARY.sizes, _CIFAR100_BINARY.decode_binary),
    "cifar100-pickle": Layout(_CIFAR100_PICKLE.pickle_sizes, _CIFAR100_PICKLE.decode_pickle),
    "watch-npy": Layout(_watch_sizes, _decode_watch),
}
"""Every file layout; a new one is a row here and a name in the catalogue."""
