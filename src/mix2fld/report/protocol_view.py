"""What the report needs of a protocol: the only module of the report that reads the table.

Runs are shown by the name of their protocol, which need not be in the table: a run may be older
than the table, or its protocol a custom one.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config
from mix2fld.learning.task import Sizes, dimensions
from mix2fld.protocol import PROTOCOLS, Protocol, Seeding, Summary
from mix2fld.round.wire import Wire
from mix2fld.types import Dataset, Inputs, Seeds


def seeding_of(protocol: str) -> Seeding | None:
    """What becomes of seed samples; None for a protocol without, or one that is not known."""
    row = _row(protocol)
    return None if row is None or isinstance(row.seeds, Summary) else row.seeds


def make_seeds(sizes: Sizes, device: int, inputs: Inputs, labels: NDArray[np.int32]) -> Seeds:
    """The seed samples that a device of a run makes from its data."""
    row = PROTOCOLS[sizes.config.protocols[0]]
    made = Wire(row, sizes).make_seeds(device, inputs, labels)
    assert isinstance(made, Seeds)
    return made


def could_charge(config: Config, dataset: Dataset, bits: float) -> bool:
    """Whether a first upload of a run with this dataset could have had so many bits.

    Weights are not counted, since nothing in a report depends on the model: an upload of weights
    may have any size.
    """
    row = _row(config.protocols[0])
    if row is None:
        return False
    wire = Wire(row, sizes_of(config, dataset))
    knowledge, first = wire.upload_size(with_seeds=False), wire.upload_size(with_seeds=True)
    if knowledge.bits and knowledge.exact:
        return bits == first.bits
    return bits >= first.bits - knowledge.bits


def payload_names(protocol: str) -> tuple[str, str]:
    """What an upload and a download carry."""
    row = _row(protocol)
    return ("?", "?") if row is None else (row.uplink.payload.name, row.downlink.payload.name)


def title_of(protocol: str) -> str:
    """A protocol's title; its name where the table does not have it."""
    row = _row(protocol)
    return protocol if row is None else row.title


def in_table_order(protocols: Iterable[str]) -> list[str]:
    """Each once: in the order of the table, then those that it does not have, then isolated."""
    names = set(protocols)
    known = [name for name in PROTOCOLS if name in names and name != "isolated"]
    return [*known, *sorted(names - set(known))]


def _row(protocol: str) -> Protocol | None:
    return PROTOCOLS.get(protocol)


def sizes_of(config: Config, dataset: Dataset) -> Sizes:
    """All sizes but those of a model."""
    return Sizes(config, dimensions(config.seeding, dataset.samples, dataset.num_labels))
