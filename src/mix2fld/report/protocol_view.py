"""What the report needs of a protocol: the only module of the report that reads the table.

Runs are shown by the name of their protocol, which need not be in the table: a run may be older
than the table, or its protocol a custom one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config
from mix2fld.device.seeds import seed_stream
from mix2fld.types import Dataset, Dimensions, Seeds

if TYPE_CHECKING:
    from mix2fld.protocol import Protocol


class SeedingView(NamedTuple):
    """What a protocol with seed samples does with them."""

    unmixed: bool
    """Whether the server applies inverse-Mixup; whether devices mix is seen from the labels."""


def seeding_of(protocol: str) -> SeedingView | None:
    """What becomes of seed samples; None for a protocol without, or one that is not known."""
    row = _row(protocol)
    if row is None or row.collect_seeds is None:
        return None
    from mix2fld.server.seed_sets import inversely_mixed

    return SeedingView(unmixed=row.prepare_seeds is inversely_mixed)


def make_seeds(
    config: Config, device: int, images: NDArray[np.uint8], labels: NDArray[np.int32]
) -> Seeds:
    """The seed samples that a device of a run makes from its data."""
    row = _row(config.protocols[0])
    assert row is not None
    assert row.collect_seeds is not None
    return row.collect_seeds(seed_stream(config.seed[0], device), images, labels, config.seeding)


def could_charge(config: Config, dataset: Dataset, bits: float) -> bool:
    """Whether a first upload of a run with this dataset could have had so many bits.

    Weights are not counted, since nothing in a report depends on the model: an upload of weights
    may have any size.
    """
    row = _row(config.protocols[0])
    if row is None:
        return False
    sizes = Dimensions(
        weight_shapes=(),
        num_labels=dataset.num_labels,
        sample_shape=dataset.sample_shape,
        seed_samples=config.seeding.seed_samples,
        bits_per_pixel=config.seeding.seed_bits_per_pixel,
    )
    knowledge, seeds = row.uplink.bits(sizes), row.seed_payload(config.seeding).bits(sizes)
    return bits == knowledge + seeds if knowledge else bits >= seeds


def payload_names(protocol: str) -> tuple[str, str]:
    """What an upload and a download carry."""
    row = _row(protocol)
    return ("?", "?") if row is None else (row.uplink.name, row.downlink.name)


def title_of(protocol: str) -> str:
    """A protocol's title; its name where the table does not have it."""
    row = _row(protocol)
    return protocol if row is None else row.title


def in_table_order(protocols: Iterable[str]) -> list[str]:
    """Each once: in the order of the table, then those that it does not have, then isolated."""
    from mix2fld.protocol import PROTOCOLS

    names = set(protocols)
    known = [name for name in PROTOCOLS if name in names and name != "isolated"]
    return [*known, *sorted(names - set(known))]


def _row(protocol: str) -> "Protocol | None":
    from mix2fld.protocol import PROTOCOLS

    return PROTOCOLS.get(protocol)
