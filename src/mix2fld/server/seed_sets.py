"""From the seeds that devices delivered to the samples that the student is trained on."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError
from mix2fld.learning.losses import one_hot
from mix2fld.learning.task import Sizes
from mix2fld.server.inverse_mixup import find_groups, pool_seeds, unmix
from mix2fld.streams import stream
from mix2fld.types import Images, Seeds, SeedSet


def as_collected(seeds: Mapping[int, Seeds], task: Sizes) -> SeedSet | None:
    """FLD and MixFLD: the samples as they came, with hard or soft labels."""
    if not seeds:
        return None
    pool = pool_seeds(seeds)
    config = task.config.seeding
    mixed = pool.labels.shape[1] > 1
    ratios = config.ratios if mixed else (1.0,)
    if config.mixed_labels == "hard":
        ratios = tuple(float(place == np.argmax(ratios)) for place in range(len(ratios)))
    targets = soft_labels(pool.labels, ratios, task.dims.num_labels)
    return SeedSet(pool.images, targets, distinct_groups=0)


def inversely_mixed(seeds: Mapping[int, Seeds], task: Sizes) -> SeedSet | None:
    """Mix2FLD: N_I hard-labelled samples per device by inverse-Mixup across devices.

    None while seeds are still missing that could give a first pair.
    """
    config = task.config.seeding
    devices = task.config.data.devices
    total = config.inverse_samples * (devices if config.inverse_count == "per-device" else 1)
    size = len(config.ratios)
    wanted = -(-total // size)
    if len(seeds) < size:
        return None
    pool = pool_seeds(seeds)
    groups = find_groups(pool, wanted, stream(task.seed, "pairs"))
    distinct = len(groups.members)
    if distinct == 0 and len(seeds) < devices:
        return None
    if distinct == 0 or (distinct < wanted and not config.reuse_pairs):
        raise InputError(
            f"seed_samples = {config.seed_samples}: the {len(pool.labels)} mixed-up samples of "
            f"{devices} devices hold {distinct} groups of {size} with rotated labels across "
            f"devices, {wanted} are needed; use more seed samples or devices"
        )
    again = np.arange(wanted) % distinct
    groups = groups._replace(members=groups.members[again], labels=groups.labels[again])
    images = unmix(pool, groups, config.ratios).reshape(-1, *task.dims.sample_shape)[:total]
    return SeedSet(
        images=_within_range(images) if config.inverse_clip else images,
        targets=one_hot(groups.labels.ravel()[:total], task.dims.num_labels),
        distinct_groups=distinct,
    )


def soft_labels(
    labels: NDArray[np.int32], ratios: tuple[float, ...], num_labels: int
) -> NDArray[np.float32]:
    """Label vectors of mixes [m, N_L]: ratio i stands at label ``labels[:, i]``."""
    targets = np.zeros((len(labels), num_labels), np.float32)
    for position, ratio in enumerate(ratios):
        targets[np.arange(len(labels)), labels[:, position]] += np.float32(ratio)
    return targets


def _within_range(images: Images) -> Images:
    return np.clip(images, 0.0, 1.0).astype(np.float32)
