"""Ideas that the protocol does not use: momentum, averaged iterates, votes, bits by layer, one bit.

``VARIANTS`` are rows of the protocol table that differ from Murmur in one part each.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.codecs import Encoded, RotatedUpdate, Size, unflatten_tensors
from mix2fld.codecs.codec import Restored, check_size
from mix2fld.codecs.rotation import Rotation
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import Inbox, StepInfo, Turn
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.protocols.updates import Murmur
from mix2fld.types import Dimensions, SampleFormat, ServerState, Update

LINEAR_WEIGHTS = 11_770
"""The last weights of the paper's network: its linear layer."""
ONE_BIT_NORM = 1.0
"""What a device that sends no norm is taken to have moved by."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class WithMomentum(Murmur):
    """The server moves on by a part of its last step."""

    kept: float = 0.5

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        """Murmur's step, and a part of the last one."""
        before = self.global_model(server)
        after, info = super().step(server, inbox, round_number)
        if after.weights is None or after.updates == server.updates:
            return after, info
        last = server.memory.get("last step", tuple(np.zeros_like(part) for part in before))
        now = tuple(
            new - old + np.float32(self.kept) * part
            for new, old, part in zip(after.weights, before, last, strict=True)
        )
        weights = tuple(old + part for old, part in zip(before, now, strict=True))
        return replace(after, weights=weights, memory={**server.memory, "last step": now}), info


@dataclass(frozen=True, kw_only=True)
class WithAverages(Murmur):
    """Devices and tests get the mean of the last models; updates go on from the last one."""

    count: int = 2

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        """Murmur's step from the last model, then the mean."""
        models = server.memory.get("models", ())
        begun = replace(server, weights=models[-1] if models else server.weights)
        after, info = super().step(begun, inbox, round_number)
        if after.weights is None or after.updates == server.updates:
            return server, info
        models = (*models, after.weights)[-self.count :]
        mean = tuple(
            np.mean(parts, axis=0, dtype=np.float32) for parts in zip(*models, strict=True)
        )
        return replace(after, weights=mean, memory={**server.memory, "models": models}), info


def _without_rounding(row: Floats) -> Floats:
    """Coordinates that were not sent are zero up to rounding."""
    return np.where(np.abs(row) < 0.1 * np.abs(row).max(initial=0), 0, row)


def shared_stream(seed: int, round_number: int) -> np.random.Generator:
    """What all devices draw the same rotation from."""
    return stream(seed, "shared update", round_number)


@dataclass(frozen=True, kw_only=True)
class SharedGroups(Murmur):
    """Updates that all devices rotate and divide alike."""

    def choices(self, turn: Turn) -> np.random.Generator:
        """The same for all devices."""
        return shared_stream(turn.seed, turn.round_number)

    def read(self, value: Any, turn: Turn) -> Update:
        """The update that the codes stand for."""
        found = self.upload_codec.restore(value, self.choices(turn), self.dims.num_weights)
        norm = math.sqrt(found.captured) * float(np.linalg.norm(found.update.astype(np.float64)))
        tensors = unflatten_tensors(found.update, self.dims)
        return Update.encoded_whole(tensors, norm, found.captured)


@dataclass(frozen=True, kw_only=True)
class SharedSigns(SharedGroups):
    """Signs of the same rotated coordinates from all devices."""

    def make_codec(self, weights: int) -> RotatedUpdate:
        """Signs, as many as there are bits."""
        del weights
        return RotatedUpdate(largest_per_group=False, bits=int(self.bits))


@dataclass(frozen=True, kw_only=True)
class ByMajority(SharedSigns):
    """Each of these coordinates gets the sign of most.

    Its size is the mean of theirs: where all agree it is their mean.
    """

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        """Murmur's step, with the elected update alone."""
        if not inbox:
            return server, StepInfo()
        seed = self.learning.seed
        rotation = Rotation(shared_stream(seed, round_number), self.dims.num_weights)
        turned = [
            rotation.forward(np.concatenate([part.ravel() for part in inbox[d].value.tensors]))
            for d in sorted(inbox)
        ]
        votes = np.sign(np.sum([np.sign(_without_rounding(row)) for row in turned], axis=0))
        sizes = np.mean(np.abs(turned), axis=0)
        chosen = rotation.backward((votes * sizes).astype(np.float32))
        one: Update = inbox[min(inbox)].value
        norm = math.sqrt(float(np.mean([inbox[d].value.groups[0].norm ** 2 for d in inbox])))
        tensors = unflatten_tensors(chosen, self.dims)
        value = Update.encoded_whole(tensors, norm, one.captured)
        elected = {min(inbox): inbox[min(inbox)]._replace(value=value)}
        return super().step(server, elected, round_number)


class Split(NamedTuple):
    """Codes of the convolutions and of the linear layer; None: nothing is sent of one."""

    convolutions: Any
    linear: Any


@dataclass(frozen=True)
class ByLayer:
    """An update whose convolutions get ``share`` of the bits."""

    bits: int
    share: float
    name: str = "update by layer"

    @property
    def _codecs(self) -> list[RotatedUpdate | None]:
        first = round(self.bits * self.share)
        both = (first, self.bits - first)
        return [RotatedUpdate(largest_per_group=True, bits=bits) if bits else None for bits in both]

    def size(self, dims: Dimensions) -> Size:
        """All bits."""
        del dims
        return Size(self.bits)

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Split:
        """Each part by itself."""
        found = [
            codec and codec.compress(part, new, bit_budget)
            for codec, part, new in zip(self._codecs, _parts(update), rng.spawn(2), strict=True)
        ]
        return Split(*found)

    def restore(self, codes: Split, rng: np.random.Generator, size: int) -> Restored:
        """Zero where nothing was sent."""
        empty = _parts(np.zeros(size, np.float32))
        found = [
            codec.restore(code, new, len(part)) if codec else Restored(part, 0.0)
            for codec, code, part, new in zip(self._codecs, codes, empty, rng.spawn(2), strict=True)
        ]
        squares = [float(np.sum(each.update.astype(np.float64) ** 2)) for each in found]
        known = sum(each.captured * square for each, square in zip(found, squares, strict=True))
        update = np.concatenate([each.update for each in found])
        return Restored(update, known / sum(squares) if sum(squares) else 1.0)

    def encode(self, value: Split, dims: Dimensions) -> Encoded:
        """The bits of both, without a gap."""
        encoded = [
            (codec.encode(code, _dims(size)).data, codec.bits)
            for codec, code, size in zip(self._codecs, value, _sizes(dims.num_weights), strict=True)
            if codec
        ]
        bits = [np.unpackbits(np.frombuffer(data, np.uint8), count=n) for data, n in encoded]
        return Encoded(np.packbits(np.concatenate(bits)).tobytes(), self.bits)

    def decode(self, data: bytes, dims: Dimensions) -> Split:
        """The codes of both."""
        check_size(self.name, data, self.bits)
        read, found = np.unpackbits(np.frombuffer(data, np.uint8)), []
        for codec, size in zip(self._codecs, _sizes(dims.num_weights), strict=True):
            bits, read = (read[: codec.bits], read[codec.bits :]) if codec else (None, read)
            found.append(codec and codec.decode(np.packbits(bits).tobytes(), _dims(size)))
        return Split(*found)


def _sizes(weights: int) -> tuple[int, int]:
    return weights - LINEAR_WEIGHTS, LINEAR_WEIGHTS


def _parts(update: Floats) -> tuple[Floats, Floats]:
    return update[:-LINEAR_WEIGHTS], update[-LINEAR_WEIGHTS:]


def _dims(size: int) -> Dimensions:
    return Dimensions(((size,),), 10, SampleFormat((28, 28, 1)), 1, 8, (28, 28, 1))


@dataclass(frozen=True)
class OneBit:
    """The sign of one rotated coordinate, and no norm: an upload of a single bit."""

    name: str = "one bit"

    def size(self, dims: Dimensions) -> Size:
        """One."""
        del dims
        return Size(1)

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> bool:
        """Whether the first coordinate that is dealt is negative."""
        del bit_budget
        rotation = Rotation(rng, len(update))
        return bool(rotation.forward(update)[rotation.choices.dealt[0]] < 0)

    def restore(self, codes: bool, rng: np.random.Generator, size: int) -> Restored:
        """Unbiased for an update of the norm that all are taken to have."""
        rotation, turned = Rotation(rng, size), np.zeros(size, np.float32)
        captured = 2 / math.pi / size
        length = ONE_BIT_NORM / math.sqrt(captured)
        turned[rotation.choices.dealt[0]] = -length if codes else length
        return Restored(rotation.backward(turned), captured)

    def encode(self, value: bool, dims: Dimensions) -> Encoded:
        """A byte of which one bit counts."""
        del dims
        return Encoded(bytes([value << 7]), 1)

    def decode(self, data: bytes, dims: Dimensions) -> bool:
        """The sign."""
        del dims
        check_size(self.name, data, 1)
        return bool(data[0])


@dataclass(frozen=True, kw_only=True)
class MurmurByLayer(Murmur):
    """Murmur, with a share of the bits for the convolutions."""

    share: float = 0.5

    def make_codec(self, weights: int) -> ByLayer:
        """Both by themselves."""
        del weights
        return ByLayer(int(self.bits), self.share)


@dataclass(frozen=True, kw_only=True)
class MurmurInOneBit(Murmur):
    """Murmur in the fewest bits."""

    def make_codec(self, weights: int) -> OneBit:
        """A sign."""
        del weights
        return OneBit()


MURMUR = PROTOCOLS["murmur"]
VARIANTS: dict[str, Protocol] = {
    "Murmur": MURMUR,
    "a third of the step": MURMUR,
    "server momentum 0.5": WithMomentum(kept=0.5),
    "mean of the last two models": WithAverages(count=2),
    "shared groups": SharedGroups(),
    "shared signs, mean": SharedSigns(),
    "shared signs, majority": ByMajority(),
    "linear layer alone": MurmurByLayer(share=0.0),
    "convolutions alone": MurmurByLayer(share=1.0),
    "half of the bits for convolutions": MurmurByLayer(share=0.5),
}
"""By the words of the page."""
CHANGES: dict[str, dict[str, Any]] = {"a third of the step": {"step_limit": 0.5}}
"""Variants that are settings of Murmur."""
ONE_BIT = MurmurInOneBit()
ALONE = PROTOCOLS["isolated"]
