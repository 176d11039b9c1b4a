"""The shape of a convolution, and the numbers by which ``native/convolution.c`` knows it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Sizes = tuple[int, ...]
"""One number for each spatial axis."""


@dataclass(frozen=True)
class ConvolutionGeometry:
    """Which inputs [N, *sizes, C] meet which taps of a kernel [*taps, C / groups, O].

    As ``jax.lax.conv_general_dilated`` describes it: padding and dilation of the input come first,
    and negative padding cuts off.
    """

    strides: Sizes
    padding: tuple[tuple[int, int], ...]
    input_dilation: Sizes
    kernel_dilation: Sizes
    groups: int = 1

    def out_sizes(self, sizes: Sizes, taps: Sizes) -> Sizes:
        """The sizes of the result."""
        return tuple(
            (dilated(sizes[axis], self.input_dilation[axis]) + sum(self.padding[axis]) - reach - 1)
            // self.strides[axis]
            + 1
            for axis, reach in enumerate(self._reaches(taps))
        )

    def backward(self, sizes: Sizes, taps: Sizes) -> "ConvolutionGeometry":
        """That of the convolution with the reversed kernel which takes cotangents to the inputs."""
        padding = []
        for axis, (reach, out) in enumerate(
            zip(self._reaches(taps), self.out_sizes(sizes, taps), strict=True)
        ):
            low = reach - self.padding[axis][0]
            needed = dilated(sizes[axis], self.input_dilation[axis]) + reach
            padding.append((low, needed - low - dilated(out, self.strides[axis])))
        return ConvolutionGeometry(
            self.input_dilation, tuple(padding), self.strides, self.kernel_dilation, self.groups
        )

    def _reaches(self, taps: Sizes) -> Sizes:
        """How far apart the first and the last tap are."""
        return tuple(
            dilated(count, dilation) - 1
            for count, dilation in zip(taps, self.kernel_dilation, strict=True)
        )


def dilated(size: int, dilation: int) -> int:
    """The length of ``size`` values with ``dilation - 1`` holes between each two."""
    return (size - 1) * dilation + 1 if size else 0


Plan = NDArray[np.int64]
AXES = 3  # those of the kernel; missing ones have size 1


class Operands(NamedTuple):
    """What is convolved: inputs [N, *sizes, groups * channels], outputs with groups * outputs."""

    batch: int
    sizes: Sizes
    taps: Sizes
    channels: int
    outputs: int


class TapLine(NamedTuple):
    """Outputs along one axis that read the same taps; several, if the input is dilated."""

    start: int
    step: int
    outputs: int
    stride: int  # in the input, from one of them to the next
    reads: tuple[tuple[int, int], ...]  # (tap, input that it meets at the first of them)


def convolution_plan(
    operands: Operands, geometry: ConvolutionGeometry, kernel_strides: Sizes
) -> Plan:
    """The plan; strides of the kernel are those of a tap, a group, a channel and an output."""
    missing = (1,) * (AXES - len(operands.sizes))
    sizes, taps = (*missing, *operands.sizes), (*missing, *operands.taps)
    geometry = ConvolutionGeometry(
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


def _lines(geometry: ConvolutionGeometry, axis: int, taps: int, out: int) -> list[TapLine]:
    stride, low = geometry.strides[axis], geometry.padding[axis][0]
    inner, outer = geometry.input_dilation[axis], geometry.kernel_dilation[axis]
    common = math.gcd(inner, stride)
    step = inner // common

    def reads(start: int) -> tuple[tuple[int, int], ...]:
        places = [(tap, start * stride + tap * outer - low) for tap in range(taps)]
        return tuple((tap, place // inner) for tap, place in places if place % inner == 0)

    return [
        TapLine(start, step, -(-(out - start) // step), stride // common, reads(start))
        for start in range(min(step, out))
    ]


def _frame(lines: list[TapLine], size: int) -> tuple[int, int]:
    """Zeros before the input, and the size with the zeros on both sides."""
    first = [place for line in lines for _, place in line.reads]
    last = [place + (line.outputs - 1) * line.stride for line in lines for _, place in line.reads]
    low = max(0, -min(first, default=0))
    return low, low + max(size, 1 + max(last, default=0))


def _phase(
    phase: tuple[TapLine, ...], lows: Sizes, frame: Sizes, taps: Sizes, channels: int, groups: int
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
