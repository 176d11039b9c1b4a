"""What a separator recovers of a run's own seeds: re-identification and image quality."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from mix2fld.audit.ground import Ground
from mix2fld.audit.seeds import PARTS, upload_seeds
from mix2fld.audit.separation import Query, Weights, nearest, separate
from mix2fld.privacy.box import Floats
from mix2fld.privacy.rates import Share
from mix2fld.privacy.unmixing import as_mixes
from mix2fld.protocol import Seeding

CANDIDATES = 5000
"""Among so many samples a recovered one is looked for: the constituents themselves, and others."""
SMALLEST_ERROR = 1e-10


def recovery(ground: Ground, seeding: Seeding, seed: int, separator: Weights) -> dict[str, Any]:
    """What the separator makes of all seeds of one run, for both constituents."""
    sizes = ground.sizes(seed)
    uploads = [
        upload_seeds(ground, seeding, sizes, device, own)
        for device, own in enumerate(ground.parts(seed))
    ]
    mixes = [as_mixes(upload.seeds, sizes, mixed=seeding.mixed) for upload in uploads]
    values = np.concatenate([each.values for each in mixes])
    labels = np.concatenate([each.labels for each in mixes])
    ratio = np.full(len(values), sizes.config.seeding.ratios[0], np.float32)
    made = separate(separator, Query(values, labels, ratio), ground.dataset.num_labels)
    sources = np.concatenate([upload.sources for upload in uploads])
    owners = np.repeat(np.arange(len(uploads)), [len(u.sources) for u in uploads])
    found = {}
    for place, part in enumerate(made):
        rows = sources[:, place]
        true = ground.candidates(rows).values
        found[PARTS[place]] = {
            "among_all": identified(ground, part, rows).as_record(),
            "among_own": _identified_among_own(ground, part, rows, owners, seed).as_record(),
            **quality(part, true, sizes.dims.seed_shape),
        }
    return found


def identified(ground: Ground, part: Floats, rows: Any) -> Share:
    """Top-1 among the constituents and outsiders."""
    own = np.unique(rows)
    others = ground.outside[: max(0, CANDIDATES - len(own))]
    candidates = np.concatenate([own, others])
    chosen = candidates[nearest(part, ground.candidates(candidates).values)]
    return Share(int((chosen == rows).sum()), len(rows))


def _identified_among_own(ground: Ground, part: Floats, rows: Any, owners: Any, seed: int) -> Share:
    """Top-1 among the samples of the device that sent the mix."""
    share = Share(0, 0)
    for device, held in enumerate(ground.parts(seed)):
        its = owners == device
        chosen = held[nearest(part[its], ground.candidates(held).values)]
        share += Share(int((chosen == rows[its]).sum()), int(its.sum()))
    return share


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
