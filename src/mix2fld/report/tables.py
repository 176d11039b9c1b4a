"""Finished runs as tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.protocol_view import title_of
from mix2fld.report.training_words import trainings
from mix2fld.runs.results import RunResult
from mix2fld.tasks.metric import metric_of

PLAIN: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "header_style": "underline"}


def results_table(results: Sequence[RunResult]) -> Table:
    """One row for each protocol; with several seeds, means over them and their spread."""
    rows = {
        name: over_seeds([r.summary for r in results if r.config.protocol == name])
        for name in dict.fromkeys(result.config.protocol for result in results)
    }
    metric = metric_of(results[0].summary["scores"])
    rounds = results[0].summary["rounds"]
    table = Table(
        title=f"After {rounds} round{'s' if rounds > 1 else ''}",
        caption=f"{metric.title}, ± {spread_words(list(rows.values()))}; "
        f"J per round: of one device; conv.: round of convergence{_trained(rows)}",
        **PLAIN,
    )
    table.add_column("protocol")
    for heading in (
        f"{metric.name} of\n{_whose(list(rows.values()))}",
        "ref.\ndevice",
        "server\nmodel",
        "uploads",
        "Mbit\nup",
        "Mbit\ndown",
        "s on\nair",
        "s com-\nputed",
        "J per\nround",
        "conv.",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    best = metric.best(row["score"] for row in rows.values())
    for name, row in rows.items():
        style = "bold" if row["score"] == best else ""
        table.add_row(title_of(name), *_result_cells(row), style=style)
    return table


def _trained(rows: Mapping[str, dict[str, Any]]) -> str:
    found = trainings({title_of(name): row["training"] for name, row in rows.items()})
    return f"\n{found} (η: step size)" if found else ""


def _whose(rows: Sequence[dict[str, Any]]) -> str:
    """Whose scores are averaged: all devices, or so many that are measured."""
    fewer = [row for row in rows if row["measured"] != row["devices"]]
    if not fewer:
        return "all devices"
    return f"{fewer[0]['measured']:,} of {fewer[0]['devices']:,}"


def _result_cells(row: dict[str, Any]) -> list[str]:
    converged, shown = row["converged_round"], metric_of(row).number
    return [
        f"{shown(row['score'])} ± {shown(row['spread'])}",
        shown(row["reference"]),
        "-" if row["server"] is None else shown(row["server"]),
        f"{row['delivered']}/{row['attempted']}" if row["attempted"] else "-",
        f"{row['bits_up'] / 1e6:.2f}",
        f"{row['bits_down'] / 1e6:.2f}",
        f"{row['communication']:.2f}",
        f"{row['computing']:.2f}",
        "-" if row["joules"] is None else f"{row['joules']:.3g}",
        "-" if converged is None else f"{converged:g}",
    ]
