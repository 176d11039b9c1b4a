"""Inverse-Mixup undone: the mixed-up uploads, byte for byte, from what was generated from them.

Which samples are paired depends on labels, device numbers and a public generator only, so by the
data-processing inequality inverse samples tell nothing that the mixes do not. For ratios that
Eq. 8 can invert, the mixing matrix takes it back as well.
"""

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import Coding
from mix2fld.protocols.inverse_mixup import mixing_matrix
from mix2fld.types import Carried


def recover_uploads(
    inverses: NDArray[np.float32], ratios: tuple[float, ...], coding: Coding
) -> Carried:
    """The uploads [g, N, ...] that groups of inverse samples [g, N, ...] were generated from."""
    made = inverses.astype(np.float64)
    fed = np.einsum("an,gn...->ga...", mixing_matrix(ratios), made)
    if not coding.rounds:
        return fed.astype(np.float32)
    codes = np.rint((fed - coding.origin) * coding.per_unit)
    return np.clip(codes, 0, coding.last_code).astype(coding.dtype)
