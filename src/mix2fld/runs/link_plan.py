"""What a link means for each protocol of a config; needs no data, and mostly no JAX."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from mix2fld.config import Config
from mix2fld.data import dataset_sizes
from mix2fld.data.files import uninterrupted
from mix2fld.learning.known_shapes import known_shapes
from mix2fld.learning.task import Sizes, dimensions
from mix2fld.link import Link, make_link
from mix2fld.link.transports import TRANSPORTS
from mix2fld.protocols.table import single_runs
from mix2fld.round.plan import DRAWS, PlannedRound, PlannedTransfer, plan_round, plan_transfers


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
    shared, link = sizes_of(config), make_link(config, config.data.devices)
    transfers: list[PlannedTransfer] = []
    rounds: list[PlannedRound] = []
    for settings, names in _by_settings(config):
        dims = shared.dims
        own = dimensions(settings.seeding, dims.samples, dims.num_labels, dims.weight_shapes)
        sizes = replace(shared, config=settings, dims=own)
        transfers += plan_transfers(names, sizes, link, draws, TRANSPORTS.get(transport))
        rounds += [plan_round(name, transfers, settings) for name in names]
    return LinkPlan(link, transfers, rounds)


def _by_settings(config: Config) -> Iterator[tuple[Config, list[str]]]:
    """The protocols, those together that have the same settings: they share many payloads."""
    singles = single_runs(config.replace(seed=config.seed[0]))
    for settings, some in groupby(singles, lambda one: one.replace(protocols=config.protocols)):
        yield settings, [one.protocols[0] for one in some]


def sizes_of(config: Config) -> Sizes:
    """The sizes of payloads, from the dataset's and the model's."""
    samples, num_labels = dataset_sizes(config.data)
    shapes = known_shapes(config.learning.model, samples.shape, num_labels)
    if shapes is not None:
        return Sizes(config, dimensions(config.seeding, samples, num_labels, shapes))
    with uninterrupted():  # within its import, JAX must not meet Ctrl-C
        from mix2fld.learning.make_task import make_task
    return make_task(config, samples, num_labels)
