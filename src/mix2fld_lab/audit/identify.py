"""How well a recovered sample is known: the nearest of many candidates, and image quality."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.attacks.unmixing import Floats
from mix2fld_lab.audit.ground import Ground

CANDIDATES = 5000
"""Among so many samples a recovered one is looked for: the constituents themselves, and others."""
SMALLEST_ERROR = 1e-10


def nearest(parts: Floats, candidates: Floats) -> NDArray[np.int64]:
    """Which candidate is closest to each part."""
    squares = (candidates**2).sum(axis=1)
    return np.argmin(squares[None, :] - 2 * parts @ candidates.T, axis=1)


def identified(ground: Ground, part: Floats, rows: Any) -> Share:
    """Top-1 among the constituents and outsiders."""
    own = np.unique(rows)
    others = ground.outside[: max(0, CANDIDATES - len(own))]
    candidates = np.concatenate([own, others])
    chosen = candidates[nearest(part, ground.candidates(candidates).values)]
    return Share(int((chosen == rows).sum()), len(rows))


def quality(seen: Floats, true: Floats, shape: tuple[int, ...]) -> dict[str, float | None]:
    """Mean PSNR in dB, and mean SSIM of images where scikit-image is installed."""
    errors = ((seen.astype(np.float64) - true) ** 2).mean(axis=1)
    psnr = float((-10 * np.log10(np.maximum(errors, SMALLEST_ERROR))).mean())
    return {"psnr_db": psnr, "ssim": _ssim(seen, true, shape)}


def _ssim(seen: Floats, true: Floats, shape: tuple[int, ...]) -> float | None:
    if len(shape) != 3 or min(shape[:2]) < 7 or find_spec("skimage") is None:
        return None
    from skimage.metrics import structural_similarity

    pairs = zip(seen.reshape(-1, *shape), true.reshape(-1, *shape), strict=True)
    similar: Callable[..., float] = structural_similarity
    return float(np.mean([similar(a, b, data_range=1.0, channel_axis=-1) for a, b in pairs]))
