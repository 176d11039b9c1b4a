"""What a contender would cost on the paper's asymmetric link: chance, seconds and joules."""

from dataclasses import dataclass

from mix2fld.config.grid import Grid
from mix2fld.protocols.table import single_runs
from mix2fld.runs.link_plan import plan_link
from mix2fld_lab.reproduction.cell_records import CellRecord

NOT_OF_THE_PAPER = ("link", "participants")


@dataclass(frozen=True)
class LinkCost:
    """Of all rounds together, by the closed form of the link."""

    chance: float
    """Of the delivery of an upload, the least likely one."""
    download_chance: float
    """Of the delivery of a download, the least likely one."""
    seconds: float
    """On the air, the slowest device in each round, both directions."""
    joules: float
    """Of one device, for sending and receiving."""
    bits_up: float
    """Of one device."""
    bits_down: float
    """Of the multicasts, with the downlink that is the protocol's own."""


def link_cost(cell: CellRecord) -> LinkCost:
    """The transfers of a cell, all of them attempted, on the paper's link."""
    changes = {name: value for name, value in cell.changes.items() if name not in NOT_OF_THE_PAPER}
    grid = Grid.of(**changes)
    plans, config = plan_link(grid), single_runs(grid)[0]
    times = {plan: plan.times_in_a_run(config) for plan in plans}

    def least_likely(direction: str) -> float:
        return min(
            (plan.worst for plan in plans if plan.budget.direction == direction), default=1.0
        )

    def bits(direction: str) -> float:
        own = {p: count for p, count in times.items() if p.budget.direction == direction}
        return sum(count * plan.size.bits for plan, count in own.items())

    return LinkCost(
        chance=least_likely("uplink"),
        download_chance=least_likely("downlink"),
        seconds=sum(count * plan.round_seconds for plan, count in times.items()),
        joules=sum(count * plan.joules for plan, count in times.items()),
        bits_up=bits("uplink"),
        bits_down=bits("downlink"),
    )
