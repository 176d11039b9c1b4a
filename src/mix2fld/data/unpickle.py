"""Read the pickled dictionaries of CIFAR without running what a pickle asks to run."""

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Inert:
    """Stands in for a NumPy array or type: it remembers what it was given and does nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Inert,
    ("numpy._core.multiarray", "_reconstruct"): _Inert,
    ("numpy", "ndarray"): _Inert,
    ("numpy", "dtype"): _Inert,
}


def _encoded(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin-1")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _STAND_INS[module, name]


def load_plain_pickle(content: bytes) -> dict[bytes, Any]:
    """The pickled dictionary; its keys as bytes, its arrays inert until ``array_of`` reads them."""
    try:
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise anything at all
        raise ValueError(f"not a pickle of plain arrays: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"a pickled {type(loaded).__name__} where a dictionary should be")
    return {key.encode() if isinstance(key, str) else key: value for key, value in loaded.items()}


def array_of(pickled: Any) -> NDArray[np.uint8]:
    """The uint8 array [rows, columns] that an inert stand-in describes."""
    try:
        _, shape, kind, column_major, content = pickled.state
        code = kind.arguments[0]
        rows, columns = shape
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ValueError("no array where one should be") from None
    if code not in (b"u1", "u1") or not isinstance(content, bytes):
        raise ValueError(f"an array of type {code!r} where bytes should be")
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape((rows, columns), order="F" if column_major else "C")
