"""Seed samples: what a device uploads once of its data, and what the server makes of them.

Raw (FLD), mixed up on the device (MixFLD, Eq. 6), or unmixed again across devices (Mix2FLD, Eqs. 7
and 8).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.data.samples import carry_seeds, mix, seeds_as_fed
from mix2fld.protocols.inverse_mixup import (
    Groups,
    groups_wanted,
    inverse_groups,
    inverse_samples,
    pool_seeds,
    samples_wanted,
    unmixed_numbers,
)
from mix2fld.protocols.parts import Seeding, setting
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Inputs, Seeds, SeedSet

if TYPE_CHECKING:
    from mix2fld.config.uploads import SeedingConfig


def seed_stream(seed: int, device: int) -> np.random.Generator:
    """What a device draws its seed samples from: the same numbers whenever it makes them."""
    return stream(seed, "seeds", device)


def raw_samples(
    rng: np.random.Generator, inputs: Inputs, values: NDArray[Any], sizes: Sizes
) -> Seeds:
    """FLD: N_S of the device's samples as they are, each at most once."""
    count, (labels, targets) = sizes.dims.seed_samples, sizes.labels_and_targets(values)
    if count > len(labels):
        raise InputError(
            field="seed_samples", value=count, hint=f"it holds only {len(labels)} samples"
        )
    chosen = rng.choice(len(labels), size=count, replace=False)
    carried = carry_seeds(inputs[chosen].astype(np.float64), sizes.dims)
    return Seeds(carried, labels[chosen, None], None if targets is None else targets[chosen])


def mixed_samples(
    rng: np.random.Generator, inputs: Inputs, values: NDArray[Any], sizes: Sizes
) -> Seeds:
    """MixFLD and Mix2FLD: N_S mixes (Eq. 6), each of N samples with different labels.

    Numbers as targets are mixed as the samples are.
    """
    config, (labels, targets) = sizes.config.seeding, sizes.labels_and_targets(values)
    groups = draw_groups(rng, labels, config)
    carried = carry_seeds(mix(inputs[groups], config.ratios), sizes.dims)
    mixed = None if targets is None else mix(targets[groups], config.ratios).astype(np.float32)
    return Seeds(carried, labels[groups], mixed)


def draw_groups(
    rng: np.random.Generator, labels: NDArray[np.int32], config: "SeedingConfig"
) -> NDArray[np.int64]:
    """The device's samples that each of its N_S mixes combines: rows [N_S, N]."""
    size = len(config.ratios)
    held = len(np.unique(labels))
    if held < size:
        raise InputError(
            field="mixing_ratio",
            value=list(config.mixing_ratio),
            hint=f"mixes {size} samples of different "
            f"labels, but it holds only {held} label(s); choose another partition, or a protocol "
            "that mixes nothing",
        )
    free: dict[frozenset[int], NDArray[np.int64]] = {}
    drawn = [_draw_group(rng, labels, size, free) for _ in range(config.seed_samples)]
    return np.array(drawn, np.int64)


def _draw_group(
    rng: np.random.Generator,
    labels: NDArray[np.int32],
    size: int,
    free: dict[frozenset[int], NDArray[np.int64]],
) -> list[int]:
    """Indices of ``size`` samples with different labels; ``free`` are those without some labels.

    After the first one the labels stand in increasing order, wrapping around, so that two devices
    that drew the same set of labels have cyclic shifts of each other (decision 16); for two
    samples this orders nothing.
    """
    taken: dict[int, int] = {}  # label -> sample
    for _ in range(size):
        without = frozenset(taken)
        if without not in free:
            others = np.ones(len(labels), np.bool_)
            for label in without:
                others &= labels != label
            free[without] = np.flatnonzero(others)
        candidates = free[without]
        sample = int(candidates[rng.integers(len(candidates))])
        taken[int(labels[sample])] = sample
    first, modulus = next(iter(taken)), int(labels.max()) + 1
    return [taken[label] for label in sorted(taken, key=lambda label: (label - first) % modulus)]


def as_collected(seeds: Mapping[int, Seeds], learning: Sizes) -> SeedSet | None:
    """FLD and MixFLD: the samples as received, with hard or soft labels."""
    if not seeds:
        return None
    pool = pool_seeds(seeds)
    config = learning.config.seeding
    mixed = pool.labels.shape[1] > 1
    ratios = config.ratios if mixed else (1.0,)
    if config.mixed_labels == "hard":
        ratios = tuple(float(place == np.argmax(ratios)) for place in range(len(ratios)))
    dims, targets = learning.dims, pool.targets
    if targets is None:
        targets = soft_labels(pool.labels, ratios, dims.num_labels)
    return SeedSet(targets, lambda rows: seeds_as_fed(pool.inputs[rows], dims))


def inversely_mixed(seeds: Mapping[int, Seeds], learning: Sizes) -> SeedSet | None:
    """Mix2FLD: N_I hard-labelled samples per device by inverse-Mixup across devices.

    Sample s is that of label s mod N of group s div N. None while seeds are still missing that
    could give a first group.
    """
    config = learning.config.seeding
    devices = learning.config.data.devices
    if len(seeds) < len(config.ratios):
        return None
    pool, groups = inverse_groups(seeds, learning.config)
    distinct, wanted = len(groups.members), groups_wanted(learning.config)
    if distinct == 0 and len(seeds) < devices:
        return None
    if distinct == 0 or (distinct < wanted and not config.reuse_pairs):
        raise InputError(
            field="seed_samples",
            value=config.seed_samples,
            hint=f"the {len(pool.labels)} mixed-up samples of "
            f"{devices} devices hold {distinct} groups of {len(config.ratios)} with rotated labels "
            f"across devices, {wanted} are needed; use more seed samples or devices",
        )
    size = len(config.ratios)
    total = min(samples_wanted(learning.config), wanted * size)
    group, place = np.divmod(np.arange(total), size)
    labels = groups.labels[group % distinct, place]

    def make(rows: NDArray[np.integer]) -> Inputs:
        group, place = np.divmod(rows, size)
        which, back = np.unique(group % distinct, return_inverse=True)
        needed = Groups(members=groups.members[which], labels=groups.labels[which])
        return inverse_samples(pool, needed, learning)[back, place]

    targets = soft_labels(labels[:, None], (1.0,), learning.dims.num_labels)
    if pool.targets is not None:
        targets = unmixed_numbers(pool.targets, groups, config.ratios)[group % distinct, place]
    return SeedSet(targets, make, distinct)


def soft_labels(
    labels: NDArray[np.int32], ratios: tuple[float, ...], num_labels: int
) -> NDArray[np.float32]:
    """Label vectors of mixes [m, N_L]: ratio i is the weight of label ``labels[:, i]``."""
    targets = np.zeros((len(labels), num_labels), np.float32)
    for position, ratio in enumerate(ratios):
        targets[np.arange(len(labels)), labels[:, position]] += np.float32(ratio)
    return targets


raw = Seeding(raw_samples, as_collected, mixed=False)
mixed = Seeding(mixed_samples, as_collected, mixed=True)
unmixed = Seeding(mixed_samples, inversely_mixed, mixed=True, unmixed=True)


@dataclass(frozen=True, kw_only=True)
class SeedParameters:
    """Parameters that protocols with seed samples have in common, beside those of their family."""

    seed_samples: int = setting("seeding.seed_samples", 50)  # N_S
    seed_bits: int = setting("seeding.seed_bits", 8)
    seed_pooling: int = setting("seeding.seed_pooling", 1)
    mixing_ratio: tuple[float, ...] = setting("seeding.mixing_ratio", (0.1,))  # lambda
    replay: str | float = setting("seeding.replay", "auto")
