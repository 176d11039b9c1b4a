"""The file formats: what is written is read back, and nothing damaged gets through."""

import hashlib
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_files import FORMATS, LABELS, make_info
from mix2fld.data.readers import LAYOUTS, PlaceError, decode


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
@settings(max_examples=40)
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
        PlaceError, match="test_labels are not those of tiny: they are not balanced"
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
