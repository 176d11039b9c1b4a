"""What the records of ``benchmarks.robustness`` come to: what attacks cost, in points and words."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mix2fld.engine.attacks import ATTACKS
from mix2fld.protocols.table import PROTOCOLS

MOST_COST = 2.0
"""Points that an attack may cost."""
MOST_WITHOUT = 1.0
"""Points that the preset may cost without an attack."""
COMPARED = ("mean", "robust")
"""The defences that face every attack with every number of attackers."""
SEEDS, FEWEST_SEEDS = 5, 3
"""Of a whole grid, and of one that can be read."""
FRESH = range(SEEDS, 2 * SEEDS)
"""Seeds of the random generator on which nothing was chosen."""
SEEDED = ("mixfld", "mix2fld", "murmur-mix", "cfd")
"""Rows whose devices upload seed samples."""
ON_SEEDS = ("label-shift", "seed-label-shift", "seed-backdoor")
SUBTLE = "seed-label-shift"
"""The attack of which only a share of the seeds may be false."""
Records = list[dict[str, Any]]
Pair = tuple[str, str]
"""Protocol and attack."""


def findings(records: Records) -> str:
    """What the tables show, one line for each number of attackers."""
    lines = [_without_attack(records)]
    for attackers in (1, 2, 3):
        rows = dict.fromkeys(r["protocol"] for r in with_attackers(records, attackers))
        words = _judged(records, [(row, attack) for row in rows for attack in ATTACKS], attackers)
        lines += [f"- {attackers} of 10: {words}"] if words else []
    return "\n".join(lines)


def fresh_findings(records: Records) -> str:
    """The same of attacks on seeds, with fresh seeds of the random generator."""
    return _judged(records, [(row, attack) for row in SEEDED for attack in ON_SEEDS], 2)


def _judged(records: Records, pairs: Iterable[Pair], attackers: int) -> str:
    """How many pairs cost little, and which do not, with the points of each seed.

    A run that stops costs all there is, so that the preset and no defence face the same pairs.
    """
    costs = {pair: found for pair in pairs if (found := costs_of(records, *pair, attackers))}
    if not costs:
        return ""
    above = [pair for pair in costs if not mild(records, *pair, attackers, "robust")]
    above.sort(key=lambda pair: -float(np.mean(costs[pair])))
    named = "; ".join(
        f"{PROTOCOLS[protocol].title} `{attack}` {in_points(costs[protocol, attack])} (by seed: "
        f"{', '.join(f'{cost:.1f}' for cost in costs[protocol, attack])})"
        for protocol, attack in above
    )
    words = (
        f"{len(costs) - len(above)} of {len(costs)} pairs of protocol and attack cost at most "
        f"{MOST_COST:g} points with the preset"
    )
    bare = [pair for pair in costs if of(records, pair[0], "mean", pair[1], attackers)]
    if bare:
        without = sum(mild(records, *pair, attackers, "mean") for pair in bare)
        words += f", {without} of {len(bare)} without any defence"
    return f"{words}. With the preset, more do: {named}." if above else f"{words}."


def mild(records: Records, protocol: str, attack: str, attackers: int, defence: str) -> bool:
    """Whether an attack costs little; never where it stops a run."""
    if any("stopped" in record for record in of(records, protocol, defence, attack, attackers)):
        return False
    costs = costs_of(records, protocol, attack, attackers, defence)
    return bool(costs) and float(np.mean(costs)) <= MOST_COST


def in_points(costs: Sequence[float]) -> str:
    """A mean over seeds with its standard error."""
    mean = f"{np.mean(costs):.1f}"
    if len(costs) < 2:
        return mean
    return f"{mean} ± {np.std(costs, ddof=1) / np.sqrt(len(costs)):.1f}"


def cost_of(records: Records, protocol: str, attack: str, attackers: int) -> float | None:
    """Points lost with the preset under an attack, against no attack without a defence."""
    costs = costs_of(records, protocol, attack, attackers)
    return float(np.mean(costs)) if costs else None


def costs_of(
    records: Records, protocol: str, attack: str, attackers: int, defence: str = "robust"
) -> list[float]:
    """The same for each seed that both have, with the preset or another defence."""
    honest = _by_seed(of(records, protocol, "mean", "none", 0))
    attacked = _by_seed(of(records, protocol, defence, attack, attackers))
    both = sorted(honest.keys() & attacked.keys())
    return [100 * (honest[seed] - attacked[seed]) for seed in both]


def _by_seed(records: Records) -> dict[int, float]:
    """The accuracy that counts: of the server's model, where there is one."""
    found = {}
    for record in records:
        of_server = PROTOCOLS[record["protocol"]].download_codec.name == "weights"
        accuracy = record["server"] if of_server else record["devices"]
        if accuracy is not None:
            found[record["seed"]] = accuracy
    return found


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


def of(
    records: Records, protocol: str, defence: str, attack: str, attackers: int | None
) -> Records:
    """The runs of one cell, of any number of attackers if that is None."""
    return [
        r
        for r in records
        if (r["protocol"], r["defence"], r["attack"]) == (protocol, defence, attack)
        and attackers in (None, r["attackers"])
    ]


def with_attackers(records: Records, attackers: int) -> Records:
    """The runs with so many."""
    return [r for r in records if r["attackers"] == attackers]
