"""The figures of docs/thin_uplink.md: how much of an update a few bits capture, and what is lost.

``python -m benchmarks.thin_uplink`` prints the table in a minute.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np

from mix2fld.codecs import RotatedUpdate
from mix2fld.codecs.rotated_plan import COARSE_NORM, make_plan

WEIGHTS, DEVICES = 12_544, 10
BUDGETS = (20, 96, 200, 500, 1400, 4000, 12_000)


def captured(bits: int, weights: int, largest_per_group: bool) -> float:
    """The share c of an update's squared norm that so many bits know of."""
    return make_plan(bits, weights, largest_per_group).captured / weights


def share_of_signs(share: float) -> float:
    """What the signs of a share of all rotated coordinates capture."""
    return 2 / math.pi * share


def bound(bits_per_weight: float) -> float:
    """The most that any code can capture of Gaussian coordinates: 1 - 4^-b."""
    return -math.expm1(-2 * math.log(2) * bits_per_weight)


def error_of_mean(share: float, devices: int) -> float:
    """Expected squared error of the mean update, as a part of the mean squared norm."""
    return (1 / share - 1) / devices


def simulated(bits: int, devices: int, draws: int) -> float:
    """The same error of updates with heavy tails, half of which all devices have in common."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        parts = rng.normal(size=(devices + 1, WEIGHTS)) * rng.exponential(size=WEIGHTS) ** 2
        updates = (parts[0] + parts[1:]).astype(np.float32)
        codec, error = RotatedUpdate(largest_per_group=True, bits=bits), np.zeros(WEIGHTS)
        for device, update in enumerate(updates):
            codes = codec.compress(update, np.random.default_rng([draw, device]), None)
            again = codec.restore(codes, np.random.default_rng([draw, device]), WEIGHTS)
            error += (again.update - update.astype(np.float64)) / devices
        found.append(np.sum(error**2) / np.mean(np.sum(updates.astype(np.float64) ** 2, axis=1)))
    return float(np.mean(found))


def table(draws: int) -> list[str]:
    """One row for each budget."""
    head = ("bits of an upload", "captured, c", "signs would", "the bound", "error of the mean")
    rows = [f"| {' | '.join(head)} | simulated |", "|---" * 6 + "|"]
    for bits in BUDGETS:
        share = captured(bits, WEIGHTS, largest_per_group=True)
        signs = captured(bits, WEIGHTS, largest_per_group=False)
        most = bound((bits - COARSE_NORM) / WEIGHTS)
        rows.append(
            f"| {bits:,} | {100 * share:.2f} % | {100 * signs:.2f} % | {100 * most:.2f} % "
            f"| {error_of_mean(share, DEVICES):.2f} | {simulated(bits, DEVICES, draws):.2f} |"
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10, help="simulated rounds for each budget")
    options = parser.parse_args(arguments)
    print("\n".join(table(options.draws)))


if __name__ == "__main__":
    main()
