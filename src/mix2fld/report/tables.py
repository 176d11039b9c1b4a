"""Tables for the terminal: finished runs, link budgets, the label distribution."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from mix2fld.engine.plan import PlannedRound, PlannedTransfer
from mix2fld.report.over_seeds import over_seeds, spread_words, trainings
from mix2fld.report.protocol_view import title_of
from mix2fld.report.units import in_joules, in_time, percent
from mix2fld.runs.own_tests import TestedRun, own_scores
from mix2fld.runs.results import RunResult
from mix2fld.tasks.metric import Metric, metric_of

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
        f"J per round: of one device; conv.: round of convergence{_trained(rows)}"
        f"{_baselines(next(iter(rows.values())))}{_finetuned(results, metric)}",
        **PLAIN,
    )
    table.add_column("protocol")
    for heading in (
        f"{metric.name} of\n{_whose(list(rows.values()))}",
        *(f"\n{metric_of(other).name}" for other in next(iter(rows.values()))["further"]),
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


def results_tables(results: Sequence[RunResult]) -> list[Table]:
    """All that is to be said of them: the comparison, and devices on samples of their own."""
    own = own_table(results)
    return [results_table(results), *([] if own is None else [own])]


def own_table(results: Sequence[RunResult]) -> Table | None:
    """How the model of each device does on samples of its own, beside training alone."""
    known = [result for result in results if "own" in result.summary]
    if not known:
        return None
    metric = metric_of(known[0].summary["scores"])
    table = Table(title="Devices on their own test samples, with the model they have now", **PLAIN)
    table.add_column("protocol", no_wrap=True)
    for heading in OWN_HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in own_rows(known, metric):
        table.add_row(*cells)
    return table


OWN_HEADINGS = ("mean", "worst\ndecile", "gain over\ntraining alone", "devices\nworse off")


def own_rows(
    runs: Sequence[TestedRun], metric: Metric, others: Sequence[TestedRun] = ()
) -> Iterator[list[str]]:
    """A row for each protocol, and one for its models after fine-tuning: its name, four figures.

    Devices that train alone may be among ``others``.
    """
    for name in dict.fromkeys(run.config.protocol for run in runs):
        own = [run for run in runs if run.config.protocol == name]
        for tuned in (False, True):
            found = own_scores(own, [*runs, *others], tuned)
            if found is not None:
                words = ", fine-tuned" if tuned else ""
                yield [
                    f"{title_of(name)}{words}",
                    metric.number(found.mean),
                    metric.number(found.worst_decile),
                    "-" if found.gain is None else metric.number(found.gain),
                    "-" if found.gain is None else f"{found.worse_off}/{found.compared}",
                ]


def _trained(rows: Mapping[str, dict[str, Any]]) -> str:
    found = trainings({title_of(name): row["training"] for name, row in rows.items()})
    return f"\n{found} (η: step size)" if found else ""


def _baselines(row: dict[str, Any]) -> str:
    """What simple predictions reach on the test samples."""
    shown = metric_of(row).text
    found = ", ".join(f"{name} {shown(value)}" for name, value in row["baselines"].items())
    return f"\nsimple predictions: {found}" if found else ""


def _finetuned(results: Sequence[RunResult], metric: Metric) -> str:
    """What devices reach on the common test after the steps that follow the last round."""
    found: dict[str, list[float]] = {}
    for result in results:
        if "finetuned" in result.summary:
            tuned = result.summary["finetuned"]
            found.setdefault(title_of(result.config.protocol), []).append(tuned["mean"])
    if not found:
        return ""
    steps = results[0].config.learning.finetune_steps
    words = ", ".join(f"{name} {metric.text(fmean(means))}" for name, means in found.items())
    return f"\nafter {steps:,} steps of fine-tuning: {words}"


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
        *(metric_of(other).number(other["score"]) for other in row["further"]),
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


RELIABLE, SOMETIMES = 0.95, 0.5
"""Chances of delivery from which a transfer is shown as reliable, and as one that may work."""


def link_table(plans: Sequence[PlannedTransfer]) -> Table:
    """One row for each transfer of each protocol; the chance of delivery stands out."""
    counted = any(plan.budget.slots_needed is not None for plan in plans)
    unequal = any(plan.worst < plan.budget.delivery_probability - 1e-9 for plan in plans)
    table = Table(title="Link budget", caption=_caption(plans), **PLAIN)
    table.add_column("protocol", no_wrap=True)
    table.add_column("transfer", no_wrap=True)  # the others wrap: no digit is ever cut off
    headings = [
        "bits",
        *(["slots\nneeded"] if counted else []),
        "delivered",
        *(["worst\ndevice"] if unequal else []),
        "one\ndevice",
        "slowest\nof all",
        "energy",
    ]
    for heading in headings:
        table.add_column(heading, justify="right")
    for plan in plans:
        transfer = plan.transfer.replace("uploads", "up").replace("downloads", "down")
        transfer = transfer.replace("download", "down").replace("upload", "up")
        table.add_row(title_of(plan.protocol), transfer, *_cells(plan, counted, unequal))
    return table


def rounds_table(rounds: Sequence[PlannedRound], plans: Sequence[PlannedTransfer]) -> Table:
    """One row for each protocol; the fastest of those that arrive reliably is bold."""
    unequal = any(each.most_joules > 1.001 * each.joules for each in rounds)
    table = Table(
        title="A round",
        caption="of one participating device, after its seeds were uploaded; bold: the fastest "
        "protocol whose transfers are all delivered reliably",
        **PLAIN,
    )
    table.add_column("protocol", no_wrap=True)
    headings = (
        "time\non air",
        "time com-\nputing",
        "energy",
        *(["most of\nall"] if unequal else []),
        "rounds per\nbattery",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    best = _fastest(rounds, plans)
    for each in rounds:
        table.add_row(
            title_of(each.protocol),
            in_time(each.communication),
            in_time(each.computing),
            in_joules(each.joules),
            *([in_joules(each.most_joules)] if unequal else []),
            _battery(each),
            style="bold" if each.protocol == best else "",
        )
    return table


def chance(plan: PlannedTransfer) -> str:
    """The chance of delivery of one device."""
    return percent(plan.budget.delivery_probability) if plan.budget.fits else "never"


def _cells(plan: PlannedTransfer, counted: bool, unequal: bool) -> list[str | Text]:
    of = plan.budget
    needed = "-" if of.slots_needed is None else f"{of.slots_needed:,}/{of.max_slots:,}"
    return [
        f"{of.bits:,}",
        *([needed] if counted else []),
        Text(chance(plan), style=_style(of.delivery_probability)),
        *([percent(plan.worst) if of.fits else "never"] if unequal else []),
        in_time(plan.median_seconds) if of.fits else "-",
        in_time(plan.round_seconds),
        in_joules(plan.joules),
    ]


def _style(probability: float) -> str:
    if probability >= RELIABLE:
        return "bold green"
    return "bold yellow" if probability >= SOMETIMES else "bold red"


def _caption(plans: Sequence[PlannedTransfer]) -> str:
    text = (
        "one device: median time of transfers that arrive; slowest: until all devices are done "
        "(the limit if a transfer fails), or a quorum; energy: radio of one device"
    )
    errors = [plan.standard_error for plan in plans if plan.standard_error is not None]
    if not errors:
        return text
    draws = max(plan.budget.draws for plan in plans)
    return f"{text}; from {draws:,} simulated transfers, standard error {percent(max(errors))}"


def _battery(each: PlannedRound) -> str:
    least, mean = each.least_battery_rounds, each.battery_rounds
    if mean is None or least is None:
        return "-"
    return f"{mean:,.0f}" if least > 0.999 * mean else f"{least:,.0f} to {mean:,.0f}"


def _fastest(rounds: Sequence[PlannedRound], plans: Sequence[PlannedTransfer]) -> str | None:
    late = {plan.protocol for plan in plans if plan.budget.delivery_probability < RELIABLE}
    sent = {plan.protocol for plan in plans} - late
    reliable = [each for each in rounds if each.protocol in sent]
    if not reliable:
        return None
    return min(reliable, key=lambda each: each.communication + each.computing).protocol


Counts = NDArray[np.integer]  # [D, N_L]
_MOST_LISTED_DEVICES, _MOST_LISTED_LABELS = 30, 20


def label_table(counts: Counts, noun: str = "label") -> Table:
    """A terminal table of ``counts`` [D, N_L], shaded; many devices are summed up by label."""
    if counts.shape[0] > _MOST_LISTED_DEVICES or counts.shape[1] > _MOST_LISTED_LABELS:
        return _summary_table(counts, noun)
    title = f"{noun.capitalize()} distribution: training samples by device"
    table = Table(title=title, padding=(0, 0))
    table.add_column("device", justify="right")
    top = max(int(counts.max(initial=0)), 1)
    width = len(str(top))
    for label in range(counts.shape[1]):
        table.add_column(f" {label:>{width}} ")  # aligned here: rich would cut the shade short
    table.add_column("total", justify="right", style="bold")
    for device, row in enumerate(counts):
        cells = [Text(f" {count:>{width}} ", style=_shade(int(count) / top)) for count in row]
        table.add_row(str(device), *cells, str(row.sum()))
    return table


def _summary_table(counts: Counts, noun: str) -> Table:
    devices = counts.shape[0]
    table = Table(title=f"{noun.capitalize()} distribution over {devices} devices")
    for heading in (noun, "total", "devices without", "min", "median", "max"):
        table.add_column(heading, justify="right")
    for label, column in enumerate(counts.T):
        without = int((column == 0).sum())
        median = round(float(np.median(column)), 1)
        cells = (column.sum(), without, column.min(), median, column.max())
        table.add_row(str(label), *(f"{value:,}" for value in cells))
    return table


def _shade(fraction: float) -> str:
    grey = round(235 + 20 * fraction)
    ink = "black" if grey >= 244 else "bright_white"
    return f"{ink} on color({grey})"
