"""What coding the last layer by itself is worth: a table of docs/thin_uplink.md.

``python -m benchmarks.last_layer`` runs what is not recorded yet, each run in a few seconds, and
writes the table; ``--page`` only writes it.
"""

import argparse
import statistics
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import mix2fld
from benchmarks.page_tables import PAGE, replace_table
from benchmarks.trial_records import append_trial, read_trials
from mix2fld.data import load_dataset
from mix2fld.models.networks import SampleShape, mlp
from mix2fld.types import Model
from mix2fld_lab.reproduction.frontier.settings import NETWORKS

RECORD = Path(__file__).parent.parent / "results" / "bench" / "last_layer.jsonl"
SETTINGS: dict[str, Any] = {
    "protocol": "murmur",
    "link": "ideal",
    "rounds": 5,
    "local_steps": 400,
    "curve_points": 1,
    "measured_on": "validation",
    "test_samples": 5000,
    "evaluated_rounds": "last",
    "logit_adjustment": 1.0,
    "learning_rate": 0.02,
    "final_learning_rate": 0.005,
    "device_model": "mean",
}
PARTITIONS: dict[str, dict[str, Any]] = {
    "MNIST, the paper's split": {"dataset": "mnist", "partition": "non-iid"},
    "Fashion-MNIST, Dirichlet 0.3": {
        "dataset": "fashion-mnist",
        "partition": "dirichlet",
        "dirichlet_alpha": 0.3,
    },
}
MODELS = {64: "benchmarks.last_layer:narrow_mlp", 512: f"{NETWORKS}wide_mlp"}
"""By the units of the one hidden layer."""
BITS = (200, 1400, 20_000)
SHARES = (0.0, "auto")
SEEDS = (100, 101, 102)
"""Not among those that are reported on the test set."""


class Case(NamedTuple):
    """One run."""

    partition: str
    hidden: int
    bits: int
    share: float | str
    seed: int


def cases() -> Iterator[Case]:
    """Seed by seed."""
    for seed, *rest in product(SEEDS, PARTITIONS, MODELS, BITS, SHARES):
        yield Case(*rest, seed=seed)  # type: ignore[arg-type]


def narrow_mlp(sample_shape: SampleShape, num_labels: int) -> Model:
    """One hidden layer of 64; 50,890 weights for MNIST."""
    return mlp(sample_shape, num_labels, hidden=(64,))


def run_missing() -> None:
    """Run and record."""
    done = recorded()
    for case in cases():
        if case in done:
            continue
        config = mix2fld.Config.of(
            **SETTINGS,
            **PARTITIONS[case.partition],
            model=MODELS[case.hidden],
            update_bits=case.bits,
            last_layer_share=case.share,
            seed=case.seed,
        )
        (result,) = mix2fld.run(config, dataset=load_dataset(config.data))
        append_trial(RECORD, case, result)


def recorded() -> dict[Case, dict[str, Any]]:
    """What is known so far."""
    return read_trials(RECORD, Case)


def table(done: Mapping[Case, Mapping[str, Any]]) -> str:
    """Accuracies of devices and server, coded whole and with the last layer by itself."""
    heads = [f"{bits:,} bits, {word}" for bits in BITS for word in ("whole", "apart")]
    lines = [
        f"| devices / server, % | weights | {' | '.join(heads)} |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for partition, hidden in product(PARTITIONS, MODELS):
        cells = [_cell(done, partition, hidden, bits, share) for bits in BITS for share in SHARES]
        weights = f"{785 * hidden + 10 * (hidden + 1):,}"
        lines.append(f"| {partition} | {weights} | {' | '.join(cells)} |")
    seeds = sorted({case.seed for case in done})
    note = f"Bits of an upload. Validation split, mean of seeds {', '.join(map(str, seeds))}."
    return "\n".join(lines) + "\n\n" + note


def _cell(
    done: Mapping[Case, Mapping[str, Any]],
    partition: str,
    hidden: int,
    bits: int,
    share: float | str,
) -> str:
    found = [
        row
        for seed in SEEDS
        if (row := done.get(Case(partition, hidden, bits, share, seed))) is not None
    ]
    if not found:
        return "–"
    means = (100 * statistics.mean(row[end] for row in found) for end in ("devices", "server"))
    return " / ".join(f"{mean:.1f}" for mean in means)


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing")
    if not parser.parse_args().page:
        run_missing()
    replace_table(PAGE, "last layer", table(recorded()))


if __name__ == "__main__":
    main()
