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
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "robustness.md"


def render(records: Records, settings: dict[str, Any], runs: int, complete: int = SEEDS) -> str:
    """The page, of a grid of so many runs, of which so many seeds are complete."""
    done, shown = len(records), complete if complete >= FEWEST_SEEDS else SEEDS
    fresh = _named([r for r in records if r["seed"] in FRESH], len(FRESH))
    records = _named([r for r in records if r["seed"] < shown], shown)
    patterned = [r for r in records if r.get("tested") == "patterned"]
    records = [r for r in records if r.get("tested", "clean") == "clean"]
    subtle = [r for r in records if r.get("strength") is not None]
    records = [r for r in records if r.get("strength") is None]
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())
    missing = ", or has not been run yet" if complete < shown else ""
    tables = "\n\n".join(_section(records, number) for number in (1, 2, 3))
    return f"""# Robustness: what attackers cost

Made by `make robustness` (`python -m benchmarks.robustness`, which resumes), from
[runs.jsonl](../results/robustness/runs.jsonl). Ten devices, non-IID MNIST, a lossless link, and a smaller setting
than the paper's, so that the whole grid of {runs:,} runs takes about half an hour of one idle core; {done:,} are
recorded:

```
mix2fld run {flags} \\
  --protocols fl --attack sign-flip --attackers 2 --preset robust
```

Accuracy in % of the server's model and, after the slash, of the honest devices (mean over them); FD has no
server's model. {_seeds_in_words(shown, complete)} *Mean* trusts every upload; *robust* is
`--preset robust`, the default of a deployment. In brackets the points that the server's model (in FD, the devices)
loses with the defence, against no attack without a defence, over the seeds that both have; **bold** above
{MOST_COST:g}. Attackers are not measured, so that the devices of a run with attackers are fewer. Statistics face two
attackers only, on features of 4 x 4 places. What `seed-backdoor` does on samples with the pattern is
[below](#the-backdoor). A cell is empty where a protocol has nothing that the attack replaces{missing}.

## What it shows

{findings(records)}
- Attacks on seeds, by two of ten, with [fresh random seeds](#fresh-random-seeds): {fresh_findings(fresh) or "not run yet."}
- The cost of an attack on seeds is that of the seeds that are left out: with two of ten devices, a fifth of all seeds,
  and those of a label that few others hold may be most of them.
- With the mean, FD hardly suffers: a device learns mostly from its own samples.

## The attacks

{_attacks()}

{tables}

## Which defence

FL with two attackers, accuracy of the server's model; the last column is the preset.

{_defences(records)}

## The backdoor

Accuracy in % of the server's model on test samples that all have the pattern, without those of the label that it
stands for: a model with a backdoor takes them for that label.

{_backdoor(patterned)}

## Few false seeds

`seed-label-shift` by two of ten in Mix2FLD, where only a share of an attacker's labels is false (`--attack-strength`).
The fewer they are, the less they harm, and the less they show; [decision 33](decisions/33-judging-seeds.md) has the
rule by which seeds are left out.

{_shares(subtle, records)}

## Fresh random seeds

A defence that was chosen on the seeds of the tables above would look better there than elsewhere. Thresholds of the
check of seeds were set on seeds 0 to 4, and that labels take turns was chosen afterwards, on seeds 20 to 31
([decision 33](decisions/33-judging-seeds.md)). Here are attacks on seeds by two of ten with seeds
{FRESH[0]} to {FRESH[-1]}, on which nothing was chosen: server's model in %, and the points that it loses against no
attack without a defence, with the standard error over seeds; beside it the loss over these seeds and those of the
tables together. A single run scatters by several points, also without an
attack, so that five seeds tell a loss of two points from none only just. {_caught(fresh)}

{_fresh_table(fresh, records)}
"""


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
        rows.append((PROTOCOLS[protocol].title, *cells))
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
            rows.append((PROTOCOLS[protocol].title, defence, honest, *cells))
    return f"{title}\n\n{markdown_table(header, rows)}"


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
            rows.append((PROTOCOLS[protocol].title, defence, *cells))
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
