"""Sample privacy, Sec. IV: how far what the server sees is from what a device holds."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sample_privacy(made: ArrayLike, raw: ArrayLike) -> NDArray[np.float64]:
    """Natural logarithm of the smallest L2 distance of each made sample to its raw ones: [m].

    ``made`` [m, ...] on the pixel scale 0 to 255; ``raw`` [m, k, ...] are the k samples that each
    was made of. A sample that is one of its raw ones has minus infinity.
    """
    seen = np.asarray(made, dtype=np.float64)
    held = np.asarray(raw, dtype=np.float64)
    distances = np.sqrt(((seen[:, None] - held) ** 2).reshape(*held.shape[:2], -1).sum(axis=2))
    with np.errstate(divide="ignore"):
        return np.log(distances.min(axis=1))
