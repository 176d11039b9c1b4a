"""Hostile input: the short form of ``make fuzz``, and tricks that are known by name."""

import io
import pickle
import random
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reliability.fuzz import fuzz, try_one
from reliability.mutate import mutate
from reliability.targets import TARGETS

from dataset_files import COLOUR, batches, make_info, pickles, python3_pickle
from mix2fld.base.errors import InputError
from mix2fld.data import npz
from mix2fld.data.archives import read_tar, read_zip
from mix2fld.data.own_file import read_own_file
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.readers import decode
from mix2fld.runs.config_file import load_config
from toys import examples


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_does_no_harm(name: str) -> None:
    found = fuzz(TARGETS[name], inputs=400, seed=5)
    assert found["refused"] > 60


@pytest.mark.parametrize("name", TARGETS)
@examples(60)
@given(data=st.data())
def test_any_bytes_do_no_harm(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    chosen = data.draw(st.sampled_from(seeds)), data.draw(st.integers(0, 2**32))
    raw = data.draw(st.binary(max_size=300))
    try_one(target, data.draw(st.sampled_from([raw, chosen[0][:9] + raw])))
    try_one(target, mutate(chosen[0], random.Random(chosen[1]), [*seeds, raw or b"0"]))


def zip_of(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def npy(array: np.ndarray, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(npz, "MOST_BYTES", 1 << 20)
    path = tmp_path / "bomb.npz"
    path.write_bytes(zip_of({"train_inputs.npy": npy(np.zeros((40_000, 30, 30), np.uint8))}))
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="would unpack to 36,000,128 bytes"):
        read_own_file(path)


def test_a_header_that_promises_too_much(tmp_path) -> None:
    header = npy(np.zeros((2, 2, 2), np.uint8)).replace(b"(2, 2, 2), ", b"(1<<50,),  ")
    lies = npy(np.zeros((2, 2, 2), np.uint8)).replace(b"(2, 2, 2), ", b"(2, 2, 9**9")
    huge = npy(np.zeros((2, 2, 2), np.uint8)).replace(b"(2, 2, 2), ", b"(9999999,) ")
    for content in (header, lies, huge):
        path = tmp_path / "lies.npz"
        path.write_bytes(zip_of({"train_inputs.npy": content}))
        with pytest.raises(InputError, match="train_inputs cannot be read"):
            read_own_file(path)


def test_objects_are_never_loaded(tmp_path) -> None:
    path = tmp_path / "objects.npz"
    path.write_bytes(
        zip_of({"train_inputs.npy": npy(np.array([{}], dtype=object), allow_pickle=True)})
    )
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read_own_file(path)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:\\x", "..\\x", "\\\\host\\x"])
def test_paths_that_lead_out_are_refused(tmp_path, name) -> None:
    path = tmp_path / "archive.zip"
    path.write_bytes(zip_of({"wanted": b"1", name: b"2"}))
    with pytest.raises(PlaceError, match="leads out of it"):
        read_zip(path, {"wanted": 9, "absent": 9})
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(PlaceError, match="leads out of it"):
        read_tar(io.BytesIO(stream.getvalue()), {"wanted": 9})
    assert [file.name for file in tmp_path.iterdir()] == ["archive.zip"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_in_archives_are_refused(kind) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("wanted")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(PlaceError, match="is a link"):
        read_tar(io.BytesIO(stream.getvalue()), {"wanted": 9})


def deep_tuple(depth: int) -> bytes:
    """Hashing it would overflow the stack of the interpreter."""
    return b"\x80\x02}(K\x01" + b"\x85" * depth + b"K\x01u."


def tuple_of_tuples(levels: int) -> bytes:
    """Hashing it would take 2^levels steps."""
    grown = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))
    return b"\x80\x02}(K\x01" + grown + b"K\x01u."


@pytest.mark.parametrize(
    "content",
    [
        deep_tuple(1_000_000),
        tuple_of_tuples(60),
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo of 2^31 places
        b"\x80\x02cos\nsystem\n(U\x04true\x85R.",
        pickle.dumps({b"data": slice(3), b"labels": [1]}, protocol=2),
    ],
)
def test_tricks_in_pickles_are_refused(content) -> None:
    files = pickles(python3_pickle, batches(COLOUR), b"labels")
    info = make_info(COLOUR, known=False)
    assert decode("cifar10-pickle", files, info).train_inputs.shape == COLOUR.train_inputs.shape
    with pytest.raises(PlaceError):
        decode("cifar10-pickle", {**files, "test_batch": content}, info)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"self = 1", "self: no such field"),
        (b"rounds = " + b"[" * 5000, "not a TOML file"),
        (b"\xff\xfe", "not a TOML file"),
        (b"rounds = 1" + b"0" * 3000, "rounds"),
        (b"#" * (1 << 21), "larger than"),
        (b"format = 3\nrounds = 1", "reads formats up to 2"),
        (b"protocols = " + b'["x' + b"y" * 9000 + b'"]\nrounds = 0', "rounds"),
    ],
)
def test_careless_configs_get_one_line(tmp_path, text, words) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text)
    with pytest.raises(InputError, match=words) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_config_that_never_ends() -> None:
    with pytest.raises(InputError, match="not a file"):
        load_config(Path("/dev/zero"))
