"""Weights in a file of ``torch.save``, read without PyTorch and without executing anything."""

import io
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

_HEADER = (0x1950A86A20F9469CFC6C, 1001)
"""What the format of PyTorch before 1.6 begins with."""


class _Tensor(NamedTuple):
    """Where the values of a tensor are."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _tensor(storage: str, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


_NAMES: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch", "FloatStorage"): "<f4",
    ("torch", "LongStorage"): "<i8",
    ("collections", "OrderedDict"): OrderedDict,
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.kinds: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"the name {module}.{name} is not allowed")
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> str:
        _, kind, key, *_ = pid
        self.kinds[key] = kind
        return str(key)


def read_checkpoint_file(content: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a state dictionary by their names, of float32 and int64."""
    stream = io.BytesIO(content)
    header = tuple(_Unpickler(stream).load() for _ in _HEADER)
    _Unpickler(stream).load()  # about the machine that wrote it
    if header != _HEADER:
        raise ValueError("not a checkpoint of the expected format")
    reader = _Unpickler(stream)
    tensors = reader.load()
    keys = _Unpickler(stream).load()
    storages = {}
    for key in keys:
        count = int(np.frombuffer(stream.read(8), "<i8")[0])
        kind = np.dtype(reader.kinds[key])
        storages[key] = np.frombuffer(stream.read(count * kind.itemsize), kind)
    return {name: _array(storages[one.storage], one) for name, one in tensors.items()}


def _array(storage: NDArray[Any], one: _Tensor) -> NDArray[Any]:
    last = sum((size - 1) * step for size, step in zip(one.shape, one.strides, strict=True))
    if min((one.offset, *one.strides)) < 0 or one.offset + last >= len(storage):
        raise ValueError("a tensor reaches beyond its values")
    steps = [step * storage.itemsize for step in one.strides]
    return np.array(as_strided(storage[one.offset :], one.shape, steps, writeable=False))
