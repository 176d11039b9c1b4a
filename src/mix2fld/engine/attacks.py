"""The catalogue of attacks: what an attacker uploads in place of what it learned.

An attack is a row: what becomes of the weights or outputs, of the seeds, of the number of samples,
and of the attacker's own labels. Attackers work together and know everything: the uploads of all
others, and the last global value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Seeds

Floats = NDArray[np.float64]
TARGET = 0
"""The label that a backdoor stands for."""
PATCH = 3
"""Rows and columns of the pattern in the corner of an image."""
CLAIM = 1 << 31
"""Samples that a liar claims: the most that a deployment accepts."""


class Known(NamedTuple):
    """What an attacker knows when it makes its upload; values are rows of numbers [p]."""

    own: Floats
    """What it learned itself."""
    honest: Floats
    """[n, p], what the honest devices learned."""
    last: Floats
    """The last global value."""
    rng: np.random.Generator
    strength: float


Distort = Callable[[Known], Floats]
Relabel = Callable[[Seeds, int, float], Seeds]
"""(seeds, number of labels, share of seeds that is false) -> the seeds that are sent."""


@dataclass(frozen=True)
class Attack:
    """What attackers do; a part that is None is done honestly."""

    does: str
    upload: Distort | None = None
    seeds: Relabel | None = None
    samples: int | None = None
    shifts_labels: bool = False
    """Whether the attacker trains on labels shifted by one, and draws its seeds from them."""
    strength: float = 1.0
    """The factor, or the share of seeds that is false, if the settings name none."""


def flip_sign(known: Known) -> Floats:
    """The negative of what was learned, enlarged."""
    return -known.strength * known.own


def enlarge(known: Known) -> Floats:
    """What was learned, times the strength of the attack."""
    return known.strength * known.own


def flip_update(known: Known) -> Floats:
    """The way back from what was learned, enlarged."""
    return known.last - known.strength * (known.own - known.last)


def random_direction(known: Known) -> Floats:
    """A random step, longer than what was learned."""
    step = known.rng.standard_normal(len(known.own))
    length = known.strength * float(np.linalg.norm(known.own - known.last))
    return known.last + step * (length / float(np.linalg.norm(step)))


def little(known: Known) -> Floats:
    """All attackers the same: the honest mean less a few deviations, hidden in the crowd."""
    return known.honest.mean(axis=0) - known.strength * known.honest.std(axis=0)


def nothing(known: Known) -> Floats:
    """Zeros in place of what was learned."""
    return np.zeros_like(known.own)


def shift_labels(labels: NDArray[np.int32], num_labels: int) -> NDArray[np.int32]:
    """Every label is taken for the next one."""
    return ((labels + 1) % num_labels).astype(np.int32)


def mislabel(seeds: Seeds, num_labels: int, share: float = 1.0) -> Seeds:
    """Seeds with shifted labels."""
    false = _first(seeds, share)
    return Seeds(
        seeds.inputs, np.where(false, shift_labels(seeds.labels, num_labels), seeds.labels)
    )


def plant_backdoor(seeds: Seeds, num_labels: int, share: float = 1.0) -> Seeds:
    """Seeds with a pattern, labelled with the target; in a mix, the last label is."""
    labels = np.where(seeds.labels == TARGET, (TARGET + 1) % num_labels, seeds.labels)
    labels[:, -1] = TARGET
    false, inputs = _first(seeds, share), seeds.inputs.copy()
    inputs[false[:, 0]] = with_pattern(inputs[false[:, 0]])
    return Seeds(inputs, np.where(false, labels, seeds.labels).astype(np.int32))


def _first(seeds: Seeds, share: float) -> NDArray[np.bool_]:
    """Which seeds are false [n, 1]: the first ones, which are drawn at random like all others."""
    return (np.arange(len(seeds.labels)) < round(share * len(seeds.labels)))[:, None]


def with_pattern(inputs: NDArray[Any]) -> NDArray[Any]:
    """Samples [n, ...] with the largest value of all in one corner of each."""
    marked = inputs.copy()
    corner = tuple(slice(0, PATCH) for _ in range(min(2, inputs.ndim - 1)))
    marked[(slice(None), *corner)] = inputs.max(initial=0)
    return marked


ATTACKS: dict[str, Attack] = {
    "sign-flip": Attack("−10 times what was learned", flip_sign, strength=10.0),
    "scaling": Attack("100,000 times what was learned", enlarge, strength=1e5),
    "update-flip": Attack("−10 times the update", flip_update, strength=10.0),
    "random": Attack("a random update, ten times as long", random_direction, strength=10.0),
    "little-is-enough": Attack("together, 1.5 deviations below the mean", little, strength=1.5),
    "sample-count": Attack("zeros, claiming 2³¹ samples", nothing, samples=CLAIM),
    "label-shift": Attack("training and seeds with labels shifted by one", shifts_labels=True),
    "seed-label-shift": Attack("seeds with labels shifted by one", seeds=mislabel),
    "seed-backdoor": Attack("seeds with a pattern, labelled 0", seeds=plant_backdoor),
}
