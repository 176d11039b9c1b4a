"""Read the pickled dictionaries of CIFAR without executing anything."""

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Inert:
    """Stands in for a NumPy array or type: it stores its arguments and does nothing."""

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
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin-1")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the name {module}.{name} is not allowed")
        return _STAND_INS[module, name]


# The operations that write a dictionary of arrays and plain lists, from Python 2 on.
_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "SETITEM"),
    *("SETITEMS", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE"),
    *("NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING"),
    *("SHORT_BINBYTES", "BINBYTES", "SHORT_BINUNICODE", "BINUNICODE", "BINPUT", "LONG_BINPUT"),
    *("MEMOIZE", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}
_MOST_TUPLES, _MOST_REPEATS = 64, 24


def _reject_unsafe(content: bytes) -> None:
    """Reject what would exhaust memory or time, or crash the process.

    Nested tuples are hashed without a depth limit, objects that repeat within each other are
    traversed repeatedly, and the memo is as long as its highest index.
    """
    tuples = repeats = 0
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"the operation {opcode.name} is not allowed")
        tuples += opcode.name.startswith("TUPLE")
        repeats += opcode.name.endswith("GET")
        far = opcode.name == "LONG_BINPUT" and (argument or 0) > len(content)
        if far or tuples > _MOST_TUPLES or repeats > _MOST_REPEATS:
            raise pickle.UnpicklingError("it is not a plain dictionary")


def load_plain_pickle(content: bytes) -> dict[bytes, Any]:
    """Return the dictionary with keys as bytes and arrays inert until ``array_of`` reads them."""
    try:
        _reject_unsafe(content)
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"not a pickle of plain arrays: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"a pickled {type(loaded).__name__}; must be a dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in loaded.items()}


def array_of(pickled: Any) -> NDArray[np.uint8]:
    """Return the uint8 array [rows, columns] that a stand-in describes."""
    try:
        _, shape, kind, column_major, content = pickled.state
        code = kind.arguments[0]
        rows, columns = shape
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ValueError("an entry is not an array; must be uint8 [rows, columns]") from None
    if code not in (b"u1", "u1") or not isinstance(content, bytes):
        raise ValueError("an array is not of bytes; must be uint8")
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape((rows, columns), order="F" if column_major else "C")
