"""Read pickled dictionaries of arrays without executing anything."""

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.lib import format as npy
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


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = len(content)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return self._encoded
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the name {module}.{name} is not allowed")
        return _STAND_INS[module, name]

    def _encoded(self, text: str, encoding: str) -> bytes:
        """Bytes that were stored as text; all of them together are no longer than the file."""
        self._left -= len(text)
        if encoding not in ("latin1", "latin-1") or self._left < 0:
            raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}, or too many")
        return text.encode("latin-1")


# The operations that write a dictionary of arrays and plain lists, from Python 2 on.
_TEXTS = {
    *("SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "SHORT_BINUNICODE"),
    "BINUNICODE",
}
_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "SETITEM"),
    *("SETITEMS", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE"),
    *("NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
    *("BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
    *_TEXTS,
}
_HARMLESS = {*_TEXTS, "GLOBAL", "STACK_GLOBAL", "REDUCE"}
"""What they leave may repeat at will: nothing within it is looked at again."""
_MOST_TUPLES, _MOST_REPEATS = 1024, 12


def _reject_unsafe(content: bytes) -> None:
    """Reject what would exhaust memory or time, or crash the process.

    Nested tuples are hashed without a depth limit, tuples and lists that repeat within each other
    are traversed repeatedly, and the memo is as long as its highest index.
    """
    tuples = repeats = 0
    last, harmless = "", set[int]()
    memo_size = 0
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name not in _OPCODES:
            raise pickle.UnpicklingError(f"the operation {name} is not allowed")
        if name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            place = memo_size if name == "MEMOIZE" else int(argument or 0)
            memo_size += 1
            (harmless.add if last in _HARMLESS else harmless.discard)(place)
        else:
            last = name
        tuples += name.startswith("TUPLE")
        repeats += name.endswith("GET") and argument not in harmless
        far = name == "LONG_BINPUT" and (argument or 0) > len(content)
        if far or tuples > _MOST_TUPLES or repeats > _MOST_REPEATS:
            raise pickle.UnpicklingError("it is not a plain dictionary")


def _load(content: bytes) -> Any:
    try:
        _reject_unsafe(content)
        return _Unpickler(content).load()
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"not a pickle of plain arrays: {error}") from None


def _as_dictionary(loaded: Any) -> dict[bytes, Any]:
    if not isinstance(loaded, dict):
        raise ValueError(f"a pickled {type(loaded).__name__}; must be a dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in loaded.items()}


def load_plain_pickle(content: bytes) -> dict[bytes, Any]:
    """Return the dictionary with keys as bytes and arrays inert until ``array_of`` reads them."""
    return _as_dictionary(_load(content))


def load_plain_npy(content: bytes) -> dict[bytes, Any]:
    """Return the dictionary that ``numpy.save`` wrote as an array of one object, likewise."""
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("not a .npy file of format 1.0")
    shape, _, kind = npy.read_array_header_1_0(stream)
    loaded = _load(stream.read()) if kind == np.dtype(object) and shape == () else None
    state = getattr(loaded, "state", None)
    if not isinstance(state, tuple) or not isinstance(state[-1], list) or len(state[-1]) != 1:
        raise ValueError("not a .npy file of one object")
    return _as_dictionary(state[-1][0])


def array_of(pickled: Any, kind: str = "u1") -> NDArray[Any]:
    """Return the array of that kind, such as u1 (uint8) or f8, that a stand-in describes."""
    try:
        _, shape, stored, column_major, content = pickled.state
        code, order = (_text(part) for part in (stored.arguments[0], stored.state[1]))
        sizes = tuple(int(size) for size in shape)
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ValueError(f"an entry is not an array; must be of type {kind}") from None
    if code != kind or order not in ("|", "<") or not isinstance(content, bytes):
        raise ValueError(f"an array is of type {order}{code}; must be {kind}, little-endian")
    flat = np.frombuffer(content, np.dtype(kind).newbyteorder("<"))
    return flat.reshape(sizes, order="F" if column_major else "C")


def _text(stored: Any) -> str:
    return stored.decode("ascii") if isinstance(stored, bytes) else str(stored)
