"""A network of a few kinds of layers as an ONNX file, written without any other package."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Attribute = int | float | str | Sequence[int]
_OPSET, _IR_VERSION = 17, 8
_KINDS = {"float32": 1, "uint8": 2, "int64": 7}


class Graph:
    """The nodes of a network in the order of their making; each has one output."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: NDArray[np.generic]) -> str:
        """The name of an array that the network holds."""
        name = f"c{len(self._constants)}"
        dims = b"".join(_integer(1, size) for size in values.shape)
        kind = _integer(2, _KINDS[values.dtype.name])
        self._constants.append(dims + kind + _text(8, name) + _field(9, values.tobytes()))
        return name

    def node(self, operation: str, *inputs: str, **attributes: Attribute) -> str:
        """The name of what an operation makes of its inputs; one named "" is left out."""
        name = f"n{len(self._nodes)}"
        fields = [_text(1, one) for one in inputs] + [_text(2, name), _text(4, operation)]
        fields += [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        self._nodes.append(b"".join(fields))
        return name

    def file(self, given: tuple[str, str, Sequence[int | str]], output: str, size: int) -> bytes:
        """The whole file: the name, type and shape of the input, and a vector as output."""
        graph = b"".join(_field(1, node) for node in self._nodes) + _text(2, "features")
        graph += b"".join(_field(5, constant) for constant in self._constants)
        graph += _field(11, _value(*given)) + _field(12, _value(output, "float32", ("n", size)))
        opset = _text(1, "") + _integer(2, _OPSET)
        return _integer(1, _IR_VERSION) + _field(7, graph) + _field(8, opset)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _integer(3, value) + _integer(20, 2)
    if isinstance(value, float):
        return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _integer(20, 1)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _integer(20, 3)
    return _text(1, name) + b"".join(_integer(8, one) for one in value) + _integer(20, 7)


def _value(name: str, kind: str, shape: Sequence[int | str]) -> bytes:
    sizes = (_integer(1, one) if isinstance(one, int) else _text(2, one) for one in shape)
    sides = b"".join(_field(1, size) for size in sizes)
    tensor = _integer(1, _KINDS[kind]) + _field(2, sides)
    return _text(1, name) + _field(2, _field(1, tensor))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers as two's complement
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _integer(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())
