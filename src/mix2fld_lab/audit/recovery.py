"""What a separator recovers of a run's own seeds: re-identification and image quality."""

from typing import Any

import numpy as np

from mix2fld.protocols.parts import Seeding
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.attacks.unmixing import Floats, as_mixes
from mix2fld_lab.audit.ground import Ground
from mix2fld_lab.audit.identify import identified, nearest, quality
from mix2fld_lab.audit.seeds import PARTS, upload_seeds
from mix2fld_lab.audit.separation import Query, Weights, separate


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


def _identified_among_own(ground: Ground, part: Floats, rows: Any, owners: Any, seed: int) -> Share:
    """Top-1 among the samples of the device that sent the mix."""
    share = Share(0, 0)
    for device, held in enumerate(ground.parts(seed)):
        its = owners == device
        chosen = held[nearest(part[its], ground.candidates(held).values)]
        share += Share(int((chosen == rows[its]).sum()), int(its.sum()))
    return share
