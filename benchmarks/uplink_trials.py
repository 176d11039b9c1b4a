"""What was tried beyond Murmur, on a validation split: the table of docs/thin_uplink.md.

``python -m benchmarks.uplink_trials`` runs what is not recorded yet, each run in a few seconds, and
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
from benchmarks.uplink_ideas import ALONE, CHANGES, ONE_BIT, VARIANTS
from mix2fld.data import load_dataset
from mix2fld.protocols.table import PROTOCOLS

RECORD = Path(__file__).parent.parent / "results" / "bench" / "uplink_trials.jsonl"
SETTINGS: dict[str, Any] = {
    "link": "ideal",
    "rounds": 5,
    "local_steps": 1600,
    "curve_points": 1,
    "measured_on": "validation",
    "test_samples": 5000,
    "initial_weights": "edges",
}
TRAINING = {
    "logit_adjustment": 2.0,
    "learning_rate": 0.02,
    "final_learning_rate": 0.005,
    "device_model": "mean",
}
"""Murmur's, also for devices alone."""
SEEDS = (100, 101, 102)
"""Not among those that are reported on the test set."""
BUDGETS: dict[int, dict[str, int]] = {
    100: {"update_bits": 50, "upload_every": 2},
    500: {"update_bits": 100},
    1000: {"update_bits": 200},
    2500: {"update_bits": 500},
}
"""Bits in all, and how they are spent; of 100, two uploads are better than five."""
EXTREMES = {"devices alone": (ALONE, 0), "one bit a round": (ONE_BIT, 5)}
BASE = "Murmur"


class Case(NamedTuple):
    """One run."""

    variant: str
    bits: int
    seed: int


def cases() -> Iterator[Case]:
    """Seed by seed; the budgets that tell most come first."""
    for budgets, seed in product(((500, 2500, 100), (1000,)), SEEDS):
        for bits, name in product(budgets, VARIANTS):
            yield Case(name, bits, seed)
    for (name, (_, bits)), seed in product(EXTREMES.items(), SEEDS):
        yield Case(name, bits, seed)


def run_missing(most: int) -> None:
    """Run and record."""
    done, left = recorded(), most
    config = mix2fld.Config.of(**SETTINGS, **TRAINING)
    dataset = load_dataset(config.data)
    rows = {**VARIANTS, **{name: row for name, (row, _) in EXTREMES.items()}}
    PROTOCOLS.update(rows)
    for case in cases():
        if case in done or not left:
            continue
        left -= 1
        changes = {**BUDGETS.get(case.bits, {}), **CHANGES.get(case.variant, {})}
        one = config.replace(protocol=case.variant, seed=case.seed, **changes)
        (result,) = mix2fld.run(one, dataset=dataset)
        append_trial(RECORD, case, result)


def recorded() -> dict[Case, dict[str, float]]:
    """What is known so far."""
    return read_trials(RECORD, Case)


def table(done: Mapping[Case, Mapping[str, float]]) -> str:
    """Accuracies of devices and server, and how far they are from Murmur's with the same seed."""
    budgets = [bits for bits in BUDGETS if any(case.bits == bits for case in done)]
    heads = [f"{bits:,} bits" for bits in budgets]
    lines = [f"| devices / server, % | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in VARIANTS:
        cells = [_cell(done, name, bits) for bits in budgets]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    alone = [f"{name} {_cell(done, name, bits)}" for name, (_, bits) in EXTREMES.items()]
    seeds = sorted({case.seed for case in done})
    planned = len(list(cases()))
    missing = f", {len(done)} of {planned} runs so far" if len(done) < planned else ""
    note = (
        f"Validation split, seeds {', '.join(map(str, seeds))}{missing}. In brackets "
        "the difference from Murmur with the same seed, ± its standard deviation over seeds. "
        f"Without a budget: {'; '.join(alone)}."
    )
    return "\n".join(lines) + "\n\n" + note


def _values(
    done: Mapping[Case, Mapping[str, float]], name: str, bits: int, field: str
) -> dict[int, float]:
    cases = {seed: done.get(Case(name, bits, seed)) for seed in SEEDS}
    return {seed: row[field] for seed, row in cases.items() if row and row[field] is not None}


def _cell(done: Mapping[Case, Mapping[str, float]], name: str, bits: int) -> str:
    both = [_values(done, name, bits, field) for field in ("devices", "server")]
    shown = [f"{100 * statistics.mean(found.values()):.1f}" if found else "–" for found in both]
    text = " / ".join(shown)
    if name in (BASE, *EXTREMES) or not all(both):
        return text
    gaps = [
        _spread(found, _values(done, BASE, bits, field))
        for found, field in zip(both, ("devices", "server"), strict=True)
    ]
    return f"{text} ({' / '.join(gaps)})"


def _spread(found: Mapping[int, float], base: Mapping[int, float]) -> str:
    gaps = [100 * (found[seed] - base[seed]) for seed in found if seed in base]
    spread = f" ± {statistics.stdev(gaps):.1f}" if len(gaps) > 1 else ""
    return f"{statistics.mean(gaps):+.1f}{spread}"


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--most", type=int, default=-1, help="runs, to stop after")
    options = parser.parse_args()
    if not options.page:
        run_missing(options.most)
    replace_table(PAGE, "trials", table(recorded()))


if __name__ == "__main__":
    main()
