"""The page of federated reinforcement learning, from the records of its experiments."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render
from mix2fld_lab.paired import difference
from mix2fld_lab.rl.agents import HIDDEN
from mix2fld_lab.rl.experiment import (
    AGENTS,
    EPISODES,
    EPISODES_A_ROUND,
    SETTINGS,
    SOLVED_OVER,
    RLSetting,
)
from mix2fld_lab.rl.proxies import FEW_STEPS, MANY_STEPS
from mix2fld_lab.rl.table import EXCHANGES

Record = dict[str, Any]
SPEED = Path("results/bench/rl.json")
TEMPLATE = Path(__file__).parent.parent / "templates" / "rl.md.j2"
HEADINGS = (
    "protocol", "seeds", "return, last 50 episodes", "beside alone", "agents that solve it",
    "episodes until solved",
    "kbit up, agent and round", "kbit down, round", "uploads", "s on air", "J an agent",
)  # fmt: skip


def interval(values: Sequence[float], digits: int = 0) -> str:
    """The mean over seeds with its 95 % interval, by Student's t."""
    if len(values) < 2:
        return f"{np.mean(values):.{digits}f}"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def gain(records: Sequence[Record], alone: Sequence[Record], digits: int = 0) -> str:
    """The difference in return from agents alone with the same seeds, and whether it is one."""
    own, others = (
        {one["seed"]: float(np.mean(one["last"])) for one in some} for some in (records, alone)
    )
    found = difference(own, others)
    if found is None or own == others:
        return "-"
    return f"{found.mean:+.{digits}f} ± {found.half:.{digits}f}: {found.word('more', 'less')}"


def row_of(
    name: str, records: Sequence[Record], alone: Sequence[Record] = (), digits: int = 0
) -> list[str]:
    """One protocol in one setting, its returns with so many decimals."""
    rounds = [one for record in records for one in record["rounds"]]
    solved = [[n for n in record["solved"] if n is not None] for record in records]
    until = [n if n is not None else EPISODES for record in records for n in record["solved"]]
    sent = [one for one in rounds if one["bits_up"]]
    up = np.mean([one["bits_up"] / AGENTS for one in sent]) / 1e3 if sent else 0.0
    down = np.mean([one["bits_down"] for one in sent]) / 1e3 if sent else 0.0
    arrived = np.mean([one["delivered"] / AGENTS for one in sent]) if sent else None
    median = np.median(until)
    return [
        EXCHANGES[name].title,
        str(len(records)),
        interval([float(np.mean(record["last"])) for record in records], digits),
        gain(records, alone, digits),
        interval([100 * len(own) / AGENTS for own in solved]) + " %",
        f"{median:.0f}" if median < EPISODES else f"more than {EPISODES}",
        f"{up:.2f}" if sent else "-",
        f"{down:.2f}" if sent else "-",
        "-" if arrived is None else f"{100 * arrived:.1f} %",
        interval([sum(one["seconds"] for one in record["rounds"]) for record in records], 2),
        interval([record["joules"] for record in records], 3),
    ]


def speed_words(measured: Mapping[str, Any]) -> str:
    """What ``benchmarks.rl`` found."""
    ours, plain = measured["compiled"]["steps_s"], measured["plain"]["steps_s"]
    return (
        f"Speed, in steps of the environment a second of processor time: {ours:,} in the compiled "
        f"loop of ten agents, {plain:,} in a plain loop of PyTorch and gymnasium, "
        f"{ours / plain:.0f} times fewer (`python -m benchmarks.rl`, load average "
        f"{measured['load']:.0f})."
    )


def _of_world(setting: RLSetting) -> str:
    world = setting.world
    return (
        f"{world.about} Solved: a mean return of {world.solved:g} of {world.longest}. Proxies: "
        f"{world.proxies:,} cells, {world.bins} bins of each of {world.numbers} numbers; "
        f"{world.index_bits} bits for the number of one."
    )


def page(records: Sequence[Record]) -> str:
    """The whole page."""
    sections = []
    for setting in SETTINGS.values():
        found = {
            name: [r for r in records if (r["setting"], r["protocol"]) == (setting.name, name)]
            for name in EXCHANGES
        }
        digits = setting.world.digits
        rows = [row_of(name, own, found["alone"], digits) for name, own in found.items() if own]
        if rows:
            parts = (f"## {setting.words}", _of_world(setting), markdown_table(HEADINGS, rows))
            sections.append("\n\n".join(parts))
    return render(
        TEMPLATE, agents=AGENTS, episodes=EPISODES, each=EPISODES_A_ROUND, hidden=HIDDEN,
        over=SOLVED_OVER, few=FEW_STEPS, many=MANY_STEPS, tables="\n\n".join(sections),
        made_with=said_of(*records),
        speed=speed_words(json.loads(SPEED.read_text())) if SPEED.exists() else "",
    )  # fmt: skip
