"""Average output vectors, one for each label or other group."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.codec import (
    Encoded,
    PayloadError,
    Size,
    check_finite,
    check_size,
    encoded,
    typed,
)
from mix2fld.types import Dimensions

Floats = NDArray[np.float32]
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Outputs:
    """Average output vectors [N_L, O]; a row of zeros is a group never drawn.

    Those of labels are distributions, of O = N_L probabilities; others are any numbers.

    ``partial_rows`` accepts rows that sum to less than one, as the server's mean has them if it
    counts a device that never drew the label as zeros.
    """

    partial_rows: bool = False
    name: str = "outputs"
    words: ClassVar[str] = "mean outputs"

    def size(self, dims: Dimensions) -> Size:
        """32 bits for each of N_L x O outputs."""
        return Size(32 * math.prod(dims.teacher_shape))

    def encode(self, value: Floats, dims: Dimensions) -> Encoded:
        """Little-endian float32, row by row."""
        outputs = typed(self.name, value, np.float32, dims.teacher_shape)
        self._check(outputs, dims)
        return encoded(outputs.astype("<f4").tobytes(), self.size(dims))

    def decode(self, data: bytes, dims: Dimensions) -> Floats:
        check_size(self.name, data, self.size(dims).bits)
        outputs = np.frombuffer(data, "<f4").astype(np.float32)
        outputs = outputs.reshape(dims.teacher_shape)
        self._check(outputs, dims)
        return outputs

    def _check(self, outputs: Floats, dims: Dimensions) -> None:
        check_finite(self.name, outputs)
        if dims.target_numbers:
            return
        if np.any(outputs < 0):
            raise PayloadError(f"{self.name}: a value is negative; must be 0 or more")
        sums = outputs.sum(axis=1, dtype=np.float64)
        fine = sums < 1 if self.partial_rows else sums == 0
        wrong = ~fine & (np.abs(sums - 1) > SUM_TOLERANCE)
        if wrong.any():
            row = int(np.argmax(wrong))
            allowed = "at most 1" if self.partial_rows else "0 or 1"
            raise PayloadError(f"{self.name}: row {row} sums to {sums[row]:g}; must be {allowed}")
