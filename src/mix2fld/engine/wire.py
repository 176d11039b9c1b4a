"""What crosses the link in a round, for any row of the protocol table: values in, bytes out.

Every fleet calls these, so that bits charged are bits carried wherever the devices are.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.codecs import Encoded, Payload, PayloadError, SeedSamples, Size
from mix2fld.protocols.base import Arrives, Downlink, Protocol, Turn
from mix2fld.protocols.replay import Replayed
from mix2fld.protocols.seed_samples import seed_stream
from mix2fld.protocols.statistics import Summary
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.tasks.private_statistics import Measured, measure_samples
from mix2fld.tasks.replay import REPLAY, seeds_in
from mix2fld.tasks.training import resolve
from mix2fld.types import (
    Inputs,
    Local,
    Once,
    SampleFormat,
    SeedSet,
    ServerState,
    State,
    Tensors,
    Upload,
)


class Packet(NamedTuple):
    """What one device sends up in a round."""

    knowledge: Encoded
    seeds: Encoded | None
    samples: int  # |S_d|, known to the server

    @property
    def bits(self) -> int:
        """Bits of the upload, B_up; seeds are charged whenever they are sent."""
        return self.knowledge.bits + (self.seeds.bits if self.seeds else 0)


class Wire:
    """The uplink, the seeds and the downlink of one row, made from the config of a run."""

    def __init__(self, protocol: Protocol, sizes: Sizes) -> None:
        self.uplink = protocol.uplink.configured(sizes.config, sizes.dims)
        self.downlink: Downlink = protocol.downlink.configured(sizes.config, sizes.dims)
        self.seeding, self.first_model = protocol.seeds, protocol.first_model
        self._sizes, self._dims = sizes, sizes.dims
        self._knowledge = self.uplink.payload
        self._knowledge_size = self._knowledge.size(sizes.dims)
        self._seeds: Payload | None = None
        if protocol.seeds is not None:
            check_mixable(protocol, sizes.dims.samples)
            self._seeds = protocol.seeds.payload(sizes)
        self.training = resolve(sizes.config, protocol.training)
        if self.training.replay:
            self.downlink = self._replayed(protocol.title)
        elif self.uplink.labels_seeds:
            raise InputError(
                f"replay = 0: {protocol.title} labels seeds that all devices share, which replay "
                "multicasts; must be above 0"
            )

    def upload_size(self, with_seeds: bool) -> Size:
        """Bits of one device's upload in advance."""
        knowledge = self._knowledge_size
        seeds = self._seeds.size(self._dims).bits if with_seeds and self._seeds else 0
        return Size(knowledge.bits + seeds, knowledge.exact)

    def uploads_in(self, round_number: int) -> bool:
        """Whether devices upload in this round, or only train."""
        return round_number % self._sizes.config.updates.upload_every == 0

    def download_size(self, arrives: Arrives | None = None) -> Size:
        """Bits of the multicast download, B_dn, in advance; of replay without seeds, or with those
        that fit into what arrives."""
        if not isinstance(self.downlink, Replayed):
            return self.downlink.payload.size(self._dims)
        seeds_of = 0 if arrives is None else self.downlink.most_that_arrive(arrives)
        return self.downlink.payload.size_with(self._dims, seeds_of)

    def make_seeds(self, device: int, inputs: Inputs, labels: NDArray[np.int32]) -> Any:
        """What one device uploads once, None if nothing: the same whenever it makes it."""
        if self.seeding is None:
            return None
        rng = seed_stream(self._sizes.seed, device)
        try:
            return self.seeding.collect(rng, inputs, labels, self._sizes)
        except Mix2fldError as error:
            raise InputError(f"device {device}: {error}") from None

    def prepare_seeds(self, seeds: Mapping[int, Any]) -> Any:
        """The samples that the server trains on, from the seeds that it holds."""
        return self.seeding.prepare(seeds, self._sizes) if self.seeding else None

    def encode_knowledge(self, state: State, local: Local, turn: Turn) -> Encoded:
        """What a device uploads of its local phase."""
        return self._knowledge.encode(self.uplink.value(state, local, turn), self._dims)

    def encode_seeds(self, seeds: Once) -> Encoded:
        """The seeds of one device on the link."""
        if self._seeds is None:
            raise ValueError("this protocol has no seeds")
        return self._seeds.encode(seeds, self._dims)

    def decode_seeds(self, data: bytes) -> Any:
        """The seeds as the server sees them."""
        if self._seeds is None:
            raise PayloadError("seeds: this protocol has none")
        return self._seeds.decode(data, self._dims)

    def decode_knowledge(self, data: bytes, turn: Turn) -> Any:
        """What the server makes of it."""
        return self.uplink.read(self._knowledge.decode(data, self._dims), turn)

    def decode_upload(self, packet: Packet, turn: Turn) -> Upload:
        """What the server reads; raises ``PayloadError`` for what no honest device sends."""
        self.check_bits(packet, turn.round_number)
        value = self.decode_knowledge(packet.knowledge.data, turn)
        seeds = None if packet.seeds is None else self.decode_seeds(packet.seeds.data)
        return Upload(value, packet.samples, seeds)

    def check_bits(self, packet: Packet, round_number: int) -> None:
        """Raise ``PayloadError`` unless the bits of an upload can be charged as they are given."""
        due = self.uploads_in(round_number)
        size = self.upload_size(with_seeds=False) if due else Size(0)
        _check_bits(self._knowledge.name, packet.knowledge, size)
        if packet.seeds is not None:
            if self._seeds is None:
                raise PayloadError("seeds: this protocol has none")
            _check_bits(self._seeds.name, packet.seeds, self._seeds.size(self._dims))

    def encode_download(self, server: ServerState) -> Encoded:
        """The server's state for a device that has nothing."""
        return self.encode_value(self.downlink.value(server))

    def encode_value(self, value: Any) -> Encoded:
        """What the downlink carries, on the link."""
        return self.downlink.payload.encode(value, self._dims)

    def decode_download(self, data: bytes) -> State:
        """The entries of a device's state that the multicast replaces."""
        return self.downlink.received(self.downlink.payload.decode(data, self._dims))

    def replayed_samples(self, state: State) -> SeedSet | None:
        """The samples that a device replays, made as the server makes them; None without any."""
        if REPLAY not in state:
            return None
        samples: SeedSet | None = self.prepare_seeds(seeds_in(state[REPLAY]))
        return samples

    def seed_outputs(self, state: State, weights: Tensors) -> dict[int, NDArray[np.float32]]:
        """The outputs of a model for the seeds that a device holds, by whose seeds they are."""
        samples = self.replayed_samples(state)
        if samples is None:
            return {}
        if not isinstance(self._sizes, Learning):
            raise TypeError("labels need the model of a run, not its sizes alone")
        logits = self._sizes.stepper.logits(weights, samples.inputs)
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        outputs = np.split(
            likely / likely.sum(axis=1, keepdims=True), int(state[REPLAY]["held"].sum())
        )
        return dict(zip(np.flatnonzero(state[REPLAY]["held"]).tolist(), outputs, strict=True))

    def measure_samples(self, inputs: Inputs, labels: NDArray[np.int32]) -> Measured:
        """What statistics of a device's own samples are taken of."""
        if not isinstance(self._sizes, Learning):
            raise TypeError("features need the model of a run, not its sizes alone")
        return measure_samples(self._sizes, inputs, labels, self.uplink.kind)

    def _replayed(self, title: str) -> Replayed:
        if not isinstance(self._seeds, SeedSamples):
            raise InputError(
                field="replay",
                value=f"{self.training.replay:g}",
                hint=f"{title} uploads no seed samples that could be "
                "replayed; choose a protocol with seeds, such as mixfld, or 0",
            )
        return Replayed(self.downlink, self._seeds, self._dims, self._sizes.config.data.devices)


def check_mixable(protocol: Protocol, samples: SampleFormat) -> None:
    """Refuse a protocol that uploads seed samples if the samples are token ids."""
    seeding = protocol.seeds
    if seeding is not None and not isinstance(seeding, Summary) and not samples.mixable:
        raise InputError(
            field="protocols",
            value=protocol.title,
            hint=f"uploads seed samples, but samples are {samples}: token "
            "ids, which cannot be mixed or rounded; choose a protocol without seeds, such as fl",
        )


def _check_bits(name: str, carried: Encoded, size: Size) -> None:
    """Refuse a count of bits that is not that of the bytes, or not that of the payload."""
    expected = -(-size.bits // 8)
    if size.exact and len(carried.data) != expected:
        raise PayloadError(f"{name}: {len(carried.data)} bytes; must be {expected}")
    fits = carried.bits == size.bits if size.exact else 0 <= carried.bits <= size.bits
    if not fits or len(carried.data) != -(-carried.bits // 8):
        raise PayloadError(
            f"{name}: {carried.bits} bits in {len(carried.data)} bytes; must be {size} bits"
        )
