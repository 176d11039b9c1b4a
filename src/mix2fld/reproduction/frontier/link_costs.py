"""What a contender would cost on the paper's asymmetric link: chance, seconds and joules."""

from dataclasses import dataclass

from mix2fld.config import Config
from mix2fld.reproduction.cell_records import CellRecord
from mix2fld.round.energy import Power
from mix2fld.runs.simulation import plan_link

NOT_OF_THE_PAPER = ("link", "participants")


@dataclass(frozen=True)
class LinkCost:
    """Of all rounds together, by the closed form of the link."""

    chance: float
    """Of the delivery of an upload, the least likely one."""
    seconds: float
    """On the air, the slowest device in each round, both directions."""
    joules: float
    """Of one device, for sending and receiving."""


def link_cost(cell: CellRecord) -> LinkCost:
    """The transfers of a cell, all of them attempted, on the paper's link."""
    changes = {name: value for name, value in cell.changes.items() if name not in NOT_OF_THE_PAPER}
    config = Config.of(**changes)
    power, slot = Power.from_config(config), config.channel.slot_ms / 1000
    chance, seconds, joules = 1.0, 0.0, 0.0
    for plan in plan_link(config):
        times = {"first upload": 1, "later uploads": config.rounds - 1}
        count = times.get(plan.transfer, config.rounds)
        sends = plan.budget.direction == "uplink"
        watts = power.transmit if sends else power.receive
        seconds += count * slot * plan.budget.expected_round_slots
        joules += count * slot * plan.budget.expected_slots * watts
        chance = min(chance, plan.budget.delivery_probability) if sends else chance
    return LinkCost(chance, seconds, joules)
