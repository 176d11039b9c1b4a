"""The downlink of replay: the server multicasts the seeds that it holds, with whatever it sends."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.replay import REPLAY, add_to_stock, empty_stock
from mix2fld.link.payloads import SeedSamples, WithSeeds
from mix2fld.server.downlinks import Downlink
from mix2fld.types import Dimensions, Seeds, ServerState, State

Rounds = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Replayed(Downlink):
    """Another downlink, and ahead of it the seeds that someone who listens does not have yet.

    The server knows from acknowledgements up to which round a device has all seeds. Seeds of which
    a listener lacks any go to all who listen; when everyone has them, they are not sent again.
    """

    inner: Downlink
    seeds: SeedSamples
    dims: Dimensions
    devices: int

    @property
    def payload(self) -> WithSeeds:  # type: ignore[override]
        """Seeds, then what the other downlink carries."""
        return WithSeeds(self.seeds, self.devices, self.inner.payload)

    def start(self, dims: Dimensions) -> State:
        """No seeds are held."""
        return {**self.inner.start(dims), REPLAY: self._empty}

    def value(self, server: ServerState) -> Any:
        """All seeds: for a device that has nothing."""
        return self.inner.value(server), _trusted(server)

    def value_for(self, server: ServerState, audience: Sequence[int]) -> Any:
        """The seeds that arrived since the last round of which all listeners have everything."""
        complete, arrived = self._known(server)
        since = complete[list(audience)].min(initial=NEVER)
        due = {d: own for d, own in _trusted(server).items() if not 0 < arrived[d] <= since}
        return self.inner.value_for(server, audience), due

    def received(self, value: tuple[Any, Mapping[int, Seeds]]) -> State:
        """A stock of the seeds that came, to be merged with that of the device."""
        inner, seeds = value
        return {**self.inner.received(inner), REPLAY: add_to_stock(self._empty, seeds)}

    def heard(self, server: ServerState, receivers: Collection[int], round_number: int) -> State:
        """Who has now all seeds that arrived up to this round, and when each arrived."""
        complete, arrived = self._known(server)
        new = [device for device in _trusted(server) if not arrived[device]]
        arrived[new], complete[list(receivers)] = round_number, round_number
        kept = {"complete": complete, "arrived": arrived}
        return {**self.inner.heard(server, receivers, round_number), REPLAY: kept}

    @property
    def _empty(self) -> State:
        return empty_stock(self.dims, self.devices, self.seeds.mix_size)

    def _known(self, server: ServerState) -> tuple[Rounds, Rounds]:
        """The round up to which each device has all seeds; that in which its own arrived, or 0."""
        kept = server.memory.get(REPLAY)
        if kept is None:
            return np.zeros(self.devices, np.int64), np.zeros(self.devices, np.int64)
        return kept["complete"].copy(), kept["arrived"].copy()


def _trusted(server: ServerState) -> dict[int, Seeds]:
    """The seeds that were not judged bad; those that are judged again and accepted are new."""
    left_out = () if server.seed_set is None else server.seed_set.left_out
    return {device: own for device, own in server.seeds.items() if device not in left_out}
