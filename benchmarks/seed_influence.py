"""Two ways to judge seeds, and how well each tells false ones: agreement, and influence.

``python -m benchmarks.seed_influence`` prints the table of decision 33. Two of ten devices shift
the labels of a share of their seeds. Each device gets two scores: the share of its labels that
models of other devices agree with (``protocols/seed_screening.py``), and how many held-out seeds of
all others a student gets right more with its seeds than without them. What is shown is the chance
that an attacker scores below an honest device: 1 tells all apart, 0.5 is guessing.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks import usage
from benchmarks.robustness import SEEDS, SETTINGS
from mix2fld.base.streams import stream
from mix2fld.config.settings import PRESETS, Config
from mix2fld.data import load_dataset
from mix2fld.engine.attacks import mislabel
from mix2fld.engine.scenario import attackers_of
from mix2fld.protocols.seed_samples import as_collected
from mix2fld.protocols.seed_screening import judge_seeds
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.stepper import Start, draw_samples
from mix2fld.types import Samples, Seeds, SeedSet, Tensors
from mix2fld_lab.markdown import markdown_table

SHARES = (1.0, 0.6, 0.4, 0.2)
Held = Mapping[int, SeedSet]


def main() -> None:
    """Print the table."""
    scores: dict[tuple[float, str], list[float]] = {}
    caught: dict[float, list[int]] = {share: [] for share in SHARES}
    wrongly = 0
    config = Config.of(**SETTINGS, **PRESETS["robust"], protocol="mix2fld", attackers=2)
    dataset = load_dataset(config.data)
    for seed in range(SEEDS):
        attacked = config.replace(seed=seed, attack="seed-label-shift")
        scenario, fleet = make_simulation(attacked.replace(attack="none"), dataset)
        seeds = {d: scenario.wire.make_once(d, *fleet.own(d)) for d in range(scenario.devices)}
        bad, labels = attackers_of(attacked), scenario.learning.dims.num_labels
        for share in SHARES:
            false = {
                d: mislabel(own, labels, share) if d in bad else own for d, own in seeds.items()
            }
            judged = judge_seeds(false, scenario.learning)
            caught[share].append(len(bad.intersection(judged.left_out)))
            wrongly += len(set(judged.left_out) - bad)
            found = {
                "agreement": judged.agreement,
                "influence": influence(false, scenario.learning),
            }
            for name, values in found.items():
                scores.setdefault((share, name), []).append(chance_below(values, bad))
    rows = [
        (
            f"{100 * share:.0f} %",
            *(f"{np.mean(scores[share, name]):.2f}" for name in ("agreement", "influence")),
            f"{sum(caught[share])} of {2 * SEEDS}",
        )
        for share in SHARES
    ]
    print(markdown_table(("false labels", "agreement", "influence", "left out"), rows))
    print(f"\nHonest devices left out in all runs: {wrongly}.")


def chance_below(values: Mapping[int, float], bad: frozenset[int]) -> float:
    """The chance that an attacker's value is below an honest device's; ties count half."""
    pairs = product(bad, set(values) - bad)
    return float(np.mean([np.sign(values[good] - values[evil]) for evil, good in pairs])) / 2 + 0.5


def influence(seeds: Mapping[int, Seeds], learning: Learning) -> dict[int, float]:
    """Of each device: held-out seeds of all others that a student gets right thanks to its seeds.

    Every other seed is learned from, the rest is held out.
    """
    held = {device: _collected(own, learning) for device, own in seeds.items()}
    whole = _student(held, sorted(held), learning)
    found = {}
    for device in sorted(held):
        others = [other for other in sorted(held) if other != device]
        without = _student(held, others, learning)
        found[device] = float(
            _right(held, others, whole, learning) - _right(held, others, without, learning)
        )
    return found


def _collected(own: Seeds, learning: Learning) -> SeedSet:
    found = as_collected({0: own}, learning)
    if found is None:
        raise ValueError("a device without seeds has no influence")
    return found


def _student(held: Held, devices: Sequence[int], learning: Learning) -> Tensors:
    training, labels = learning.config.learning, learning.dims.num_labels
    inputs, targets = _pool(held, devices, first=0)
    draws = draw_samples(
        stream(learning.seed, "influence"), len(targets), training.server_steps, training.batch_size
    )
    start = Start(learning.common_weights, np.zeros((labels, labels), np.float32))
    return learning.stepper.train_one(label_loss, Samples(inputs, targets), start, draws)


def _right(held: Held, devices: Sequence[int], weights: Tensors, learning: Learning) -> int:
    inputs, targets = _pool(held, devices, first=1)
    likeliest = learning.stepper.logits(weights, inputs).argmax(axis=1)
    return int((likeliest == targets.argmax(axis=1)).sum())


def _pool(
    held: Held, devices: Sequence[int], first: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Every other seed of some devices."""
    inputs = np.concatenate([np.asarray(held[d].inputs)[first::2] for d in devices])
    return inputs, np.concatenate([held[d].targets[first::2] for d in devices])


if __name__ == "__main__":
    usage.arguments(__doc__)
    main()
