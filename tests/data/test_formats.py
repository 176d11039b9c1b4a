"""The file formats: what is written is read back, and nothing damaged gets through."""

import hashlib
import io
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_files import FORMATS, LABELS, WATCH, make_info
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.readers import LAYOUTS, decode
from mix2fld.data.unpickle import load_plain_pickle
from toys import examples


def test_every_layout_has_a_case():
    assert {layout for layout, _, _ in FORMATS.values()} == set(LAYOUTS)


@pytest.mark.parametrize("case", FORMATS)
def test_formats_decode_to_the_same_arrays(case):
    layout, arrays, files = FORMATS[case]
    assert set(LAYOUTS[layout].files(make_info(arrays))) == set(files)
    decoded = decode(layout, files, make_info(arrays))
    assert all(np.array_equal(a, b) for a, b in zip(decoded, arrays, strict=True))
    assert all(
        len(files[name]) <= most for name, most in LAYOUTS[layout].files(make_info(arrays)).items()
    )


@pytest.mark.parametrize("case", FORMATS)
@given(data=st.data())
@examples(40)
def test_damaged_files_are_refused_and_raise_nothing_else(case, data):
    layout, arrays, files = FORMATS[case]
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    try:
        decoded = decode(layout, files | {name: bytes(content)}, make_info(arrays))
    except PlaceError:
        return
    assert all(np.array_equal(a, b) for a, b in zip(decoded, arrays, strict=True))


class Intruder:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickles_are_not_run(tmp_path):
    _, arrays, files = FORMATS["cifar10-pickle"]
    trap = pickle.dumps({b"data": Intruder(tmp_path / "ran"), b"labels": []}, protocol=2)
    with pytest.raises(PlaceError, match="mkdir"):
        decode("cifar10-pickle", files | {"test_batch": trap}, make_info(arrays))
    assert not (tmp_path / "ran").exists()


def test_without_checksums_counts_and_balance_are_checked():
    layout, arrays, files = FORMATS["cifar100-binary"]
    decode(layout, files, make_info(arrays, known=False))
    uneven = bytearray(files["test.bin"])
    uneven[1] = (uneven[1] + 1) % LABELS
    with pytest.raises(
        PlaceError, match="test_labels differ from the published tiny: not balanced"
    ):
        decode(layout, files | {"test.bin": bytes(uneven)}, make_info(arrays, known=False))
    short = files | {"train.bin": files["train.bin"][: -(2 + 4 * 6 * 3)]}
    with pytest.raises(PlaceError, match="train_inputs are uint8"):
        decode(layout, short, make_info(arrays, known=False))


def test_published_sums_of_files_are_checked():
    layout, arrays, files = FORMATS["cifar100-pickle"]
    good = hashlib.md5(files["train"]).hexdigest()
    decode(layout, files, make_info(arrays, file_md5s={"train": good}))
    with pytest.raises(PlaceError, match="MD5 of train differs from the published one"):
        decode(layout, files, make_info(arrays, file_md5s={"train": "0" * 32}))


def test_a_watch_file_with_other_contents_is_refused():
    """An object that is no dictionary, arrays of another type, a pickle that repeats itself."""
    for made in (3.5, [1], {"X": [np.zeros((9, 2))], "y": 1}, {"X": [np.zeros((9, 2), "f4")]}):
        stream = io.BytesIO()
        np.save(stream, np.array(made, object), allow_pickle=True)
        with pytest.raises(PlaceError, match="cannot be decoded"):
            decode("watch-npy", {"watch_dataset.npy": stream.getvalue()}, make_info(WATCH))


def test_a_pickle_that_would_take_forever_is_refused():
    """Tuples within tuples, each twice the one before: hashing them would take 2^100 steps."""
    bomb = b"\x80\x02}(" + b")q\x00" + b"".join(
        b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(100)
    ) + b"K\x01u."  # fmt: skip
    with pytest.raises(ValueError, match="not a plain dictionary"):
        load_plain_pickle(bomb)
    text = b"X" + struct.pack("<I", 4000) + b"a" * 4000 + b"q\x00"
    encode = b"c_codecs\nencode\nq\x01"
    latin = b"X\x06\x00\x00\x00latin1q\x02"
    many = (b"h\x01h\x00h\x02\x86R" + b"a") * 40
    with pytest.raises(ValueError, match="or too many"):
        load_plain_pickle(b"\x80\x02" + text + encode + latin + b"]" + many + b".")
