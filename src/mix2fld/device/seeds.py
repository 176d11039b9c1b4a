"""The seed samples that a device uploads once, with which the server converts outputs."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import carry_seeds, mix
from mix2fld.errors import InputError
from mix2fld.learning.task import Sizes
from mix2fld.streams import stream
from mix2fld.types import Inputs, Seeds

if TYPE_CHECKING:
    from mix2fld.config_uploads import SeedingConfig


def seed_stream(seed: int, device: int) -> np.random.Generator:
    """What a device draws its seed samples from: the same numbers whenever it makes them."""
    return stream(seed, "seeds", device)


def raw_samples(
    rng: np.random.Generator, inputs: Inputs, labels: NDArray[np.int32], sizes: Sizes
) -> Seeds:
    """FLD: N_S of the device's samples as they are, each at most once."""
    count = sizes.dims.seed_samples
    if count > len(labels):
        raise InputError(f"seed_samples = {count}: it holds only {len(labels)} samples")
    chosen = rng.choice(len(labels), size=count, replace=False)
    carried = carry_seeds(inputs[chosen].astype(np.float64), sizes.dims)
    return Seeds(inputs=carried, labels=labels[chosen, None])


def mixed_samples(
    rng: np.random.Generator, inputs: Inputs, labels: NDArray[np.int32], sizes: Sizes
) -> Seeds:
    """MixFLD and Mix2FLD: N_S mixes (Eq. 6), each of N samples with different labels."""
    config = sizes.config.seeding
    groups = draw_groups(rng, labels, config)
    carried = carry_seeds(mix(inputs[groups], config.ratios), sizes.dims)
    return Seeds(inputs=carried, labels=labels[groups])


def draw_groups(
    rng: np.random.Generator, labels: NDArray[np.int32], config: "SeedingConfig"
) -> NDArray[np.int64]:
    """The device's samples that each of its N_S mixes combines: rows [N_S, N]."""
    size = len(config.ratios)
    held = len(np.unique(labels))
    if held < size:
        raise InputError(
            f"mixing_ratio = {list(config.mixing_ratio)}: mixes {size} samples of different "
            f"labels, but it holds only {held} label(s); choose another partition, or a protocol "
            "that mixes nothing"
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
