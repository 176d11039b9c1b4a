"""What a finished audit prints: tables that fit a terminal of 80 columns."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.table import Table

from mix2fld.protocols.table import get_protocol
from mix2fld.report.tables import PLAIN
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import (
    HIGH,
    LOW,
    Stages,
    attacked_uploads,
    budgets,
    matching,
    mean,
    mixing_ratios,
    pooled,
)


class AttackCounts(NamedTuple):
    """One attack, and where its counts are."""

    name: str
    stages: str
    path: tuple[str, ...] = ()
    found: str = "device"
    null: str = "null"


def summary_tables(stages: Stages) -> list[Table]:
    """Members found, parts of mixes re-identified, and accuracies; none that would be empty."""
    tables = (_members(stages), _parts(stages), _accuracies(stages))
    return [table for table in tables if table.row_count]


def _members(stages: Stages) -> Table:
    table = Table(title="Share of a device's samples found, %", **PLAIN)
    heads = ("at 0.1 %", "null", "at 1 %", "null")
    _add_columns(table, "in", *(f"{head} FPR" if "at" in head else head for head in heads))
    table.caption = "in brackets 95 % intervals; null: the same attack on other samples"
    for attack in _attacks(stages):
        cells = []
        for rate in (LOW, HIGH):
            found, null = (
                pooled(stages, attack.stages, *attack.path, rate, kind)
                for kind in (attack.found, attack.null)
            )
            cells += [_interval(found), _rate(null)]
        table.add_row(attack.name, *cells)
    return table


def _attacks(stages: Stages) -> Iterator[AttackCounts]:
    """Every membership attack of the record."""
    for ratio in mixing_ratios(stages):
        for kind in ("box", "residual"):
            yield AttackCounts(
                f"mixes, λ = {ratio}, {kind}", rf"seeds/mixed/{re.escape(ratio)}/.*/{kind}"
            )
    for name, where in (
        ("raw seeds", r"seeds/raw/1/s\d+/box"),
        ("statistics", r"averages/statistics/s\d+"),
        ("means of ten samples", r"averages/ten/s\d+"),
    ):
        if matching(stages, where):
            yield AttackCounts(name, where)
    for name in attacked_uploads(stages):
        yield AttackCounts(f"upload of {get_protocol(name).title}", r"uploads/s\d+", (name,))
    for stage in matching(stages, r"rounds/.*"):
        name, seed = stage.split("/")[1:]
        for count in stages[stage]:
            title = f"{count} of {get_protocol(name).title}, {seed}"
            yield AttackCounts(title, re.escape(stage), (count,))
    for name in dict.fromkeys(stage.split("/")[1] for stage in matching(stages, r"noise/.*")):
        title = f"{get_protocol(name).title}, others known"
        yield AttackCounts(title, rf"noise/{re.escape(name)}/s\d+", (), "true", "false")


def _parts(stages: Stages) -> Table:
    table = Table(title="Parts of mixes re-identified among all candidates, %", **PLAIN)
    _add_columns(table, "λ", "minor", "dominant", "learned on")
    for kind, learned in (("recovery", "same kind"), ("foreign", "another dataset")):
        for ratio in mixing_ratios(stages, kind):
            where = rf"{kind}/{re.escape(ratio)}/s\d+"
            parts = [pooled(stages, where, part, "among_all") for part in ("minor", "dominant")]
            table.add_row(ratio, *map(_interval, parts), learned)
    for ratio in mixing_ratios(stages, "recurring"):
        where = rf"recurring/{re.escape(ratio)}/s\d+"
        parts = [pooled(stages, where, part, "among_all") for part in ("minor", "dominant")]
        table.add_row(ratio, *map(_interval, parts), "nothing: recurring")
    return table


def _accuracies(stages: Stages) -> Table:
    table = Table(title="Accuracy and uplink", **PLAIN)
    _add_columns(table, "protocol", "accuracy, %", "kbit a device", "runs")
    names = dict.fromkeys(stage.split("/")[1] for stage in matching(stages, r"accuracy/.*"))
    runs = [(get_protocol(name).title, rf"accuracy/{re.escape(name)}/s\d+") for name in names]
    for name, epsilon, side in budgets(stages):
        where = rf"budget/{re.escape(name)}/{epsilon:g}:{side}/s\d+"
        runs.append((f"{get_protocol(name).title}, ε = {epsilon:g}, k = {side}", where))
    for title, where in runs:
        accuracy, bits = (mean(stages, where, of) for of in ("accuracy", "uplink_bits"))
        figures = (f"{100 * (accuracy or 0):.1f}", f"{(bits or 0) / 1000:,.1f}")
        table.add_row(title, *figures, str(len(matching(stages, where))))
    return table


def _add_columns(table: Table, first: str, *others: str) -> None:
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)


def _rate(share: Share) -> str:
    return f"{100 * share.rate:.1f}" if share.of else "-"


def _interval(share: Share) -> str:
    if not share.of:
        return "-"
    low, high = (100 * end for end in share.interval())
    return f"{_rate(share)} [{low:.1f}, {high:.1f}]"
