"""The shape of a convolution."""

from dataclasses import dataclass

Sizes = tuple[int, ...]
"""One number for each spatial axis."""


@dataclass(frozen=True)
class Geometry:
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

    def backward(self, sizes: Sizes, taps: Sizes) -> "Geometry":
        """That of the convolution with the reversed kernel which takes cotangents to the inputs."""
        padding = []
        for axis, (reach, out) in enumerate(
            zip(self._reaches(taps), self.out_sizes(sizes, taps), strict=True)
        ):
            low = reach - self.padding[axis][0]
            needed = dilated(sizes[axis], self.input_dilation[axis]) + reach
            padding.append((low, needed - low - dilated(out, self.strides[axis])))
        return Geometry(
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
