"""Initial weights on a device that cannot draw them: a close guess, and what it misses by.

The networks of the package draw their weights with JAX. The same integers are drawn here with NumPy
(Threefry-2x32 of Salmon et al. 2011, as JAX counts its keys), and become Gaussians by the formula
that XLA uses (Giles 2010). The two differ in the last bits of some weights. The server makes the
same guess and sends by how many units in the last place each weight is to be moved: few bytes, and
the weights of the simulator to the bit, whatever version of JAX drew them.
"""

import zlib
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.types import Tensors

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]
Shapes = tuple[tuple[int, ...], ...]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Coefficients of the inverse error function, in single precision (Giles 2010, Table 5)."""


def pack_start(weights: Tensors, seed: int) -> bytes:
    """What tells a device the weights that were drawn with this seed."""
    guessed = guess_weights(seed, tuple(tensor.shape for tensor in weights))
    moves = [_ordered(real) - _ordered(own) for real, own in zip(weights, guessed, strict=True)]
    flat = np.concatenate([move.ravel() for move in moves])
    small = bool(np.all(np.abs(flat) < 128))
    return bytes([small]) + zlib.compress(flat.astype("i1" if small else "<i8").tobytes(), 9)


def unpack_start(data: bytes, seed: int, shapes: Shapes) -> Tensors:
    """The weights; raises ``InputError`` for a start of another model."""
    guessed = guess_weights(seed, shapes)
    count = sum(tensor.size for tensor in guessed)
    width = 1 if data[:1] == b"\x01" else 8
    unpacker, raw = zlib.decompressobj(), b""
    with suppress(zlib.error):
        raw = unpacker.decompress(data[1:], count * width + 1)
    if len(raw) != count * width or not unpacker.eof:
        raise InputError(field="start", hint="does not fit the model of this run")
    moves = np.frombuffer(raw, "i1" if width == 1 else "<i8").astype(np.int64)
    ends = np.cumsum([tensor.size for tensor in guessed])[:-1]
    return tuple(
        _from_ordered(_ordered(own) + move.reshape(own.shape))
        for own, move in zip(guessed, np.split(moves, ends), strict=True)
    )


def guess_weights(seed: int, shapes: Shapes) -> Tensors:
    """Of layers with a bias of zeros and a He-normal kernel, in the order of a payload.

    A linear model, one layer alone, starts at zero.
    """
    layers = len(shapes) // 2
    keys = _split(np.array([0, seed], np.uint32), layers)
    tensors: list[Floats] = []
    for key, bias, kernel in zip(keys, shapes[::2], shapes[1::2], strict=True):
        fan_in = kernel[1] if len(kernel) == 2 else int(np.prod(kernel[:-1]))
        gain = np.float32(np.sqrt(2 / fan_in) if layers > 1 else 0)
        drawn = _normal(key, kernel) * gain + np.float32(0)  # no zero with a sign
        tensors += [np.zeros(bias, np.float32), drawn]
    return tuple(tensors)


def _split(key: Words, count: int) -> Words:
    zeros, numbers = np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32)
    return np.stack(_threefry(key, zeros, numbers), axis=1)


def _normal(key: Words, shape: tuple[int, ...]) -> Floats:
    count = int(np.prod(shape))
    high, low = _threefry(key, np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))
    mantissa = ((high ^ low) >> np.uint32(9)) | np.uint32(0x3F800000)
    uniform = mantissa.view(np.float32) - np.float32(1)
    lowest = np.nextafter(np.float32(-1), np.float32(0))
    signed = np.maximum(lowest, uniform * (np.float32(1) - lowest) + lowest)
    return (np.float32(np.sqrt(2)) * _inverse_erf(signed)).reshape(shape)


def _inverse_erf(x: Floats) -> Floats:
    wide = x.astype(np.float64)
    w = (-np.log1p(-wide * wide)).astype(np.float32)
    centre = w < 5
    w = np.where(centre, w - np.float32(2.5), np.sqrt(w) - np.float32(3)).astype(np.float64)
    p = np.where(centre, np.float32(CENTRE[0]), np.float32(TAIL[0])).astype(np.float32)
    for in_centre, in_tail in zip(CENTRE[1:], TAIL[1:], strict=True):
        more = np.where(centre, np.float32(in_centre), np.float32(in_tail))
        p = (p.astype(np.float64) * w + more).astype(np.float32)  # as fused multiply and add
    return p * x


def _threefry(key: Words, one: Words, other: Words) -> tuple[Words, Words]:
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    with np.errstate(over="ignore"):
        x, y = one + keys[0], other + keys[1]
        for step in range(5):
            for rotation in ROTATIONS[step % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = y ^ x
            x = x + keys[(step + 1) % 3]
            y = y + keys[(step + 2) % 3] + np.uint32(step + 1)
    return x, y


def _ordered(values: Floats) -> NDArray[np.int64]:
    """Neighbouring floats as neighbouring integers; the two zeros stay apart."""
    bits = np.ascontiguousarray(values, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -1 - (bits & 0x7FFFFFFF))


def _from_ordered(numbers: NDArray[np.int64]) -> Floats:
    bits = np.where(numbers >= 0, numbers, (-1 - numbers) | 0x80000000)
    return bits.astype(np.uint32).view(np.float32)
