"""Where a device's samples come from: a file, a folder that grows, or a Python function.

A source is asked anew in every round and returns arrays that steps are taken on as they are.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.npz import MissingArrayError, read_npz
from mix2fld.data.own_file import ValueFormat, device_dataset, read_device_file
from mix2fld.data.place_errors import PlaceError
from mix2fld.dataset import Dataset, SampleFormat
from mix2fld.tasks.base import Task

Source = Callable[[SampleFormat, Task], Dataset]
"""The device's samples, of this format and with targets of this task, as they are now."""
Labelled = tuple[NDArray[Any], NDArray[Any]]
"""Samples [n, ...] and their labels [n], or numbers [n] or [n, T]."""


def value_format(task: Task) -> ValueFormat:
    """What targets are for a task."""
    return ValueFormat(task.groups) if task.by_label else ValueFormat(0, task.outputs)


def make_source(data: Path | None, function: str | None, newest: int, tests: Path | None) -> Source:
    """The source that was chosen."""
    if function is not None:
        return FunctionSource(_found(function), function, _tests(tests))
    if data is None:
        raise InputError(field="data", hint="must name a file or a folder, or source a function")
    if data.is_dir():
        return FolderSource(data, newest, _tests(tests))
    if not data.exists():
        raise InputError(field="data", value=data, hint="there is no such file or folder")
    return lambda samples, task: read_device_file(data, samples, value_format(task))


class FolderSource:
    """A folder that grows: a ring of the newest samples in its ``.npz`` files.

    Each file holds ``inputs`` and ``labels`` that were recorded together; the names of files say
    their order. A file is read once, when it is new, into the place of the oldest samples. One that
    is still being written should have another ending until it is whole.
    """

    def __init__(self, folder: Path, newest: int, tests: Labelled) -> None:
        if newest < 1:
            raise InputError(field="newest", value=newest, hint="must be 1 or above")
        self._folder, self._newest, self._tests = folder, newest, tests
        self._inputs: NDArray[Any] | None = None
        self._labels: NDArray[Any] = np.empty(0)
        self._seen, self._last = 0, ""

    def __call__(self, samples: SampleFormat, task: Task) -> Dataset:
        """The samples in the ring after a look at the folder."""
        for file in sorted(self._folder.glob("*.npz")):
            if file.name > self._last:
                self._add(*_labelled(file))
                self._last = file.name
        held = min(self._seen, self._newest)
        if self._inputs is None or not held:
            raise InputError(
                field="data", value=self._folder, hint="holds no .npz file with samples yet"
            )
        own = self._inputs[:held], self._labels[:held]
        return _dataset(self._folder, own, self._tests, samples, task)

    def _add(self, inputs: NDArray[Any], labels: NDArray[Any]) -> None:
        if self._inputs is None:
            self._inputs = np.empty((self._newest, *inputs.shape[1:]), inputs.dtype)
            self._labels = np.empty((self._newest, *labels.shape[1:]), labels.dtype)
        if inputs.shape[1:] != self._inputs.shape[1:] or inputs.dtype != self._inputs.dtype:
            raise InputError(
                field="data",
                value=self._folder,
                hint=f"holds samples of {inputs.dtype} {list(inputs.shape[1:])} "
                f"beside {self._inputs.dtype} {list(self._inputs.shape[1:])}",
            )
        kept = slice(max(0, len(labels) - self._newest), None)
        places = np.arange(self._seen, self._seen + len(labels))[kept] % self._newest
        self._inputs[places], self._labels[places] = inputs[kept], labels[kept]
        self._seen += len(labels)


class FunctionSource:
    """A function without arguments that returns samples and labels, which are not copied."""

    def __init__(self, function: Callable[[], Labelled], name: str, tests: Labelled) -> None:
        self._function, self._name, self._tests = function, name, tests

    def __call__(self, samples: SampleFormat, task: Task) -> Dataset:
        """What the function returns now."""
        try:
            inputs, labels = self._function()
            own = np.asarray(inputs), np.asarray(labels)
        except Exception as error:  # of somebody else's code
            reason = f"{type(error).__name__}: {error}"
            raise InputError(
                field="source",
                value=self._name,
                hint=f"must return inputs and labels; it raised {reason}",
            ) from None
        return _dataset(Path(self._name), own, self._tests, samples, task)


def _dataset(
    name: Path, own: Labelled, tests: Labelled, samples: SampleFormat, task: Task
) -> Dataset:
    values = value_format(task)
    names = ("train_inputs", f"train_{values.name}", "test_inputs", f"test_{values.name}")
    arrays = dict(zip(names, (*own, *tests), strict=True))
    return device_dataset(name, arrays, samples, values)


def _tests(path: Path | None) -> Labelled:
    if path is None:
        raise InputError(
            field="tests", hint="must name an .npz file with inputs and labels to test with"
        )
    return _labelled(path)


def _labelled(path: Path) -> Labelled:
    try:
        inputs, labels = read_npz(path, "inputs"), read_npz(path, "labels", "targets")
    except FileNotFoundError:
        raise InputError(field="data", value=path, hint="there is no such file") from None
    except (MissingArrayError, PlaceError, OSError, ValueError) as error:
        raise InputError(field="data", value=path, hint=f"{error}") from None
    if labels.ndim not in (1, 2) or len(inputs) != len(labels):
        raise InputError(
            field="data", value=path, hint=f"{len(inputs)} inputs, labels {list(labels.shape)}"
        )
    return inputs, labels


def _found(name: str) -> Callable[[], Labelled]:
    module, colon, function = name.partition(":")
    try:
        found: Any = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(field="source", value=name, hint=f"cannot be imported ({error})") from None
    if not callable(found):
        raise InputError(field="source", value=name, hint="must be package.module:function")
    return found
