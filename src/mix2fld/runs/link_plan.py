"""What a link means for each protocol; needs no data, and mostly no JAX."""

from typing import NamedTuple

from mix2fld.base.files import uninterrupted
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.engine.plan import DRAWS, PlannedRound, PlannedTransfer, plan_round, plan_transfers
from mix2fld.links import Link, make_link
from mix2fld.links.transports import TRANSPORTS
from mix2fld.protocols.table import single_runs
from mix2fld.tasks.known_shapes import known_shapes
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.of_settings import samples_and_task, sizes_for


class LinkPlan(NamedTuple):
    """Every transfer of every protocol, and what a round of each comes to."""

    link: Link
    transfers: list[PlannedTransfer]
    rounds: list[PlannedRound]


def plan_link(settings: Config | Grid) -> list[PlannedTransfer]:
    """Every transfer of the protocol of a config, or of all protocols of a grid."""
    return plan_all(settings).transfers


def plan_all(settings: Config | Grid, draws: int = DRAWS, transport: str = "none") -> LinkPlan:
    """The same, and the rounds; with what a transport adds to each payload, if one is named."""
    config, *others = single_runs(settings)
    runs = [config, *(one for one in others if one.seed == config.seed)]
    link, carried = make_link(config, config.data.devices), TRANSPORTS.get(transport)
    transfers = [
        transfer
        for one in runs
        for transfer in plan_transfers([one.protocol], sizes_of(one), link, draws, carried)
    ]
    rounds = [plan_round(one.protocol, transfers, one) for one in runs]
    return LinkPlan(link, transfers, rounds)


def sizes_of(config: Config) -> Sizes:
    """The sizes of payloads, from the dataset's and the model's."""
    samples, task = samples_and_task(config)
    shapes = known_shapes(config.learning, samples, task.outputs)
    if shapes is not None:
        return sizes_for(task, config, samples, shapes)
    with uninterrupted():  # within its import, JAX must not meet Ctrl-C
        from mix2fld.tasks.make_learning import make_learning
    return make_learning(config, samples, task)
