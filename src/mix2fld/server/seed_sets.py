"""The samples that the server's student is trained on, from the seeds that were delivered."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import seeds_as_fed
from mix2fld.errors import InputError
from mix2fld.learning.task import Sizes
from mix2fld.server.inverse_mixup import (
    Groups,
    groups_wanted,
    inverse_groups,
    inverse_samples,
    pool_seeds,
    samples_wanted,
)
from mix2fld.types import Inputs, Seeds, SeedSet


def as_collected(seeds: Mapping[int, Seeds], task: Sizes) -> SeedSet | None:
    """FLD and MixFLD: the samples as received, with hard or soft labels."""
    if not seeds:
        return None
    pool = pool_seeds(seeds)
    config = task.config.seeding
    mixed = pool.labels.shape[1] > 1
    ratios = config.ratios if mixed else (1.0,)
    if config.mixed_labels == "hard":
        ratios = tuple(float(place == np.argmax(ratios)) for place in range(len(ratios)))
    targets, dims = soft_labels(pool.labels, ratios, task.dims.num_labels), task.dims
    return SeedSet(targets, lambda rows: seeds_as_fed(pool.inputs[rows], dims))


def inversely_mixed(seeds: Mapping[int, Seeds], task: Sizes) -> SeedSet | None:
    """Mix2FLD: N_I hard-labelled samples per device by inverse-Mixup across devices.

    Sample s is that of label s mod N of group s div N. None while seeds are still missing that
    could give a first group.
    """
    config = task.config.seeding
    devices = task.config.data.devices
    if len(seeds) < len(config.ratios):
        return None
    pool, groups = inverse_groups(seeds, task.config)
    distinct, wanted = len(groups.members), groups_wanted(task.config)
    if distinct == 0 and len(seeds) < devices:
        return None
    if distinct == 0 or (distinct < wanted and not config.reuse_pairs):
        raise InputError(
            f"seed_samples = {config.seed_samples}: the {len(pool.labels)} mixed-up samples of "
            f"{devices} devices hold {distinct} groups of {len(config.ratios)} with rotated labels "
            f"across devices, {wanted} are needed; use more seed samples or devices"
        )
    size = len(config.ratios)
    total = min(samples_wanted(task.config), wanted * size)
    group, place = np.divmod(np.arange(total), size)
    labels = groups.labels[group % distinct, place]

    def make(rows: NDArray[np.integer]) -> Inputs:
        group, place = np.divmod(rows, size)
        which, back = np.unique(group % distinct, return_inverse=True)
        needed = Groups(members=groups.members[which], labels=groups.labels[which])
        return inverse_samples(pool, needed, task)[back, place]

    return SeedSet(soft_labels(labels[:, None], (1.0,), task.dims.num_labels), make, distinct)


def soft_labels(
    labels: NDArray[np.int32], ratios: tuple[float, ...], num_labels: int
) -> NDArray[np.float32]:
    """Label vectors of mixes [m, N_L]: ratio i is the weight of label ``labels[:, i]``."""
    targets = np.zeros((len(labels), num_labels), np.float32)
    for position, ratio in enumerate(ratios):
        targets[np.arange(len(labels)), labels[:, position]] += np.float32(ratio)
    return targets
