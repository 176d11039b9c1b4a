"""A tiny dataset in every file format, written independently of the code that reads it."""

import gzip
import hashlib
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from mix2fld.data import DatasetInfo
from mix2fld.data.readers import Arrays

TRAIN, TEST, LABELS = 50, 10, 10
IDX_NAMES = {
    "train_inputs": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_inputs": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


def make_arrays(channels: int) -> Arrays:
    rng = np.random.default_rng(channels)
    return Arrays(
        rng.integers(0, 256, (TRAIN, 4, 6, channels), dtype=np.uint8),
        rng.permutation(np.arange(TRAIN, dtype=np.uint8) % LABELS),
        rng.integers(0, 256, (TEST, 4, 6, channels), dtype=np.uint8),
        rng.permutation(np.arange(TEST, dtype=np.uint8) % LABELS),
    )


GREY, COLOUR = make_arrays(1), make_arrays(3)


def make_info(arrays: Arrays, known: bool = True, **fields) -> DatasetInfo:
    sums = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)
    channels = arrays.train_inputs.shape[-1]
    row = {"folders": (), "places": (), "checksums": sums if known else None} | fields
    return DatasetInfo("tiny", (4, 6, channels), LABELS, TRAIN, TEST, **row)


def idx_files(arrays: Arrays) -> dict[str, bytes]:
    files = {}
    for field, name in IDX_NAMES.items():
        array = getattr(arrays, field)
        shape = array.shape[:3] if array.ndim == 4 else array.shape
        header = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
        files[name] = header + array.tobytes()
    return files


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def batches(arrays: Arrays):
    """Name, pixels and labels of the six CIFAR-10 batches."""
    step = TRAIN // 5
    for batch in range(5):
        part = slice(batch * step, (batch + 1) * step)
        yield f"data_batch_{batch + 1}", arrays.train_inputs[part], arrays.train_labels[part]
    yield "test_batch", arrays.test_inputs, arrays.test_labels


def halves(arrays: Arrays):
    yield "train", arrays.train_inputs, arrays.train_labels
    yield "test", arrays.test_inputs, arrays.test_labels


def cifar_binary(parts, label_bytes=1) -> dict[str, bytes]:
    return {
        f"{name}.bin": b"".join(
            bytes([7] * (label_bytes - 1)) + bytes([label]) + row.tobytes()
            for label, row in zip(labels, planes(images), strict=True)
        )
        for name, images, labels in parts
    }


def python3_pickle(images, labels, key) -> bytes:
    return pickle.dumps({b"data": planes(images), key: labels.tolist()}, protocol=2)


def python2_pickle(images, labels, key) -> bytes:
    """A pickle with the byte strings that Python 2 wrote, like the official files."""
    pixels = planes(images)
    minus_one = b"J\xff\xff\xff\xff"
    dtype_state = b"(K\x03U\x01|NNN" + 2 * minus_one + b"K\x00tb"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R" + dtype_state
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    state = b"(K\x01" + b"M%bM%b\x86" % tuple(struct.pack("<H", size) for size in pixels.shape)
    content = b"T" + struct.pack("<I", pixels.size) + pixels.tobytes()
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    short_key = b"U" + bytes([len(key)]) + key
    body = b"U\x04data" + array + state + dtype + b"\x89" + content + b"tb" + short_key + listed
    return b"\x80\x02}(" + body + b"u."


def png_files(arrays: Arrays) -> dict[str, bytes]:
    files = {
        "train_lables.json": json.dumps(arrays.train_labels.tolist()).encode(),
        "test_lables.json": json.dumps(arrays.test_labels.tolist()).encode(),
    }
    for name, images, _ in batches(arrays):
        stream = io.BytesIO()
        Image.fromarray(images.reshape(len(images), -1, 3)).save(stream, "PNG")
        files[f"{name}.png"] = stream.getvalue()
    return files


def csv_files(arrays: Arrays) -> dict[str, bytes]:
    files = {}
    for name, images, labels in halves(arrays):
        rows = np.column_stack([labels, images.reshape(len(images), -1)])
        lines = ["label,1x1,...", *(",".join(map(str, row)) for row in rows)]
        files[f"mnist_{name}.csv"] = "\r\n".join(lines).encode() + b"\r\n"
    return files


def pickles(write, parts, key) -> dict[str, bytes]:
    return {name: write(images, labels, key) for name, images, labels in parts}


FORMATS = {
    "idx": ("idx", GREY, idx_files(GREY)),
    "csv": ("csv", GREY, csv_files(GREY)),
    "png-rows": ("png-rows", COLOUR, png_files(COLOUR)),
    "cifar10-binary": ("cifar10-binary", COLOUR, cifar_binary(batches(COLOUR))),
    "cifar10-pickle": (
        "cifar10-pickle",
        COLOUR,
        pickles(python3_pickle, batches(COLOUR), b"labels"),
    ),
    "cifar10-pickle of Python 2": (
        "cifar10-pickle",
        COLOUR,
        pickles(python2_pickle, batches(COLOUR), b"labels"),
    ),
    "cifar100-binary": ("cifar100-binary", COLOUR, cifar_binary(halves(COLOUR), label_bytes=2)),
    "cifar100-pickle": (
        "cifar100-pickle",
        COLOUR,
        pickles(python2_pickle, halves(COLOUR), b"fine_labels"),
    ),
}


def write_files(folder: Path, files: dict[str, bytes], zipped: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def tar_of(files: dict[str, bytes], inside: str, compression: str = "gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{compression}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(inside + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
