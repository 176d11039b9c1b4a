"""Tables of finished runs and of link budgets, for the terminal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from mix2fld.planning import PlannedTransfer
from mix2fld.protocol import get_protocol
from mix2fld.runs import RunResult

PLAIN: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "header_style": "underline"}


def results_table(results: Sequence[RunResult]) -> Table:
    """One row for each protocol; with several seeds, means over them and their spread."""
    seeds = len({result.config.seed[0] for result in results})
    table = Table(
        title=f"After {results[0].summary['rounds']} rounds",
        caption=f"accuracy in %, ± std over {f'{seeds} seeds' if seeds > 1 else 'devices'}; "
        "conv.: round of convergence",
        **PLAIN,
    )
    table.add_column("protocol", no_wrap=True)
    for heading in (
        "accuracy of\nall devices",
        "ref.\ndevice",
        "server\nmodel",
        "uploads",
        "Mbit\nup",
        "Mbit\ndown",
        "s on\nair",
        "s com-\nputed",
        "conv.",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    best = max(_mean(results, name, "mean") for name in _names(results))
    for name in _names(results):
        cells = _result_cells(results, name)
        bold = "bold" if _mean(results, name, "mean") == best else ""
        table.add_row(get_protocol(name).title, *cells, style=bold)
    return table


def link_table(plans: Sequence[PlannedTransfer]) -> Table:
    """One row for each transfer of each protocol."""
    table = Table(
        title="Link budget",
        caption="mean slots if it arrives; of a round: until the slowest device is done",
        **PLAIN,
    )
    table.add_column("protocol", no_wrap=True)
    table.add_column("transfer", no_wrap=True)
    for heading in (
        "bits",
        "slots\nneeded",
        "slots\nallowed",
        "chance of\ndelivery",
        "mean\nslots",
        "slots of\na round",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for plan in plans:
        of = plan.budget
        latency = of.mean_slots_if_delivered
        table.add_row(
            get_protocol(plan.protocol).title,
            plan.transfer,
            f"{of.bits:,}",
            "?" if of.slots_needed is None else f"{of.slots_needed:,}",
            f"{of.max_slots:,}",
            f"{of.delivery_probability:.4f}" if of.fits else "never",
            "-" if latency is None else f"{latency:.1f}",
            f"{of.expected_round_slots:.1f}",
            style="" if of.fits else "red",
        )
    return table


def _names(results: Sequence[RunResult]) -> list[str]:
    return list(dict.fromkeys(result.config.protocols[0] for result in results))


def _values(results: Sequence[RunResult], name: str, field: str) -> list[float]:
    accuracies = (r.summary["accuracy"] for r in results if r.config.protocols[0] == name)
    return [a[field] for a in accuracies if a[field] is not None]


def _mean(results: Sequence[RunResult], name: str, field: str) -> float:
    return float(np.mean(_values(results, name, field)))


def _result_cells(results: Sequence[RunResult], name: str) -> list[str]:
    runs = [result.summary for result in results if result.config.protocols[0] == name]
    means = _values(results, name, "mean")
    spread = float(np.std(means)) if len(runs) > 1 else runs[0]["accuracy"]["std"]

    def mean_of(group: str, field: str) -> float:
        return float(np.mean([run[group][field] for run in runs]))

    server = _values(results, name, "global")
    converged = [run["converged_round"] for run in runs if run["converged_round"] is not None]
    delivered = sum(run["uploads"]["delivered"] for run in runs)
    attempted = sum(run["uploads"]["attempted"] for run in runs)
    return [
        f"{100 * np.mean(means):.2f} ± {100 * spread:.2f}",
        f"{100 * _mean(results, name, 'reference'):.2f}",
        f"{100 * np.mean(server):.2f}" if server else "-",
        f"{delivered}/{attempted}" if attempted else "-",
        f"{mean_of('bits', 'up') / 1e6:.2f}",
        f"{mean_of('bits', 'down') / 1e6:.2f}",
        f"{mean_of('seconds', 'communication'):.2f}",
        f"{mean_of('seconds', 'computing'):.2f}",
        f"{np.median(converged):g}" if converged else "-",
    ]
