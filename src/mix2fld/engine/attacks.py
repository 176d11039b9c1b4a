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
HALVINGS = 30
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


def against_the_mean(known: Known) -> Floats:
    """A short step against the honest mean: the mean of all then points the other way, or nowhere.

    Inner-product manipulation.
    """
    mean = known.honest.mean(axis=0)
    return known.last - known.strength * (mean - known.last)


def as_far_as_the_farthest(known: Known) -> Floats:
    """Along the deviations, no farther from any honest device than two of these are (min-max)."""
    return _farthest(known, lambda squares: float(squares.max()))


def as_far_as_the_sum(known: Known) -> Floats:
    """Along the deviations, all distances together as large as those of an honest one (min-sum)."""
    return _farthest(known, lambda squares: float(squares.sum()))


def inside_the_filter(known: Known) -> Floats:
    """What was learned, drawn to the middle until a filter by distances from it takes it.

    The attackers know the threshold: so many times the median distance.
    """
    middle, typical = _middle(known)
    away = known.own - middle
    length = float(np.linalg.norm(away))
    return middle + away * min(1.0, known.strength * typical / length if length else 1.0)


def back_inside_the_filter(known: Known) -> Floats:
    """From the middle back against the honest mean, as far as such a filter takes it."""
    middle, typical = _middle(known)
    back = known.last - known.honest.mean(axis=0)
    length = float(np.linalg.norm(back))
    return middle + back * (known.strength * typical / length if length else 0.0)


def _middle(known: Known) -> tuple[Floats, float]:
    """The median of honest devices, and their median distance from it."""
    middle = np.median(known.honest, axis=0)
    return middle, float(np.median(np.linalg.norm(known.honest - middle, axis=1)))


def _farthest(known: Known, size: Callable[[Floats], float]) -> Floats:
    """The honest mean less the most deviations that keep within what honest devices show."""
    mean, step = known.honest.mean(axis=0), known.honest.std(axis=0)
    if not step.any():
        return mean
    allowed = max(size(_squares(one, known.honest)) for one in known.honest)
    least, most = 0.0, 1.0
    while size(_squares(mean - most * step, known.honest)) < allowed:
        least, most = most, 2 * most
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        inside = size(_squares(mean - middle * step, known.honest)) <= allowed
        least, most = (middle, most) if inside else (least, middle)
    return mean - known.strength * least * step


def _squares(one: Floats, rows: Floats) -> Floats:
    return np.asarray(((rows - one) ** 2).sum(axis=1))


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


def mislabel_one(seeds: Seeds, num_labels: int, share: float = 1.0) -> Seeds:
    """All attackers give the seeds of one label the same other one; the rest is true."""
    del num_labels
    false = _first(seeds, share) & (seeds.labels == TARGET + 1)
    return Seeds(seeds.inputs, np.where(false, TARGET, seeds.labels).astype(np.int32))


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
    "inner-product": Attack(
        "together, half a step against the honest mean", against_the_mean, strength=0.5
    ),
    "min-max": Attack(
        "together, as far below the mean as two honest devices are apart", as_far_as_the_farthest
    ),
    "min-sum": Attack(
        "together, as far below the mean as the sum of honest distances lets it", as_far_as_the_sum
    ),
    "back-inside": Attack(
        "together, against the honest mean, 2.9 median distances from the middle",
        back_inside_the_filter,
        strength=2.9,
    ),
    "sample-count": Attack("zeros, claiming 2³¹ samples", nothing, samples=CLAIM),
    "label-shift": Attack("training and seeds with labels shifted by one", shifts_labels=True),
    "label-shift-inside": Attack(
        "training and seeds with labels shifted by one, 2.9 median distances from the middle",
        inside_the_filter,
        shifts_labels=True,
        strength=2.9,
    ),
    "seed-label-shift": Attack("seeds with labels shifted by one", seeds=mislabel),
    "seed-one-label": Attack("together, seeds of label 1 labelled 0", seeds=mislabel_one),
    "seed-backdoor": Attack("seeds with a pattern, labelled 0", seeds=plant_backdoor),
}
