"""Samples of a device from a growing folder or a function: the newest ones, read once."""

import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.sources import FolderSource, FunctionSource, make_source
from mix2fld.tasks.classification import Classification

SAMPLES = SampleFormat((4, 4, 1))


def recorded(numbers: range) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.broadcast_to(
        np.array(numbers, np.uint8)[:, None, None, None], (len(numbers), 4, 4, 1)
    )
    return np.ascontiguousarray(inputs), np.array(numbers) % 3


def write(file: Path, numbers: range) -> None:
    inputs, labels = recorded(numbers)
    np.savez(file, inputs=inputs, labels=labels)


def values(dataset) -> set[int]:
    return set(dataset.train_inputs[:, 0, 0, 0].tolist())


def test_a_folder_is_a_ring_of_the_newest(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, 5, recorded(range(3)))
    with pytest.raises(InputError, match=r"holds no \.npz file"):
        source(SAMPLES, Classification(3))
    write(tmp_path / "0001.npz", range(3))
    assert values(source(SAMPLES, Classification(3))) == {0, 1, 2}
    (tmp_path / "0001.npz").unlink()  # read once
    write(tmp_path / "0002.npz", range(3, 7))
    (tmp_path / "0003.npz.part").write_bytes(b"not yet")
    assert values(source(SAMPLES, Classification(3))) == {2, 3, 4, 5, 6}
    write(tmp_path / "0004.npz", range(7, 30))
    found = source(SAMPLES, Classification(3))
    assert values(found) == {25, 26, 27, 28, 29}
    np.testing.assert_array_equal(found.train_labels, found.train_inputs[:, 0, 0, 0] % 3)
    assert len(found.test_labels) == 3


def test_samples_of_a_function_are_not_copied() -> None:
    inputs, labels = recorded(range(9))
    source = FunctionSource(lambda: (inputs, labels.astype(np.int32)), "camera", recorded(range(3)))
    assert np.shares_memory(source(SAMPLES, Classification(3)).train_inputs, inputs)
    inputs[0] = 200
    assert 200 in values(source(SAMPLES, Classification(3)))


def test_a_source_is_chosen_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("camera")
    module.shots = lambda: recorded(range(6))
    monkeypatch.setitem(sys.modules, "camera", module)
    write(tmp_path / "tests.npz", range(3))
    source = make_source(None, "camera:shots", 5, tmp_path / "tests.npz")
    assert values(source(SAMPLES, Classification(3))) == set(range(6))
    (tmp_path / "grows").mkdir()
    assert isinstance(
        make_source(tmp_path / "grows", None, 5, tmp_path / "tests.npz"), FolderSource
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, "camera", 5, "tests"), "must be package.module:function"),
        ((None, "no_such_module:shots", 5, "tests"), "cannot be imported"),
        ((None, "sys:path", 5, "tests"), "must be package.module:function"),
        (("folder", None, 5, None), "tests: must name"),
        (("folder", None, 0, "tests"), "newest = 0"),
        (("folder", None, 5, "missing"), "there is no such file"),
        (("not-there.npz", None, 5, "tests"), "there is no such file or folder"),
        ((None, None, 5, "tests"), "data: must name"),
    ],
)
def test_a_source_that_cannot_be_is_bad_input(tmp_path: Path, given, words: str) -> None:
    data, function, newest, tests = given
    write(tmp_path / "tests", range(3))
    (tmp_path / "tests.npz").rename(tmp_path / "tests")
    chosen = None if data is None else tmp_path if data == "folder" else tmp_path / data
    with pytest.raises(InputError, match=words):
        make_source(chosen, function, newest, tmp_path / tests if tests else None)


def test_other_samples_are_refused(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, 5, recorded(range(3)))
    write(tmp_path / "1.npz", range(3))
    source(SAMPLES, Classification(3))
    np.savez(tmp_path / "2.npz", inputs=np.zeros((2, 5, 4, 1), np.uint8), labels=np.zeros(2, int))
    with pytest.raises(InputError, match=r"uint8 \[5, 4, 1\] beside uint8 \[4, 4, 1\]"):
        source(SAMPLES, Classification(3))
    with pytest.raises(InputError, match="this run has"):
        FunctionSource(lambda: recorded(range(3)), "x", recorded(range(3)))(
            SampleFormat((2, 2, 1)), Classification(3)
        )


@pytest.mark.parametrize("bad", [lambda: 1 / 0, lambda: None, lambda: (1, 2, 3)])
def test_a_function_that_fails_is_named(bad: Callable[[], object]) -> None:
    source = FunctionSource(bad, "camera:frames", recorded(range(3)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="source = camera:frames: must return inputs and labels"):
        source(SampleFormat((4, 4, 1), "uint8"), 3)
