"""Attacks on uploaded seed samples: membership with its null experiment, and inversion."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.data.samples import coding_of
from mix2fld.protocols.inverse_mixup import inverse_groups, unmix
from mix2fld.protocols.parts import Seeding
from mix2fld.protocols.seed_samples import draw_groups, seed_stream
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Seeds
from mix2fld_lab.attacks.box import box_scores
from mix2fld_lab.attacks.inversion import recover_uploads
from mix2fld_lab.attacks.rates import FALSE_POSITIVES, Scores, Share, share_above, threshold
from mix2fld_lab.attacks.residual import Prior, residual_scores
from mix2fld_lab.attacks.unmixing import Candidates, Mixes, as_mixes
from mix2fld_lab.audit.ground import Ground, Rows

PARTS = ("minor", "dominant")
NULLS = 4
"""Null experiments on each device, each with an upload of other samples."""


class SeedUpload(NamedTuple):
    """The seeds of one device as they arrive, and which of its samples each was made of."""

    seeds: Seeds
    sources: Rows  # [N_S, N], rows of the training set


def upload_seeds(
    ground: Ground, seeding: Seeding, sizes: Sizes, device: int, own: Rows
) -> SeedUpload:
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
    return SeedUpload(arrived, own[chosen])


class Scored(NamedTuple):
    """Scores against the upload of one device and against null ones, by part of a mix."""

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
        groups = (ground.candidates(own), ground.candidates(ground.outsiders_like(own)))
        upload, *others = (
            upload_seeds(ground, seeding, sizes, device, held)
            for held in (own, *strangers(ground, own, seed, device))
        )
        (its, outsiders), *null = (
            [
                score(candidates, as_mixes(each.seeds, sizes, mixed=seeding.mixed), prior)
                for candidates in groups
            ]
            for each in (upload, *others)
        )
        null_its, null_outsiders = (_joined(each) for each in zip(*null, strict=True))
        members = [np.isin(own, column) for column in upload.sources.T]
        found.append(Scored(its, outsiders, null_its, null_outsiders, members))
    return {f"{rate:g}": rates_at(rate, found) for rate in FALSE_POSITIVES}


def strangers(ground: Ground, own: Rows, seed: int, device: int) -> list[Rows]:
    """Other samples in place of a device's own, with its label frequencies: null experiments."""
    return [
        ground.like(own, ground.public, stream(seed, "audit-null", device, number))
        for number in range(NULLS)
    ]


def _joined(uploads: Sequence[list[Scores]]) -> list[Scores]:
    """Scores against several uploads as if against one, by part."""
    return [np.concatenate(parts) for parts in zip(*uploads, strict=True)]


def rates_at(rate: float, found: Sequence[Scored]) -> dict[str, Any]:
    """Every share at one false-positive rate, with thresholds common to all uploads.

    A sample of the device is found if any part finds it, each at its share of the rate: so a part
    that tells nothing spoils no other. Parts that some samples are not in are counted alone too.
    """
    count = len(found[0].own)
    limits = _limits([each.outside for each in found], rate / count)
    null_limits = _limits([each.null_outside for each in found], rate / count)
    nothing = Share(0, 0)
    result = {
        "device": sum((_found_by_any(each.own, limits) for each in found), nothing),
        "null": sum((_found_by_any(each.null_own, null_limits) for each in found), nothing),
    }
    alone = _limits([each.outside for each in found], rate)[: len(found[0].members)]
    for part, limit in enumerate(alone):
        name = PARTS[part] if count == 2 else "seed" if count == 1 else f"part {part + 1}"
        shares = [share_above(each.own[part][each.members[part]], limit) for each in found]
        result[name] = sum(shares, nothing)
    return {name: share.as_record() for name, share in result.items()}


def _limits(outsiders: Sequence[list[Scores]], rate: float) -> list[float]:
    """For each part, the threshold that outsiders of all uploads decide."""
    return [threshold(part, rate) for part in _joined(outsiders)]


def _found_by_any(parts: list[Scores], limits: Sequence[float]) -> Share:
    hits = [scores > limit for scores, limit in zip(parts, limits, strict=True)]
    return Share(int(np.any(hits, axis=0).sum()), len(parts[0]))


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
