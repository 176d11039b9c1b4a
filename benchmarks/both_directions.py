"""Accuracy against all that is sent, up and down: bits, seconds and joules on five links.

Accuracies are those of the records. A relay has the accuracy of weights, bit for bit, so that it
needs no run of its own; a coded step has one (``results/downlink/runs.jsonl``). Costs are planned.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import mix2fld
from mix2fld.config.settings import PRESETS
from mix2fld.protocols.table import single_runs
from mix2fld.report.style import save_figure
from mix2fld.runs.link_plan import plan_link
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.frontier.contenders import CONTENDERS

LINKS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "NB-IoT": {"preset": "nb-iot"},
    "LEO satellite": {"preset": "leo"},
    "RedCap": {"preset": "redcap"},
    "LoRaWAN DR5": {"preset": "lorawan-dr5", "wait": "quorum:0.8"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "own-statistics": {},
    "fd": {},
    "eden-0.1": {"downlink": "relay"},
    "eden-0.1-edges": {"downlink": "relay"},
    "stc-1-edges": {"downlink": "relay"},
    "statistics-6": {},
    "murmur-stat-4-edges": {},
    "cfd": {},
    "mix2fld": {},
    "fl8": {},
    "fl8-edges": {},
    "fl": {},
}
"""Contenders of the comparison beside those that were run with another downlink."""
BUDGETS = (0.01, 0.1, 1.0, 10.0)


class Cost(NamedTuple):
    """Of a device in all rounds, on one link."""

    bits: float
    seconds: float
    joules: float
    chance: float


class Contender(NamedTuple):
    """What it reaches, and what that takes on each link."""

    title: str
    accuracy: float
    costs: dict[str, Cost]

    @property
    def bits(self) -> float:
        """Up and down, on the first link."""
        return next(iter(self.costs.values())).bits


def contender(title: str, accuracy: float, fields: Mapping[str, Any]) -> Contender:
    """A contender with its costs on every link."""
    own = {name: value for name, value in fields.items() if name != "link"}
    return Contender(title, accuracy, {name: cost(own, more) for name, more in LINKS.items()})


def cost(fields: Mapping[str, Any], link: Mapping[str, Any]) -> Cost:
    """All transfers of a run, as they are planned."""
    more = {name: value for name, value in link.items() if name != "preset"}
    preset = PRESETS[link["preset"]] if "preset" in link else {}
    grid = mix2fld.Grid.of(**preset).replace(**fields, **more)
    config = single_runs(grid)[0]
    plans = [(plan, plan.times_in_a_run(config)) for plan in plan_link(grid)]

    def total(of: Callable[[Any], float]) -> float:
        return float(sum(times * of(plan) for plan, times in plans))

    return Cost(
        total(lambda plan: plan.size.bits),
        total(lambda plan: plan.round_seconds),
        total(lambda plan: plan.joules),
        min((plan.chance for plan, _ in plans), default=1.0),
    )


def of_records(cells: Mapping[str, CellRecord]) -> list[Contender]:
    """Those whose accuracy a cell of the comparison has."""
    return [
        contender(
            _title(key, changes),
            100 * float(cells[key].values("summary", "accuracy", "mean").mean()),
            {**cells[key].changes, **changes, "protocols": (cells[key].protocol,)},
        )
        for key, changes in OTHERS.items()
        if key in cells
    ]


def _title(key: str, changes: Mapping[str, Any]) -> str:
    words = next(one.title for one in CONTENDERS if one.key == key)
    return f"{words}, {changes['downlink']}" if changes else words


def costs_table(found: Sequence[Contender]) -> list[Sequence[str]]:
    """The cheapest in bits first; a mark where a transfer is not delivered reliably."""
    rows = [("contender", "devices, %", "bits up + down", *(f"{name}: s; J" for name in LINKS))]
    for one in sorted(found, key=lambda one: one.bits):
        cells = [
            f"{each.seconds:.3g}; {each.joules:.3g}{'' if each.chance >= 0.95 else ' *'}"
            for each in one.costs.values()
        ]
        rows.append((one.title, f"{one.accuracy:.1f}", f"{one.bits:,.0f}", *cells))
    return rows


def budgets_table(found: Sequence[Contender]) -> list[Sequence[str]]:
    """The most accurate within so many joules of a device's radio, of those that are delivered."""
    rows: list[Sequence[str]] = [("link", *(f"≤ {budget:g} J" for budget in BUDGETS))]
    for name in LINKS:
        cells = []
        for budget in BUDGETS:
            within = [
                one
                for one in found
                if one.costs[name].joules <= budget and one.costs[name].chance >= 0.95
            ]
            best = max(within, key=lambda one: one.accuracy)
            cells.append(f"{best.title}: {best.accuracy:.1f}")
        rows.append((name, *cells))
    return rows


def draw(found: Sequence[Contender], path: Path) -> None:
    """Accuracy against bits in both directions; those nobody beats with fewer are named."""
    sent = sorted((one for one in found if one.bits), key=lambda one: one.bits)
    best = np.maximum.accumulate([one.accuracy for one in sent])
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    axes.step([one.bits for one in sent], best, where="post", linewidth=1, color="#bbbbbb")
    for one, top in zip(sent, best, strict=True):
        named = one.accuracy == top
        label = one.title if named else None
        axes.plot(one.bits, one.accuracy, "o", color=None if named else "#bbbbbb", label=label)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("bits of a device, up and down, in five rounds")
    axes.set_ylabel("device accuracy in %")
    axes.grid(alpha=0.3)
    save_figure(figure, path, dpi=120)
