"""Replay: with whatever it sends, the server multicasts the seed samples that it holds."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import SeedSamples, Size, WithSeeds
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.downlink import GlobalVersions
from mix2fld.protocols.parts import Arrives, Inbox
from mix2fld.tasks.replay import REPLAY, add_to_stock, empty_stock
from mix2fld.types import Dimensions, Seeds, ServerState, State, Tensors

OWNERS = "owners"
"""The entry of the server's memory that says who has whose seeds."""


@dataclass(frozen=True)
class Replayed:
    """The downlink of a protocol, and ahead of it seed samples that some listener lacks.

    The server knows from acknowledgements who has whose seed samples. It sends those that most
    listeners lack, as many as still arrive with the rest, and continues in the next round; at least
    one device's, or devices with a weak downlink would never replay.
    """

    inner: Protocol | GlobalVersions
    seeds: SeedSamples
    dims: Dimensions
    devices: int

    same_for_all = False

    @property
    def sends_steps(self) -> bool:
        """Whether the downlink without seed samples can carry steps."""
        return self.inner.sends_steps

    @property
    def download_codec(self) -> WithSeeds:
        return WithSeeds(self.seeds, self.devices, self.inner.download_codec)

    def download_size(self, arrives: Arrives | None = None) -> Size:
        """Without seed samples, or with those that fit into what arrives."""
        seeds_of = 0 if arrives is None else self.most_that_arrive(arrives)
        return self._size_with(seeds_of)

    def start(self, weights: Tensors) -> State:
        return {**self.inner.start(weights), REPLAY: self._empty}

    def download(self, server: ServerState) -> Any:
        """All seed samples: for a device that has nothing."""
        return self.inner.download(server), _trusted(server)

    def download_to(self, server: ServerState, device: int) -> Any:
        """The last download, with the seed samples of all devices."""
        return self.inner.download_to(server, device), _trusted(server)

    def download_for(self, server: ServerState, audience: Sequence[int], arrives: Arrives) -> Any:
        """The seed samples that most listeners lack, as many as arrive."""
        trusted = _trusted(server)
        lacking = (~self._who_has(server)[list(audience)]).sum(axis=0)
        wanted = sorted((d for d in trusted if lacking[d]), key=lambda d: (-lacking[d], d))
        due = {device: trusted[device] for device in wanted[: self.most_that_arrive(arrives)]}
        return self.inner.download_for(server, audience, arrives), due

    def beyond_history(
        self, server: ServerState, audience: Sequence[int], value: Any
    ) -> Sequence[int]:
        """Of the downlink without seed samples."""
        return self.inner.beyond_history(server, audience, value[0])

    def most_that_arrive(self, arrives: Arrives) -> int:
        """How many devices' seeds fit into a download, at least 1."""

        def lost(count: int) -> bool:
            return not arrives(self._size_with(count).bits)

        return bisect_left(range(self.devices), True, lo=1, key=lambda more: lost(1 + more))

    def _size_with(self, count: int) -> Size:
        """Of a download with the seeds of so many devices, and the rest as it is expected."""
        most, rest = self.download_codec.size_with(self.dims, count), self.inner.download_size()
        without = most.bits - self.download_codec.rest.size(self.dims).bits
        return Size(without + rest.bits, rest.exact)

    def taken(self, value: tuple[Any, Mapping[int, Seeds]], states: Iterable[State]) -> State:
        """A stock of the seeds that came, to be merged with that of the device."""
        inner, seeds = value
        return {**self.inner.taken(inner, states), REPLAY: add_to_stock(self._empty, seeds)}

    def has_taken(self, value: tuple[Any, Any], state: State) -> bool:
        """Whether the device has the model; seed samples do not matter here."""
        return self.inner.has_taken(value[0], state)

    def after_step(
        self, before: ServerState, after: ServerState, inbox: Inbox, round_number: int
    ) -> ServerState:
        """The server state of the downlink without seed samples."""
        return self.inner.after_step(before, after, inbox, round_number)

    def on_receipt(
        self, server: ServerState, receivers: Collection[int], asked: Collection[int], value: Any
    ) -> State:
        """Who has whose seeds now; those that are not trusted are sent again if they ever are."""
        inner, sent = value
        has, trusted = self._who_has(server), _trusted(server)
        has[np.ix_(list(receivers), list(sent))] = True
        has[:, [device for device in range(self.devices) if device not in trusted]] = False
        kept = {OWNERS: np.packbits(has, axis=1)}
        return {**self.inner.on_receipt(server, receivers, asked, inner), REPLAY: kept}

    @property
    def _empty(self) -> State:
        return empty_stock(self.dims, self.devices, self.seeds.mix_size)

    def _who_has(self, server: ServerState) -> NDArray[np.bool_]:
        """Whether a device has the seeds of another [device, owner]."""
        kept = server.memory.get(REPLAY, {}).get(OWNERS)
        if kept is None:
            return np.zeros((self.devices, self.devices), np.bool_)
        return np.unpackbits(kept, axis=1, count=self.devices).astype(np.bool_)


def _trusted(server: ServerState) -> dict[int, Seeds]:
    """The seeds that were not judged bad; those that are judged again and accepted are new."""
    left_out = () if server.seed_set is None else server.seed_set.left_out
    return {device: own for device, own in server.seeds.items() if device not in left_out}
