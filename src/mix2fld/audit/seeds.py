"""Attacks on uploaded seed samples: membership with its null experiment, and inversion."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.audit.ground import Ground, Rows
from mix2fld.data.samples import coding_of
from mix2fld.device.seeds import draw_groups, seed_stream
from mix2fld.learning.task import Sizes
from mix2fld.privacy.box import Candidates, Mixes, box_scores
from mix2fld.privacy.inversion import recover_uploads
from mix2fld.privacy.rates import FALSE_POSITIVES, Scores, Share, above, threshold
from mix2fld.privacy.residual import Prior, residual_scores
from mix2fld.privacy.unmixing import as_mixes
from mix2fld.protocol import Seeding
from mix2fld.server.inverse_mixup import inverse_groups, unmix
from mix2fld.streams import stream
from mix2fld.types import Seeds

PARTS = ("minor", "dominant")


class Upload(NamedTuple):
    """The seeds of one device as they arrive, and which of its samples each was made of."""

    seeds: Seeds
    sources: Rows  # [N_S, N], rows of the training set


def upload_seeds(ground: Ground, seeding: Seeding, sizes: Sizes, device: int, own: Rows) -> Upload:
    """What a device with these samples sends, through the bytes that cross the link."""
    labels = ground.dataset.train_labels[own]
    inputs, dims = ground.dataset.train_inputs[own], sizes.dims
    made = seeding.collect(seed_stream(sizes.seed, device), inputs, labels, sizes)
    payload = seeding.payload(sizes)
    arrived = payload.decode(payload.encode(made, dims).data, dims)
    rng = seed_stream(sizes.seed, device)
    if seeding.mixed:
        chosen = draw_groups(rng, labels, sizes.config.seeding)
    else:
        chosen = rng.choice(len(labels), size=dims.seed_samples, replace=False)[:, None]
    return Upload(arrived, own[chosen])


class Tested(NamedTuple):
    """Scores against the upload of one device and against a null one, by part of a mix."""

    own: list[Scores]
    outside: list[Scores]
    null_own: list[Scores]
    null_outside: list[Scores]
    members: list[NDArray[np.bool_]]  # which of its own samples are that part of some mix


def score(candidates: Candidates, mixes: Mixes, prior: Prior | None) -> list[Scores]:
    """By box, or with a prior by residual; violations count in the units of the candidate."""
    if prior is not None and len(mixes.ratios) == 2:
        return [residual_scores(candidates, mixes, prior, part) for part in range(2)]
    parts = enumerate(mixes.ratios)
    return [box_scores(candidates, mixes, part) / weight**2 for part, weight in parts]


def membership(
    ground: Ground, seeding: Seeding, seed: int, devices: Sequence[int], prior: Prior | None = None
) -> dict[str, Any]:
    """True-positive rates of the membership attack on the seeds of one run, by false positives."""
    sizes, parts = ground.sizes(seed), ground.parts(seed)
    found = []
    for device in devices:
        own = parts[device]
        outside = ground.candidates(ground.outsiders_like(own))
        strangers = ground.like(own, ground.public, stream(seed, "audit-null", device))
        groups = (ground.candidates(own), outside)
        uploads = [upload_seeds(ground, seeding, sizes, device, held) for held in (own, strangers)]
        (its, outsiders), (null_its, null_outsiders) = (
            [
                score(candidates, as_mixes(upload.seeds, sizes, mixed=seeding.mixed), prior)
                for candidates in groups
            ]
            for upload in uploads
        )
        members = [np.isin(own, column) for column in uploads[0].sources.T]
        found.append(Tested(its, outsiders, null_its, null_outsiders, members))
    return {f"{rate:g}": _at(rate, found) for rate in FALSE_POSITIVES}


def _at(rate: float, found: Sequence[Tested]) -> dict[str, Any]:
    """Every share at one false-positive rate; each upload has its own threshold."""
    nothing = Share(0, 0)
    best = [[np.max(scores, axis=0) for scores in each[:4]] for each in found]
    result = {
        "device": sum((above(own, threshold(out, rate)) for own, out, *_ in best), nothing),
        "null": sum((above(own, threshold(out, rate)) for *_, own, out in best), nothing),
    }
    count = len(found[0].members)
    for part in range(count):
        name = PARTS[part] if count == 2 else "seed" if count == 1 else f"part {part + 1}"
        shares = [
            above(each.own[part][each.members[part]], threshold(each.outside[part], rate))
            for each in found
        ]
        result[name] = sum(shares, nothing)
    return {name: share.as_record() for name, share in result.items()}


def inversion(ground: Ground, seeding: Seeding, seed: int) -> dict[str, Any]:
    """The share of mixed-up uploads that the server's inverse samples give back byte for byte."""
    sizes, parts = ground.sizes(seed), ground.parts(seed)
    seeds = {
        device: upload_seeds(ground, seeding, sizes, device, own).seeds
        for device, own in enumerate(parts)
    }
    pool, groups = inverse_groups(seeds, sizes.config)
    coding, ratios = coding_of(sizes.dims), sizes.config.seeding.ratios
    made = unmix(pool, groups, ratios, coding)
    again = recover_uploads(made, ratios, coding)
    uploaded = pool.inputs[groups.members]
    same = (again == uploaded).reshape(again.shape[0] * again.shape[1], -1).all(axis=1)
    return Share(int(same.sum()), len(same)).as_record()
