"""Ideas for statistics and generated seeds within a privacy budget: docs/private_ideas.md.

``python -m benchmarks.private_ideas`` measures what is not recorded yet on a validation split and
writes the page; ``--page`` only writes it.
"""

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.private_trials import (
    BASE,
    EPSILONS,
    IDEAS,
    PUBLIC_DATASET,
    ROWS,
    SEEDS,
    SETTINGS,
    WITH_DEVICES,
    Case,
    cases,
    measure,
)
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.protocols.table import get_protocol
from mix2fld_lab.made_with import made_with
from mix2fld_lab.markdown import markdown_table

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "private_ideas.jsonl"
PAGE = ROOT / "docs" / "private_ideas.md"
CLEAR = 0.01
"""An idea moves a row clearly where every seed moves by more than this, all the same way."""
Done = Mapping[Case, Mapping[str, Any]]


def run_missing(most: int) -> None:
    """Measure and record."""
    dataset, done, left = load_dataset(Config().data), recorded(), most
    for case in cases():
        with_devices = case.seed == SEEDS[0] and case.idea in WITH_DEVICES
        wanted = {"server", "devices"} if with_devices else {"server"}
        if wanted <= done.get(case, {}).keys() or not left:
            continue
        left -= 1
        found = {**case._asdict(), **measure(case, dataset, with_devices=with_devices)}
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        with RECORD.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**found, "made_with": made_with()}) + "\n")


def recorded() -> dict[Case, dict[str, Any]]:
    """What is known so far; of trials made twice, the last."""
    lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
    rows = [json.loads(line) for line in lines]
    return {Case(**{key: row[key] for key in Case._fields}): row for row in rows}


def page(done: Done) -> str:
    """The whole page; every figure is from the record."""
    named = {**SETTINGS, "public": PUBLIC_DATASET, "seed": SEEDS[0]}
    seeds = ", ".join(map(str, SEEDS))
    parts = [HEAD.format(count=len(done), of=len(list(cases())), seeds=seeds, **named)]
    for local, summed in ROWS.items():
        for row in (local, summed):
            title = get_protocol(row).title
            parts += [f"## {title}", _table(done, local, row), _sentence(done, local, row)]
    parts += ["## What devices reach", DEVICES.format(**named), _device_table(done)]
    parts.append(IN_THE_PACKAGE)
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


HEAD = """
# Ideas for a privacy budget, tried

What could make more of the same budget: other features, other ways to spend it, and other ways for
the server to turn noisy statistics into a model. None of them needs more than the sensitivity that
[the rows](privacy.md) already prove: directions are orthonormal and chosen without private samples,
groups of a label count as labels do, and the rest is post-processing. This page is made by

    python -m benchmarks.private_ideas

which resumes; {count} of {of} trials are in `results/bench/private_ideas.jsonl`. MNIST, the paper's
non-IID split, δ = 1e-5, measured on {test_samples:,} training images that no device holds, never on
test images. A trial takes what all devices hold together with the noise that they would add, not
rounded as on the link. Tables have the accuracy of the server's model in %, mean of seeds {seeds};
in brackets the smallest and the largest difference of a seed from the starting point. That is the
row with k = 6 and the share 0.4 of the budget for the sums; where seeds are generated, from class
means as they are, for a student that begins with random weights. *Public* means images of {public},
which a user could have for MNIST.
"""
DEVICES = """
Devices of one run that begin with the server's model and train for {rounds} rounds of K =
{local_steps:,} steps as the row does (mean accuracy in %, seed {seed}; in brackets the difference
from the starting point)."""
IN_THE_PACKAGE = """
## In the package

`dp-seeds` and `dp-seeds-sum` generate seeds from shrunk means, for a student that begins with edges
where the model has them. The share of the sums is the setting `sums_budget`, k is `feature_side`.
`dp-statistics` and `dp-sum` are the starting point."""


def _cells(done: Done, row: str, idea: str, epsilon: float) -> dict[int, float]:
    known = {seed: done.get(Case(row, idea, epsilon, seed)) for seed in SEEDS}
    return {seed: found["server"] for seed, found in known.items() if found}


def _gaps(done: Done, row: str, idea: str, epsilon: float) -> list[float]:
    """Differences from the starting point, seed by seed."""
    base = _cells(done, row, BASE, epsilon)
    found = _cells(done, row, idea, epsilon)
    return [found[seed] - base[seed] for seed in found if seed in base]


def _table(done: Done, local: str, row: str) -> str:
    lines = []
    for idea in IDEAS[local]:
        cells = []
        for epsilon in EPSILONS:
            found = _cells(done, row, idea, epsilon)
            text = f"{100 * statistics.mean(found.values()):.1f}" if found else "–"
            gaps = _gaps(done, row, idea, epsilon)
            if gaps and idea != BASE:
                text += f" ({100 * min(gaps):+.1f} to {100 * max(gaps):+.1f})"
            cells.append(text)
        lines.append((idea, *cells))
    return markdown_table(("idea", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)), lines)


def _sentence(done: Done, local: str, row: str) -> str:
    """Which ideas clearly help or cost at every budget, and the best at each."""
    said = []
    for verb, sign in (("Better", 1), ("Worse", -1)):
        moved = [
            idea
            for idea in IDEAS[local]
            if idea != BASE
            and all(
                (gaps := _gaps(done, row, idea, epsilon))
                and min(sign * gap for gap in gaps) > CLEAR
                for epsilon in EPSILONS
            )
        ]
        names = ", ".join(moved) or "none"
        said.append(f"{verb} by more than {100 * CLEAR:g} point with every seed and ε: {names}.")
    best = {}
    for epsilon in EPSILONS:
        means = {
            idea: statistics.mean(found.values())
            for idea in IDEAS[local]
            if (found := _cells(done, row, idea, epsilon))
        }
        if means:
            best[epsilon] = max(means, key=means.__getitem__)
    listed = "; ".join(f"ε = {epsilon:g}: {idea}" for epsilon, idea in best.items())
    return " ".join([*said, f"Best on average: {listed}."])


def _device_table(done: Done) -> str:
    lines = []
    for local, summed in ROWS.items():
        for row in (local, summed):
            for idea in (name for name in WITH_DEVICES if name in IDEAS[local]):
                cells = [_device_cell(done, Case(row, idea, e, SEEDS[0])) for e in EPSILONS]
                lines.append((get_protocol(row).title, idea, *cells))
    heads = ("row", "idea", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
    return markdown_table(heads, lines)


def _device_cell(done: Done, case: Case) -> str:
    found, base = (done.get(one, {}).get("devices") for one in (case, case._replace(idea=BASE)))
    if found is None:
        return "–"
    gap = "" if base is None or case.idea == BASE else f" ({100 * (found - base):+.1f})"
    return f"{100 * found:.1f}{gap}"


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--most", type=int, default=-1, help="trials, to stop after")
    options = parser.parse_args()
    if not options.page:
        run_missing(options.most)
    PAGE.write_text(page(recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
