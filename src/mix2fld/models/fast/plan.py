"""The numbers by which the kernel ``native/convolution.c`` knows a convolution."""

import math
from collections.abc import Iterator
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.models.fast.geometry import Geometry, Sizes

Plan = NDArray[np.int64]
AXES = 3  # those of the kernel; missing ones have size 1


class Operands(NamedTuple):
    """What is convolved: inputs [N, *sizes, groups * channels], outputs with groups * outputs."""

    batch: int
    sizes: Sizes
    taps: Sizes
    channels: int
    outputs: int


class Line(NamedTuple):
    """Outputs along one axis that read the same taps; several, if the input is dilated."""

    start: int
    step: int
    outputs: int
    stride: int  # in the input, from one of them to the next
    reads: tuple[tuple[int, int], ...]  # (tap, input that it meets at the first of them)


def convolution_plan(operands: Operands, geometry: Geometry, kernel_strides: Sizes) -> Plan:
    """The plan; strides of the kernel are those of a tap, a group, a channel and an output."""
    missing = (1,) * (AXES - len(operands.sizes))
    sizes, taps = (*missing, *operands.sizes), (*missing, *operands.taps)
    geometry = Geometry(
        (*missing, *geometry.strides),
        ((0, 0),) * len(missing) + geometry.padding,
        (*missing, *geometry.input_dilation),
        (*missing, *geometry.kernel_dilation),
        geometry.groups,
    )
    out = geometry.out_sizes(sizes, taps)
    lines = [_lines(geometry, axis, taps[axis], out[axis]) for axis in range(AXES)]
    frames = [_frame(lines[axis], sizes[axis]) for axis in range(AXES)]
    lows, frame = (tuple(numbers) for numbers in zip(*frames, strict=True))
    phases = [
        _phase(phase, lows, frame, taps, operands.channels, geometry.groups)
        for phase in product(*lines)
    ]
    batch, channels, outputs = operands.batch, operands.channels, operands.outputs
    head = [batch, geometry.groups, channels, outputs, *sizes, *frame, *lows, *out]
    counts = [math.prod(taps), len(phases)]
    return np.array([*head, *kernel_strides, *counts, *chain(*phases)], np.int64)


def _lines(geometry: Geometry, axis: int, taps: int, out: int) -> list[Line]:
    stride, low = geometry.strides[axis], geometry.padding[axis][0]
    inner, outer = geometry.input_dilation[axis], geometry.kernel_dilation[axis]
    common = math.gcd(inner, stride)
    step = inner // common

    def reads(start: int) -> tuple[tuple[int, int], ...]:
        places = [(tap, start * stride + tap * outer - low) for tap in range(taps)]
        return tuple((tap, place // inner) for tap, place in places if place % inner == 0)

    return [
        Line(start, step, -(-(out - start) // step), stride // common, reads(start))
        for start in range(min(step, out))
    ]


def _frame(lines: list[Line], size: int) -> tuple[int, int]:
    """Zeros before the input, and the size with the zeros on both sides."""
    first = [place for line in lines for _, place in line.reads]
    last = [place + (line.outputs - 1) * line.stride for line in lines for _, place in line.reads]
    low = max(0, -min(first, default=0))
    return low, low + max(size, 1 + max(last, default=0))


def _phase(
    phase: tuple[Line, ...], lows: Sizes, frame: Sizes, taps: Sizes, channels: int, groups: int
) -> Iterator[int]:
    """The outputs that read the same taps, and these taps in runs of neighbours."""
    runs: list[tuple[int, int]] = []  # (offset in the frame, taps)
    numbers: list[int] = []
    for reads in product(*(line.reads for line in phase)):
        number = place = 0
        for axis, (tap, first) in enumerate(reads):
            number = number * taps[axis] + tap
            place = place * frame[axis] + first + lows[axis]
        offset, length = runs[-1] if runs else (0, 0)
        follows = length and place * channels == offset + length * channels
        if groups == 1 and follows and number == numbers[-1] + 1:
            runs[-1] = offset, length + 1
        else:
            runs.append((place * channels * groups, 1))
        numbers.append(number)
    for field in zip(*phase, strict=True):
        if not isinstance(field[0], tuple):
            yield from field
    yield from (len(runs), len(numbers))
    yield from (number for run in runs for number in run)
    yield from numbers
