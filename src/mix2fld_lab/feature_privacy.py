"""What mixes of pixels and mixes of feature vectors give away, and what each costs.

    python -m mix2fld_lab.feature_privacy

Seed samples of Mix2up (two samples of different labels, lambda = 0.1, 8 bits a value) are attacked
twice. Recognition: which of 50,000 training images is the weaker part, if the attacker has them all
and the dominant one is recognised first. Inversion: a linear map from seed samples to images of
8 x 8 pixels, fitted on mixes of 10,000 images of the attacker, is applied to the victim's mixes.
Prints a table.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.config.settings import DataConfig
from mix2fld.data import load_dataset
from mix2fld.data.resolution import pool
from mix2fld.data.samples import as_fed
from mix2fld.types import Dataset
from mix2fld_lab.markdown import markdown_table

Floats = NDArray[Any]
RATIO, LEVELS, MIXES = 0.1, 255, 300
SMALL = (8, 8, 3)
RIDGE = 1e-2


def main() -> None:
    """Attack both kinds of seed samples and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--features", default="efficientnet-lite0", help="the frozen network")
    chosen = parser.parse_args()
    pixels = load_dataset(DataConfig(dataset="cifar10"))
    vectors = load_dataset(DataConfig(dataset="cifar10", features=chosen.features))
    small = pool(pixels.train_inputs[: MIXES * 2].astype(np.float64), SMALL) / LEVELS
    goals = pool(pixels.test_inputs.astype(np.float64), SMALL).reshape(len(pixels.test_inputs), -1)
    rows = [
        (name, *attack(data, goals / LEVELS, small.reshape(len(small), -1)))
        for name, data in (("pixels", pixels), (f"features of {chosen.features}", vectors))
    ]
    heads = ("mixed", "bits of a seed sample", "dominant image recognised, %")
    more = ("weaker image recognised, %", "error of inversion", "error without any seed sample")
    print(markdown_table((*heads, *more), rows))


def attack(data: Dataset, goals: Floats, victims: Floats) -> tuple[str, ...]:
    """What both attacks find in mixes of the first training samples with the next ones."""
    known = as_fed(data.train_inputs).reshape(len(data.train_inputs), -1)
    public = as_fed(data.test_inputs).reshape(len(data.test_inputs), -1)
    low, high = data.samples.low, data.samples.high
    mixes = rounded(mixed(known[: 2 * MIXES]), low, high)
    first = nearest(mixes / (1 - RATIO), known)
    rest = (mixes - (1 - RATIO) * known[first]) / RATIO
    second = nearest(rest, known)
    dominant = 100 * np.mean(first == np.arange(MIXES))
    weaker = 100 * np.mean(second == np.arange(MIXES, 2 * MIXES))
    shown = rounded(mixed(public), low, high)
    targets = goals[: len(shown)]
    centre, mean = shown.mean(axis=0), targets.mean(axis=0)
    gram = (shown - centre).T @ (shown - centre)
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    kernel = np.linalg.solve(gram, (shown - centre).T @ (targets - mean))
    guessed = (mixes - centre) @ kernel + mean
    errors = [np.sqrt(np.mean((victims[:MIXES] - guess) ** 2)) for guess in (guessed, mean)]
    bits = f"{8 * known.shape[1]:,}"
    return bits, f"{dominant:.1f}", f"{weaker:.1f}", *(f"{error:.3f}" for error in errors)


def mixed(samples: Floats) -> Floats:
    """The first half, each with one of the second half mixed in."""
    half = len(samples) // 2
    found: Floats = (1 - RATIO) * samples[:half] + RATIO * samples[half : 2 * half]
    return found


def rounded(values: Floats, low: float, high: float) -> Floats:
    """Values as codes of 8 bits over the range carry them."""
    step = (high - low) / LEVELS
    found: Floats = np.clip(np.rint((values - low) / step), 0, LEVELS) * step + low
    return found


def nearest(wanted: Floats, known: Floats) -> NDArray[np.intp]:
    """The row of ``known`` that is closest to each of these."""
    squares = (known**2).sum(axis=1)
    return np.argmin(squares - 2 * wanted @ known.T, axis=1)


if __name__ == "__main__":
    main()
