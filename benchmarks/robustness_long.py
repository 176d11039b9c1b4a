"""Sixty rounds under attackers that know the defence, and small fleets without an attack.

``python -m benchmarks.robustness_long`` runs what is not recorded yet, all of a seed before the
next, and writes its part of docs/robustness.md; ``--page`` runs nothing.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mix2fld
from benchmarks.robustness_costs import MOST_COST
from mix2fld.base.errors import Mix2fldError
from mix2fld.config.settings import PRESETS, Config
from mix2fld.data import load_dataset
from mix2fld.engine.scenario import attackers_of
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.made_with import made_with, said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render as filled

RECORD = Path(__file__).parent.parent / "results" / "robustness" / "long.jsonl"
TEMPLATE = Path(__file__).parent / "templates" / "robustness_long.md.j2"
SETTINGS: dict[str, Any] = {
    "link": "ideal", "rounds": 60, "local_steps": 40, "server_steps": 40, "test_samples": 500,
    "curve_points": 1,
}  # fmt: skip
SEEDS = 3
DEFENCES: dict[str, dict[str, Any]] = {
    "mean": {},
    "filtered-median": {**PRESETS["robust"], "aggregation": "filtered-median"},
    "clipped-median": {**PRESETS["robust"], "aggregation": "clipped-median"},
}
ADAPTIVE = (
    "label-shift-inside", "back-inside", "inner-product", "min-max", "min-sum", "seed-one-label",
)  # fmt: skip
"""What knows the defence; only these runs have them."""
ON_WEIGHTS = (
    "sign-flip", "label-shift", "label-shift-inside", "back-inside", "little-is-enough",
    "inner-product", "min-max", "min-sum",
)  # fmt: skip
ON_SEEDS = ("label-shift", "seed-one-label")
SMALL = 5


class Case(NamedTuple):
    """One run."""

    fleet: str
    protocol: str
    defence: str
    attack: str
    seed: int


FLEETS: dict[str, dict[str, Any]] = {
    "ten": {"devices": 10, "attackers": 2},
    "small": {"devices": SMALL, "partition": "dirichlet", "dirichlet_alpha": 0.2},
}


def cases() -> Iterator[Case]:
    """All runs, those of a seed before those of the next."""
    for seed in range(SEEDS):
        for protocol, defence in product(("fl", "murmur"), DEFENCES):
            yield Case("small", protocol, defence, "none", seed)
            for attack in ("none", *ON_WEIGHTS):
                yield Case("ten", protocol, defence, attack, seed)
        for defence, attack in product(("mean", "filtered-median"), ("none", *ON_SEEDS)):
            yield Case("ten", "mix2fld", defence, attack, seed)


def outcome(case: Case, dataset: Any) -> dict[str, Any]:
    """What a run reaches, and in how many rounds which devices were suspects."""
    fields = {**SETTINGS, **FLEETS[case.fleet], **DEFENCES[case.defence]}
    config = Config.of(**fields, protocol=case.protocol, attack=case.attack, seed=case.seed)
    try:
        (result,) = mix2fld.run(config, dataset=dataset)
    except Mix2fldError as error:
        return {"stopped": str(error)}
    attackers = attackers_of(config)
    named = Counter(one["device"] for info in result.rounds for one in info["suspects"])
    honest = [named[device] for device in range(config.data.devices) if device not in attackers]
    scores = result.rounds[-1]["scores"]
    reached = [score for score in scores["devices"] if score is not None]
    return {
        "server": scores["global"],
        "devices": sum(reached) / len(reached),
        "worst": min(reached),
        "honest_named": max(honest),
        "attackers_named": sum(named[device] for device in attackers),
    }


def recorded() -> dict[Case, dict[str, Any]]:
    """What has been run."""
    if not RECORD.exists():
        return {}
    lines = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    return {Case(*(line[name] for name in Case._fields)): line for line in lines}


def render_long(records: Sequence[dict[str, Any]]) -> str:
    """The section of the page."""
    ten = [one for one in records if one["fleet"] == "ten"]
    small = [one for one in records if one["fleet"] == "small"]
    parts = []
    for names, rows in ((ON_WEIGHTS, ("fl", "murmur")), (ON_SEEDS, ("mix2fld",))):
        table = [
            (title(row), defence, *(_cell(ten, row, defence, one) for one in ("none", *names)))
            for row in rows
            for defence in DEFENCES
            if _of(ten, row, defence, "none")
        ]
        heads = ("protocol", "defence", "no attack", *(f"`{name}`" for name in names))
        parts.append(markdown_table(heads, table))
    named = [(title(row), defence, *_named(small, row, defence)) for row in ("fl", "murmur")
             for defence in DEFENCES if _of(small, row, defence, "none")]  # fmt: skip
    heads = ("protocol", "defence", "server", "worst device", "rounds in which one is a suspect")
    parts.append(markdown_table(heads, named))
    return filled(
        TEMPLATE, settings=SETTINGS, seeds=len({one["seed"] for one in records}), small=SMALL,
        runs=len(records), of=len(set(cases())), made_with=said_of(*records) if records else "",
        on_weights=parts[0], on_seeds=parts[1], fleets=parts[2],
    )  # fmt: skip


def title(protocol: str) -> str:
    """As tables call it."""
    return PROTOCOLS[protocol].title


def _of(records: Sequence[dict[str, Any]], *wanted: str) -> list[dict[str, Any]]:
    names = ("protocol", "defence", "attack")
    return [one for one in records if tuple(one[name] for name in names) == wanted]


def _cell(records: Sequence[dict[str, Any]], protocol: str, defence: str, attack: str) -> str:
    """Server and worst device, and what the server loses against the mean without an attack."""
    found = _of(records, protocol, defence, attack)
    if not found:
        return ""
    if stopped := sum("stopped" in one for one in found):
        return f"stops, {stopped} of {len(found)}"
    shown = f"{_percent(found, 'server')} / {_percent(found, 'worst')}"
    calm = {one["seed"]: one for one in _of(records, protocol, "mean", "none")}
    lost = [100 * (calm[one["seed"]]["server"] - one["server"]) for one in found
            if one["seed"] in calm]  # fmt: skip
    if not lost or (defence, attack) == ("mean", "none"):
        return shown
    words = f"({np.mean(lost):+.1f})"
    return f"{shown} **{words}**" if np.mean(lost) > MOST_COST else f"{shown} {words}"


def _named(records: Sequence[dict[str, Any]], protocol: str, defence: str) -> tuple[str, ...]:
    found = _of(records, protocol, defence, "none")
    rounds = ", ".join(str(one["honest_named"]) for one in found)
    return _percent(found, "server"), _percent(found, "worst"), rounds


def _percent(found: Sequence[dict[str, Any]], name: str) -> str:
    return f"{100 * float(np.mean([one[name] for one in found])):.1f}"


def main() -> None:
    """Run what is missing, and write the page."""
    from benchmarks.robustness import PAGE, page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--protocols", nargs="+", default=["fl", "murmur", "mix2fld"])
    chosen = parser.parse_args()
    done, dataset = recorded(), load_dataset(Config.of(**SETTINGS).data)
    for case in cases():
        if chosen.page or case in done or case.protocol not in chosen.protocols:
            continue
        line = {**case._asdict(), **outcome(case, dataset), "made_with": made_with()}
        with RECORD.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
