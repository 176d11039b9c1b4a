"""Read the pickled dictionaries of CIFAR without running what a pickle asks to run."""

import io
import pickle
import pickletools
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


# What a dictionary of arrays and plain lists is written with, from Python 2 on.
_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "SETITEM"),
    *("SETITEMS", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE"),
    *("NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING"),
    *("SHORT_BINBYTES", "BINBYTES", "SHORT_BINUNICODE", "BINUNICODE", "BINPUT", "LONG_BINPUT"),
    *("MEMOIZE", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}
_MOST_TUPLES, _MOST_REPEATS = 64, 24


def _refuse_tricks(content: bytes) -> None:
    """Stop at what would take memory or time without end, or end the process.

    Tuples within tuples are hashed without a guard, things that repeat within each other are
    walked through again and again, and the memo is as long as its highest number.
    """
    tuples = repeats = 0
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"it has the operation {opcode.name}")
        tuples += opcode.name.startswith("TUPLE")
        repeats += opcode.name.endswith("GET")
        far = opcode.name == "LONG_BINPUT" and (argument or 0) > len(content)
        if far or tuples > _MOST_TUPLES or repeats > _MOST_REPEATS:
            raise pickle.UnpicklingError("it is built like no plain dictionary")


def load_plain_pickle(content: bytes) -> dict[bytes, Any]:
    """The pickled dictionary; its keys as bytes, its arrays inert until ``array_of`` reads them."""
    try:
        _refuse_tricks(content)
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
        raise ValueError("an array of another type where bytes should be")
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape((rows, columns), order="F" if column_major else "C")
