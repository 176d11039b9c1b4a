"""Link budgets as tables for the terminal: what fits, how often it arrives, what it costs."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from mix2fld.engine.plan import PlannedRound, PlannedTransfer
from mix2fld.report.protocol_view import title_of
from mix2fld.report.tables import PLAIN
from mix2fld.report.units import in_joules, in_time, percent

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
        in_time(plan.seconds),
        in_time(plan.round_seconds),
        in_joules(plan.joules),
    ]


def _style(probability: float) -> str:
    if probability >= RELIABLE:
        return "bold green"
    return "bold yellow" if probability >= SOMETIMES else "bold red"


def _caption(plans: Sequence[PlannedTransfer]) -> str:
    text = (
        "one device: mean time (the limit if a transfer fails); slowest: until all devices are "
        "done; energy: radio of one device"
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
