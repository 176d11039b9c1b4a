"""Which groups of seeds inverse-Mixup takes first where seeds are checked: two orders.

``python -m benchmarks.seed_groups`` prints the table of decision 33: Mix2FLD, without an attack and
with two of ten devices that shift the labels of their seeds, which are left out. The random seeds
are not those of docs/robustness.md, so that the order is not chosen on them.
"""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks import usage
from benchmarks.robustness import SETTINGS, outcome
from benchmarks.robustness_costs import SUBTLE, in_points
from mix2fld.config.settings import PRESETS, Config
from mix2fld.data import load_dataset
from mix2fld.protocols import inverse_mixup
from mix2fld_lab.markdown import markdown_table

SEEDS = range(20, 32)
Order = Callable[[NDArray[np.int32]], NDArray[np.int64]]


def tuples_in_turn(labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Each label tuple has one group before any has a second."""
    return inverse_mixup.kinds_in_turn(np.unique(labels, axis=0, return_inverse=True)[1].ravel())


ORDERS: dict[str, Order] = {
    "label tuples in turn": tuples_in_turn,
    "labels in turn": inverse_mixup.labels_in_turn,
}


def main() -> None:
    """Print the table."""
    config = Config.of(**SETTINGS, protocol="mix2fld")
    dataset = load_dataset(config.data)

    def reached(**changes: object) -> list[float]:
        runs = (outcome(config.replace(seed=seed, **changes), dataset) for seed in SEEDS)
        return [100 * run["server"] for run in runs]

    rows = [("no defence", in_points(reached()), "")]
    for name, order in ORDERS.items():
        with patch.object(inverse_mixup, "labels_in_turn", order):
            robust = PRESETS["robust"]
            cells = reached(**robust), reached(**robust, attack=SUBTLE, attackers=2)
        rows.append((name, *map(in_points, cells)))
    print(markdown_table(("order of groups", "no attack", f"`{SUBTLE}`, 2 of 10"), rows))


if __name__ == "__main__":
    usage.arguments(__doc__)
    main()
