"""What attackers cost, without and with a defence: protocols x attacks x defences.

``python -m benchmarks.robustness`` (``make robustness``) runs the grid and writes the page. Every
run is recorded when it is done; after an interrupt the same command resumes, and ``--page`` writes
the page from what is recorded.
"""

import argparse
import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import mix2fld
from benchmarks.robustness_costs import (
    COMPARED,
    FEWEST_SEEDS,
    FRESH,
    ON_SEEDS,
    SEEDED,
    SEEDS,
    SUBTLE,
)
from benchmarks.robustness_long import ADAPTIVE, render_long
from benchmarks.robustness_long import recorded as recorded_long
from benchmarks.robustness_page import PAGE, render
from mix2fld.base.errors import Mix2fldError
from mix2fld.config.settings import PRESETS, Config
from mix2fld.data import load_dataset
from mix2fld.engine.attackers import meets
from mix2fld.engine.attacks import ATTACKS, TARGET, with_pattern
from mix2fld.engine.scenario import attackers_of
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.results import RunResult
from mix2fld.types import Dataset
from mix2fld_lab.made_with import made_with

RECORD = Path(__file__).parent.parent / "results" / "robustness" / "runs.jsonl"
SETTINGS: dict[str, Any] = {
    "link": "ideal",
    "devices": 10,
    "rounds": 4,
    "local_steps": 400,
    "server_steps": 400,
    "test_samples": 1000,
    "curve_points": 1,
    "feature_side": 4,
}
ROWS = ("fl", "murmur", "fd", "mixfld", "mix2fld", "murmur-mix", "cfd", "statistics")
SLOW = ("statistics",)
"""Rows that face two attackers alone."""
DEFENCES: dict[str, dict[str, Any]] = {
    "mean": {},
    "robust": PRESETS["robust"],
    **{
        name: {**PRESETS["robust"], "aggregation": name}
        for name in ("trimmed-mean", "median", "clipped-mean", "krum", "geometric-median")
    },
}
"""All but the first two face two attackers in FL alone."""
BACKDOOR = "seed-backdoor"
SHARES = (0.2, 0.4, 0.6, 0.8)


class Case(NamedTuple):
    """One run of the grid."""

    protocol: str
    defence: str
    attack: str
    attackers: int
    seed: int
    tested: str = "clean"
    """``patterned``: on samples with the pattern of the backdoor, without those of its label."""
    strength: float | None = None
    """The share of an attacker's seeds that are false, if not all are."""


def cases() -> Iterator[Case]:
    """The whole grid, all settings of a seed before the next seed: what is cut short has it all."""
    for seed in range(SEEDS):
        if seed == FEWEST_SEEDS:
            yield from _fresh()
        for attackers in (2, 1, 3):
            rows = [name for name in ROWS if attackers == 2 or name not in SLOW]
            for protocol, defence in product(rows, COMPARED):
                yield from _attacked(protocol, defence, attackers, seed)
        for defence in DEFENCES:
            yield from _attacked("fl", defence, 2, seed)
        for protocol, defence in product(("mixfld", "mix2fld"), COMPARED):
            for attackers in range(4):
                attack = BACKDOOR if attackers else "none"
                yield Case(protocol, defence, attack, attackers, seed, "patterned")
        for share, defence in product(SHARES, COMPARED):
            yield Case("mix2fld", defence, SUBTLE, 2, seed, strength=share)


def _fresh() -> Iterator[Case]:
    """Attacks on seeds with seeds of the random generator that no defence was chosen on."""
    for seed, protocol in product(FRESH, SEEDED):
        for defence in COMPARED:
            yield Case(protocol, defence, "none", 0, seed)
        for attack in ON_SEEDS:
            yield Case(protocol, "robust", attack, 2, seed)


def _attacked(protocol: str, defence: str, attackers: int, seed: int) -> Iterator[Case]:
    yield Case(protocol, defence, "none", 0, seed)
    for name, attack in ATTACKS.items():
        if name not in ADAPTIVE and meets(attack, PROTOCOLS[protocol]):
            yield Case(protocol, defence, name, attackers, seed)


def main() -> None:
    """Run what is not recorded yet, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--protocols", nargs="+", choices=ROWS, default=ROWS, help="a part of it")
    parser.add_argument("--defences", nargs="+", choices=DEFENCES, default=[*DEFENCES])
    args = parser.parse_args()
    if not args.page:
        chosen = (c for c in cases() if c.protocol in args.protocols and c.defence in args.defences)
        _run_grid(chosen)
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page, of the runs that are recorded."""
    grid, recorded = set(cases()), _recorded()
    records = [record for case, record in recorded.items() if case in grid]
    short = render(records, SETTINGS, len(grid), complete_seeds(grid, recorded))
    return f"{short}\n{render_long(list(recorded_long().values()))}"


def complete_seeds(grid: Iterable[Case], recorded: Container[Case]) -> int:
    """How many seeds have all of their runs, from the first seed on."""
    missing = {case.seed for case in grid if case not in recorded}
    return next(seed for seed in count() if seed == SEEDS or seed in missing)


def _run_grid(chosen: Iterable[Case]) -> None:
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    done = _recorded()
    config = Config.of(**SETTINGS)
    clean = load_dataset(config.data)
    tests = {"clean": clean, "patterned": _patterned(clean)}
    for case in chosen:
        if case in done:
            continue
        done[case] = {}
        changes = {**DEFENCES[case.defence], "attack": case.attack, "attackers": case.attackers}
        changes["attack_strength"] = case.strength
        one = config.replace(protocol=case.protocol, seed=case.seed, **changes)
        try:
            found = outcome(one, tests[case.tested])
        except Mix2fldError as error:
            found = {"server": None, "devices": None, "stopped": str(error)}
        with RECORD.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**case._asdict(), **found, "made_with": made_with()}) + "\n")


def outcome(config: Config, dataset: Dataset) -> dict[str, Any]:
    """What a run reaches in the end, and whose seeds were left out if they were judged.

    Of a device that does not train in the last round, what it reached before counts.
    """
    (result,) = mix2fld.run(config.replace(evaluated_rounds="last"), dataset=dataset)
    if None in result.rounds[-1]["scores"]["devices"]:
        (result,) = mix2fld.run(config, dataset=dataset)
    reached = result.summary["scores"]
    found = {"server": reached["global"], "devices": reached["mean"]}
    if config.protocol in SEEDED and config.defence.seed_check != "none":
        found["left_out"] = _left_out(result)
    return found


def _left_out(result: RunResult) -> dict[str, int]:
    """How many attackers and honest devices had their seeds left out."""
    suspects = [suspect for info in result.rounds for suspect in info["suspects"]]
    devices = {suspect["device"] for suspect in suspects if suspect["upload"] == "seeds"}
    attackers = attackers_of(result.config)
    return {"attackers": len(devices & attackers), "honest": len(devices - attackers)}


def _patterned(dataset: Dataset) -> Dataset:
    """With the pattern in every test sample: a model without a backdoor sees what it saw before."""
    others = dataset.test_labels != TARGET
    inputs, labels = dataset.test_inputs[others], dataset.test_labels[others]
    return replace(dataset, test_inputs=with_pattern(inputs), test_labels=labels)


def _recorded() -> dict[Case, dict[str, Any]]:
    if not RECORD.exists():
        return {}
    lines = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    return {Case(**{n: line[n] for n in Case._fields if n in line}): line for line in lines}


if __name__ == "__main__":
    main()
