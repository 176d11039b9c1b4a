"""``docs/robustness.md``, made from the records of ``benchmarks.robustness`` alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mix2fld.device.attacks import ATTACKS
from mix2fld.protocol import PROTOCOLS
from mix2fld.report.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "robustness.md"
MOST_COST = 2.0
"""Points that an attack may cost."""
MOST_WITHOUT = 1.0
"""Points that the preset may cost without an attack."""
COMPARED = ("mean", "robust")
"""The defences that face every attack with every number of attackers."""
SUBTLE = "seed-label-shift"
"""The attack of which only a share of the seeds may be false."""
SEEDS = 5
FRESH = range(SEEDS, 2 * SEEDS)
"""Seeds of the random generator on which nothing was chosen."""
SEEDED = ("mixfld", "mix2fld", "murmur-mix", "cfd")
"""Rows whose devices upload seed samples."""
ON_SEEDS = ("label-shift", "seed-label-shift", "seed-backdoor")
Records = list[dict[str, Any]]


def render(records: Records, settings: dict[str, Any], runs: int) -> str:
    """The page, of a grid of so many runs."""
    done = len(records)
    patterned = [r for r in records if r.get("tested") == "patterned"]
    records = [r for r in records if r.get("tested", "clean") == "clean"]
    subtle = [r for r in records if r.get("strength") is not None]
    records = [r for r in records if r.get("strength") is None]
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())
    missing = ", or has not been run yet" if done < runs else ""
    tables = "\n\n".join(_section(records, number) for number in (1, 2, 3))
    return f"""# Robustness: what attackers cost

Made by `make robustness` (`python -m benchmarks.robustness`, which resumes), from
[runs.jsonl](../results/robustness/runs.jsonl). Ten devices, non-IID MNIST, a lossless link, and a smaller setting
than the paper's, so that the whole grid of {runs:,} runs takes about an hour of one core; {done:,} are recorded:

```
mix2fld run {flags} \\
  --protocols fl --attack sign-flip --attackers 2 --preset robust
```

Accuracy in % of the server's model and, after the slash, of the honest devices (mean over them); FD has no
server's model. Means over {SEEDS} seeds, or over as many as a cell says. *Mean* trusts every upload; *robust* is
`--preset robust`, the default of a deployment. In brackets the points that the server's model (in FD, the devices)
loses with the defence, against no attack without a defence, over the seeds that both have; **bold** above
{MOST_COST:g}. Attackers are not measured, so that the devices of a run with attackers are fewer. Statistics face two
attackers only, on features of 4 x 4 places. What `seed-backdoor` does on samples with the pattern is
[below](#the-backdoor). A cell is empty where a protocol has nothing that the attack replaces{missing}.

## What it shows

{_findings(records)}
- The cost of an attack on seeds is that of the seeds that are left out, and nearly the same for all of them: with two of
  ten devices, a fifth of all seeds. It depends on whose seeds these are: a label that few of the others hold is then in
  few seeds.
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
"""


def _attacks() -> str:
    rows = [(f"`{name}`", attack.does) for name, attack in ATTACKS.items()]
    return markdown_table(("attack", "what an attacker uploads or does"), rows)


def _section(records: Records, attackers: int) -> str:
    plural = "attacker" if attackers == 1 else "attackers"
    title = f"## {attackers} {plural} of 10"
    names = [n for n in ATTACKS if any(r["attack"] == n for r in _with(records, attackers))]
    if not names:
        return f"{title}\n\nNot run yet."
    header = ("protocol", "defence", "no attack", *(f"`{name}`" for name in names))
    rows = []
    for protocol in dict.fromkeys(r["protocol"] for r in _with(records, attackers)):
        for defence in COMPARED:
            honest = _cell(records, protocol, defence, "none", 0)
            cells = [_cell(records, protocol, defence, name, attackers) for name in names]
            rows.append((PROTOCOLS[protocol].title, defence, honest, *cells))
    return f"{title}\n\n{markdown_table(header, rows)}"


def _cell(records: Records, protocol: str, defence: str, attack: str, attackers: int) -> str:
    found = _of(records, protocol, defence, attack, attackers)
    shown = _shown(found)
    if defence == "mean" or not found:
        return shown
    cost = cost_of(records, protocol, attack, attackers)
    if cost is None:
        return shown
    words = f"({cost:+.1f})"
    return f"{shown} **{words}**" if cost > MOST_COST else f"{shown} {words}"


def cost_of(records: Records, protocol: str, attack: str, attackers: int) -> float | None:
    """Points lost with the preset under an attack, against no attack without a defence."""
    honest = {r["seed"]: _main(r) for r in _of(records, protocol, "mean", "none", 0)}
    attacked = {r["seed"]: _main(r) for r in _of(records, protocol, "robust", attack, attackers)}
    both = [(honest[s], attacked[s]) for s in honest.keys() & attacked.keys()]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    return 100 * float(np.mean([one - other for one, other in known])) if known else None


def _defences(records: Records) -> str:
    found = [r for r in records if r["protocol"] == "fl" and r["attackers"] in (0, 2)]
    defences = [d for d in dict.fromkeys(r["defence"] for r in found) if d != "robust"]
    attacks = ["none", *(n for n in ATTACKS if any(r["attack"] == n for r in found))]
    rows = []
    for attack in attacks:
        cells = [_server(_of(found, "fl", defence, attack, None)) for defence in defences]
        last = _server(_of(found, "fl", "robust", attack, None))
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
            cells = [_server(_with(own, number)) for number in numbers]
            rows.append((PROTOCOLS[protocol].title, defence, *cells))
    header = ("protocol", "defence", *(f"{n or 'no'} of 10" for n in numbers))
    return markdown_table(header, rows)


def _shares(subtle: Records, records: Records) -> str:
    if not subtle:
        return "Not run yet."
    shares = sorted({r["strength"] for r in subtle})
    rows = []
    for defence in COMPARED:
        found = [_of(records, "mix2fld", defence, "none", 0)]
        for share in shares:
            false = [r for r in subtle if r["strength"] == share]
            found.append(_of(false, "mix2fld", defence, SUBTLE, 2))
        found.append(_of(records, "mix2fld", defence, SUBTLE, 2))
        rows.append((defence, *map(_server, found)))
    header = ("defence", "none", *(f"{100 * share:.0f} %" for share in shares), "all")
    return markdown_table(header, rows)


def _findings(records: Records) -> str:
    lines = [_without_attack(records)]
    for attackers in (1, 2, 3):
        costs = {
            (protocol, attack): cost
            for protocol in dict.fromkeys(r["protocol"] for r in _with(records, attackers))
            for attack in ATTACKS
            if (cost := cost_of(records, protocol, attack, attackers)) is not None
        }
        if not costs:
            continue
        above = sorted((k for k in costs if costs[k] > MOST_COST), key=lambda k: -costs[k])
        named = ", ".join(f"{PROTOCOLS[p].title} `{a}` {costs[p, a]:.1f}" for p, a in above)
        named += _by_seed(records, above, attackers)
        lines.append(
            f"- {attackers} of 10: {len(costs) - len(above)} of {len(costs)} pairs of protocol and "
            f"attack cost at most {MOST_COST:g} points with the preset"
            + (f"; more do: {named}." if above else ".")
        )
    return "\n".join(lines)


def _without_attack(records: Records) -> str:
    """What the defence costs if nobody attacks."""
    costs = {
        PROTOCOLS[protocol].title: cost
        for protocol in dict.fromkeys(r["protocol"] for r in records)
        if (cost := cost_of(records, protocol, "none", 0)) is not None
    }
    if not costs:
        return "- Without an attack: not run yet."
    most = max(costs, key=lambda title: costs[title])
    above = [f"{title} {cost:.1f}" for title, cost in costs.items() if cost > MOST_WITHOUT]
    words = f"; more than {MOST_WITHOUT:g}: {', '.join(above)}" if above else ""
    return f"- Without an attack the preset costs {costs[most]:.1f} points at most ({most}){words}."


def _by_seed(records: Records, pairs: list[tuple[str, str]], attackers: int) -> str:
    """The points of each seed, where the mean over them is too high."""
    found = []
    for protocol, attack in pairs:
        costs = [
            cost_of([r for r in records if r["seed"] == seed], protocol, attack, attackers)
            for seed in sorted({r["seed"] for r in records})
        ]
        words = ", ".join(f"{cost:.1f}" for cost in costs if cost is not None)
        found.append(f"{PROTOCOLS[protocol].title} `{attack}` {words}")
    return f" (by seed: {'; '.join(found)})" if found else ""


def _of(
    records: Records, protocol: str, defence: str, attack: str, attackers: int | None
) -> Records:
    return [
        r
        for r in records
        if (r["protocol"], r["defence"], r["attack"]) == (protocol, defence, attack)
        and attackers in (None, r["attackers"])
    ]


def _with(records: Records, attackers: int) -> Records:
    return [r for r in records if r["attackers"] == attackers]


def _main(record: dict[str, Any]) -> float | None:
    """The accuracy that counts: of the server's model, where there is one."""
    of_server = PROTOCOLS[record["protocol"]].downlink.payload.name == "weights"
    return record["server"] if of_server else record["devices"]


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
    return f" ({len(found)} of {SEEDS} seeds)" if 0 < len(found) < SEEDS else ""


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if values else ""
