"""The samples that a device gives the server to convert outputs with, once."""

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import SeedingConfig
from mix2fld.errors import InputError
from mix2fld.types import Images, Seeds


def raw_samples(
    rng: np.random.Generator,
    images: NDArray[np.uint8],
    labels: NDArray[np.int32],
    config: SeedingConfig,
) -> Seeds:
    """FLD: N_S of the device's samples as they are, each at most once."""
    if config.seed_samples > len(labels):
        raise InputError(
            f"seed_samples = {config.seed_samples}: a device holds only {len(labels)} samples"
        )
    chosen = rng.choice(len(labels), size=config.seed_samples, replace=False)
    return Seeds(
        images=_as_uploaded(images[chosen].astype(np.float64), config.seed_bits_per_pixel),
        labels=labels[chosen, None],
    )


def mixed_samples(
    rng: np.random.Generator,
    images: NDArray[np.uint8],
    labels: NDArray[np.int32],
    config: SeedingConfig,
) -> Seeds:
    """MixFLD and Mix2FLD: N_S mixes (Eq. 6), each of N samples with different labels."""
    groups = draw_groups(rng, labels, config)
    return Seeds(
        images=_as_uploaded(mix(images[groups], config.ratios), config.seed_bits_per_pixel),
        labels=labels[groups],
    )


def draw_groups(
    rng: np.random.Generator, labels: NDArray[np.int32], config: SeedingConfig
) -> NDArray[np.int64]:
    """Which of the device's samples each of its N_S mixes is made of: rows [N_S, N]."""
    size = len(config.ratios)
    held = len(np.unique(labels))
    if held < size:
        raise InputError(
            f"mixing_ratio = {list(config.mixing_ratio)}: mixes {size} samples of different "
            f"labels, but a device holds only {held} label(s)"
        )
    return np.stack([_draw_group(rng, labels, size) for _ in range(config.seed_samples)])


def mix(samples: NDArray[np.uint8], ratios: tuple[float, ...]) -> NDArray[np.float64]:
    """Eq. 6: sum over i of lambda_i times sample i, for ``samples`` [m, N, H, W, C]."""
    return np.einsum("mn...,n->m...", samples.astype(np.float64), np.asarray(ratios))


def _draw_group(
    rng: np.random.Generator, labels: NDArray[np.int32], size: int
) -> NDArray[np.int64]:
    """Indices of ``size`` samples with different labels.

    After the first one the labels stand in increasing order, wrapping around, so that two devices
    that drew the same set of labels have cyclic shifts of each other (decision 16); for two
    samples this orders nothing.
    """
    free = np.ones(len(labels), dtype=bool)
    group = []
    for _ in range(size):
        candidates = np.flatnonzero(free)
        group.append(int(candidates[rng.integers(len(candidates))]))
        free &= labels != labels[group[-1]]
    first = labels[group[0]]
    modulus = int(labels.max()) + 1
    return np.array(sorted(group, key=lambda i: (labels[i] - first) % modulus))


def _as_uploaded(pixels: NDArray[np.float64], bits_per_pixel: int) -> Images:
    """The pixel values that the payload can carry."""
    if bits_per_pixel == 8:
        # Mixes of whole numbers often end in exactly one half: float noise must not decide those.
        return np.rint(np.round(pixels, 9)).astype(np.uint8)
    return (pixels / 255).astype(np.float32)
