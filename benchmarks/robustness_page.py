"""``docs/robustness.md``, made from the records of ``benchmarks.robustness`` alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robustness_costs import (
    COMPARED,
    FEWEST_SEEDS,
    FRESH,
    MOST_COST,
    ON_SEEDS,
    SEEDED,
    SEEDS,
    SUBTLE,
    Records,
    cost_of,
    costs_of,
    findings,
    fresh_findings,
    in_points,
    of,
    with_attackers,
)
from mix2fld.engine.attacks import ATTACKS
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import folded, markdown_table
from mix2fld_lab.pages import render as filled
from mix2fld_lab.trainings import titled

PAGE = Path(__file__).parent.parent / "docs" / "robustness.md"
TEMPLATE = Path(__file__).parent / "templates" / "robustness.md.j2"


def render(records: Records, settings: dict[str, Any], runs: int, complete: int = SEEDS) -> str:
    """The page, of a grid of so many runs, of which so many seeds are complete."""
    made_with, done, shown = (
        said_of(*records),
        len(records),
        complete if complete >= FEWEST_SEEDS else SEEDS,
    )
    fresh = _named([r for r in records if r["seed"] in FRESH], len(FRESH))
    records = _named([r for r in records if r["seed"] < shown], shown)
    patterned = [r for r in records if r.get("tested") == "patterned"]
    records = [r for r in records if r.get("tested", "clean") == "clean"]
    subtle = [r for r in records if r.get("strength") is not None]
    records = [r for r in records if r.get("strength") is None]
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())
    missing = ", or has not been run yet" if complete < shown else ""
    return filled(
        TEMPLATE,
        runs=runs,
        made_with=made_with,
        done=done,
        flags=flags,
        seeds=_seeds_in_words(shown, complete),
        most_cost=MOST_COST,
        missing=missing,
        findings=findings(records),
        fresh_findings=fresh_findings(fresh),
        attacks=_attacks(),
        tables=[_section(records, number) for number in (1, 2, 3)],
        defences=_defences(records),
        backdoor=_backdoor(patterned),
        shares=_shares(subtle, records),
        first_fresh=FRESH[0],
        last_fresh=FRESH[-1],
        caught=_caught(fresh),
        fresh=_fresh_table(fresh, records),
    )


def _named(records: Records, seeds: int) -> Records:
    """Records that know how many seeds a whole cell has."""
    return [{**record, "of": seeds} for record in records]


def _seeds_in_words(shown: int, complete: int) -> str:
    if complete >= SEEDS:
        return f"Means over {SEEDS} seeds of the random generator."
    if complete < shown:
        return f"Means over {SEEDS} seeds of the random generator, or over as many as a cell says."
    return (
        f"Means over {shown} seeds of the random generator, 0 to {shown - 1}; the runs with seeds "
        f"{shown} to {SEEDS - 1} are not complete and are left out."
    )


def _caught(fresh: Records) -> str:
    """Whose seeds were left out in runs with fresh seeds."""
    judged = [r for r in fresh if "left_out" in r]
    caught = sum(r["left_out"]["attackers"] for r in judged)
    honest = sum(r["left_out"]["honest"] for r in judged)
    attackers = sum(r["attackers"] for r in judged)
    if not judged:
        return ""
    return (
        f"In these {len(judged)} runs the seeds of {caught} of {attackers} attackers were left out, "
        f"and those of {honest} honest devices."
    )


def _fresh_table(fresh: Records, records: Records) -> str:
    """A row for each protocol: without an attack, under each, and over all seeds of both kinds."""
    rows = []
    for protocol in SEEDED:
        cells = [_server(of(fresh, protocol, defence, "none", 0)) for defence in COMPARED]
        for attack in ON_SEEDS:
            costs = costs_of(fresh, protocol, attack, 2)
            every = costs + costs_of(records, protocol, attack, 2)
            cells.append(_with_cost(_server(of(fresh, protocol, "robust", attack, 2)), costs))
            cells.append(in_points(every) if every else "")
        rows.append((titled(protocol), *cells))
    named = [words for attack in ON_SEEDS for words in (f"`{attack}`", "lost, all seeds")]
    return markdown_table(("protocol", "no attack, mean", "no attack, robust", *named), rows)


def _with_cost(shown: str, costs: Sequence[float]) -> str:
    if not costs:
        return shown
    words = f"({in_points(costs)})"
    return f"{shown} **{words}**" if np.mean(costs) > MOST_COST else f"{shown} {words}"


def _attacks() -> str:
    rows = [(f"`{name}`", attack.does) for name, attack in ATTACKS.items()]
    return markdown_table(("attack", "what an attacker uploads or does"), rows)


def _section(records: Records, attackers: int) -> str:
    plural = "attacker" if attackers == 1 else "attackers"
    title = f"## {attackers} {plural} of 10"
    names = [
        n for n in ATTACKS if any(r["attack"] == n for r in with_attackers(records, attackers))
    ]
    if not names:
        return f"{title}\n\nNot run yet."
    header = ("protocol", "defence", "no attack", *(f"`{name}`" for name in names))
    rows = []
    for protocol in dict.fromkeys(r["protocol"] for r in with_attackers(records, attackers)):
        for defence in COMPARED:
            honest = _cell(records, protocol, defence, "none", 0)
            cells = [_cell(records, protocol, defence, name, attackers) for name in names]
            rows.append((titled(protocol), defence, honest, *cells))
    table = folded("Accuracy of every protocol under every attack", markdown_table(header, rows))
    return f"{title}\n\n{table}"


def _cell(records: Records, protocol: str, defence: str, attack: str, attackers: int) -> str:
    found = of(records, protocol, defence, attack, attackers)
    shown = _shown(found)
    if defence == "mean" or not found:
        return shown
    cost = cost_of(records, protocol, attack, attackers)
    if cost is None:
        return shown
    words = f"({cost:+.1f})"
    return f"{shown} **{words}**" if cost > MOST_COST else f"{shown} {words}"


def _defences(records: Records) -> str:
    found = [r for r in records if r["protocol"] == "fl" and r["attackers"] in (0, 2)]
    defences = [d for d in dict.fromkeys(r["defence"] for r in found) if d != "robust"]
    attacks = ["none", *(n for n in ATTACKS if any(r["attack"] == n for r in found))]
    rows = []
    for attack in attacks:
        cells = [_server(of(found, "fl", defence, attack, None)) for defence in defences]
        last = _server(of(found, "fl", "robust", attack, None))
        rows.append(("no attack" if attack == "none" else f"`{attack}`", *cells, last))
    return markdown_table(("attack", *defences, "filtered-median"), rows)


def _backdoor(records: Records) -> str:
    numbers = sorted({r["attackers"] for r in records})
    if not numbers:
        return "Not run yet."
    rows = []
    for protocol in dict.fromkeys(r["protocol"] for r in records):
        for defence in COMPARED:
            own = [r for r in records if (r["protocol"], r["defence"]) == (protocol, defence)]
            cells = [_server(with_attackers(own, number)) for number in numbers]
            rows.append((titled(protocol), defence, *cells))
    header = ("protocol", "defence", *(f"{n or 'no'} of 10" for n in numbers))
    return markdown_table(header, rows)


def _shares(subtle: Records, records: Records) -> str:
    if not subtle:
        return "Not run yet."
    shares = sorted({r["strength"] for r in subtle})
    rows = []
    for defence in COMPARED:
        found = [of(records, "mix2fld", defence, "none", 0)]
        for share in shares:
            false = [r for r in subtle if r["strength"] == share]
            found.append(of(false, "mix2fld", defence, SUBTLE, 2))
        found.append(of(records, "mix2fld", defence, SUBTLE, 2))
        rows.append((defence, *map(_server, found)))
    header = ("defence", "none", *(f"{100 * share:.0f} %" for share in shares), "all")
    return markdown_table(header, rows)


def _shown(found: Records) -> str:
    if not found:
        return ""
    stopped = sum("stopped" in r for r in found)
    if stopped:
        return f"stops, {stopped} of {len(found)}"
    devices = _percent([r["devices"] for r in found])
    models = [r["server"] for r in found if r["server"] is not None]
    return f"{_percent(models) or '–'} / {devices}{_fewer(found)}"


def _server(found: Records) -> str:
    models = [r["server"] for r in found if r["server"] is not None]
    stopped = sum("stopped" in r for r in found)
    return f"stops, {stopped} of {len(found)}" if stopped else _percent(models) + _fewer(found)


def _fewer(found: Records) -> str:
    """How many seeds a cell has, if not all are recorded."""
    of_all = found[0]["of"] if found else 0
    return f" ({len(found)} of {of_all} seeds)" if 0 < len(found) < of_all else ""


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if values else ""
