"""What a link means for each protocol of a config; needs no data, and mostly no JAX."""

from typing import NamedTuple

from mix2fld.base.files import uninterrupted
from mix2fld.config.settings import Config
from mix2fld.data import dataset_sizes
from mix2fld.engine.plan import DRAWS, PlannedRound, PlannedTransfer, plan_round, plan_transfers
from mix2fld.links import Link, make_link
from mix2fld.links.transports import TRANSPORTS
from mix2fld.tasks.known_shapes import known_shapes
from mix2fld.tasks.learning import Sizes, dimensions


class LinkPlan(NamedTuple):
    """Every transfer of every protocol of a config, and what a round of each comes to."""

    link: Link
    transfers: list[PlannedTransfer]
    rounds: list[PlannedRound]


def plan_link(config: Config) -> list[PlannedTransfer]:
    """Every transfer of every protocol of a config."""
    return plan_all(config).transfers


def plan_all(config: Config, draws: int = DRAWS, transport: str = "none") -> LinkPlan:
    """The same, and the rounds; with what a transport adds to each payload, if one is named."""
    sizes, link = sizes_of(config), make_link(config, config.data.devices)
    transfers = plan_transfers(config.protocols, sizes, link, draws, TRANSPORTS.get(transport))
    rounds = [plan_round(name, transfers, config) for name in config.protocols]
    return LinkPlan(link, transfers, rounds)


def sizes_of(config: Config) -> Sizes:
    """The sizes of payloads, from the dataset's and the model's."""
    samples, num_labels = dataset_sizes(config.data)
    shapes = known_shapes(config.learning.model, samples.shape, num_labels)
    if shapes is not None:
        return Sizes(config, dimensions(config.seeding, samples, num_labels, shapes))
    with uninterrupted():  # within its import, JAX must not meet Ctrl-C
        from mix2fld.tasks.classification import Classification
        from mix2fld.tasks.make_learning import make_learning
    return make_learning(config, samples, Classification(num_labels))
