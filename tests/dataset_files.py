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
    row = {"folders": (), "places": (), "checksums": sums if known else None} | fields
    if len(arrays.train_sources):
        row |= {"dtype": "float32", "source_names": ("one", "two")}
    counts = len(arrays.train_labels), len(arrays.test_labels)
    return DatasetInfo("tiny", arrays.train_inputs.shape[1:], LABELS, *counts, **row)


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


def watch_recordings() -> dict:
    """Two people, three exercises, two arms; each recording has 130 or more steps of 2 channels."""
    rng = np.random.default_rng(4)
    every = rng.permutation([(p, y, s) for p in (1, 2) for y in range(3) for s in (0, 1)])
    lengths = 130 + 10 * np.arange(len(every))
    return {
        "X": [np.asfortranarray(rng.normal(size=(length, 2))) for length in lengths],
        "y": every[:, 1],
        "subject": every[:, 0],
        "side": every[:, 2].astype(float),
        "y_labels": ["a", "b", "c"],
    }


def watch_arrays() -> Arrays:
    """Windows of 60 steps, every 50: person 1 trains with the right arm, person 2 with the left."""
    table, found = watch_recordings(), {}
    for number, recording in enumerate(table["X"]):
        person, label, side = (int(table[name][number]) for name in ("subject", "y", "side"))
        trained = side == (1 if person == 1 else 0)
        for turn in range((len(recording) - 60) // 50 + 1):
            window = recording[50 * turn : 50 * turn + 60].astype(np.float32)
            found[trained, turn, number] = window, label, person - 1
    parts = []
    for trained in (True, False):
        keys = sorted(key for key in found if key[0] == trained)
        windows, labels, people = zip(*(found[key] for key in keys), strict=True)
        parts.append((np.stack(windows), np.uint8(labels), np.uint8(people)))
    return Arrays(parts[0][0], parts[0][1], parts[1][0], parts[1][1], parts[0][2])


def watch_files() -> dict[str, bytes]:
    stream = io.BytesIO()
    np.save(stream, np.array(watch_recordings(), object), allow_pickle=True)
    return {"watch_dataset.npy": stream.getvalue()}


WATCH = watch_arrays()


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
    "watch-npy": ("watch-npy", WATCH, watch_files()),
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
