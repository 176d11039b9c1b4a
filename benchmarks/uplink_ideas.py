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
from mix2fld.codecs.codec import check_size
from mix2fld.codecs.rotation import Rotation
from mix2fld.codecs.update_codec import Restored
from mix2fld.config.uploads import UpdateConfig
from mix2fld.protocols.base import Inbox, Protocol, ServerStep, StepInfo, Turn
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.protocols.updates import Updates, add_mean_update, picked_coordinates
from mix2fld.tasks.learning import Learning
from mix2fld.types import Dimensions, SampleFormat, SeedSet, ServerState, Update

LINEAR_WEIGHTS = 11_770
"""The last weights of the paper's network: its linear layer."""
ONE_BIT_NORM = 1.0
"""What a device that sends no norm is taken to have moved by."""
Floats = NDArray[np.float32]
Step = ServerStep


def with_momentum(kept: float) -> Step:
    """The server moves on by a part of its last step."""

    def step(
        state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, number: int
    ) -> tuple[ServerState, StepInfo]:
        before = learning.common_weights if state.weights is None else state.weights
        after, info = add_mean_update(state, inbox, seeds, learning, number)
        if after.weights is None or after.updates == state.updates:
            return after, info
        last = state.memory.get("last step", tuple(np.zeros_like(part) for part in before))
        now = tuple(
            new - old + np.float32(kept) * part
            for new, old, part in zip(after.weights, before, last, strict=True)
        )
        weights = tuple(old + part for old, part in zip(before, now, strict=True))
        return replace(after, weights=weights, memory={**state.memory, "last step": now}), info

    return step


def with_averages(count: int) -> Step:
    """Devices and tests get the mean of the last models; updates go on from the last one."""

    def step(
        state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, number: int
    ) -> tuple[ServerState, StepInfo]:
        models = state.memory.get("models", ())
        begun = replace(state, weights=models[-1] if models else state.weights)
        after, info = add_mean_update(begun, inbox, seeds, learning, number)
        if after.weights is None or after.updates == state.updates:
            return state, info
        models = (*models, after.weights)[-count:]
        mean = tuple(
            np.mean(parts, axis=0, dtype=np.float32) for parts in zip(*models, strict=True)
        )
        return replace(after, weights=mean, memory={**state.memory, "models": models}), info

    return step


def by_majority(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, number: int
) -> tuple[ServerState, StepInfo]:
    """Signs of the same rotated coordinates from all devices: each one gets the sign of most.

    Its size is the mean of theirs: where all agree it is their mean.
    """
    if not inbox:
        return state, StepInfo()
    rotation = Rotation(shared_stream(learning.seed, number), learning.dims.num_weights)
    turned = [
        rotation.forward(np.concatenate([part.ravel() for part in inbox[d].value.tensors]))
        for d in sorted(inbox)
    ]
    votes = np.sign(np.sum([np.sign(_without_rounding(row)) for row in turned], axis=0))
    sizes = np.mean(np.abs(turned), axis=0)
    chosen = rotation.backward((votes * sizes).astype(np.float32))
    one: Update = inbox[min(inbox)].value
    norm = math.sqrt(float(np.mean([inbox[d].value.groups[0].norm ** 2 for d in inbox])))
    value = Update.encoded_whole(unflatten_tensors(chosen, learning.dims), norm, one.captured)
    elected = {min(inbox): inbox[min(inbox)]._replace(value=value)}
    return add_mean_update(state, elected, seeds, learning, number)


def _without_rounding(row: Floats) -> Floats:
    """Coordinates that were not sent are zero up to rounding."""
    return np.where(np.abs(row) < 0.1 * np.abs(row).max(initial=0), 0, row)


def shared_stream(seed: int, round_number: int) -> np.random.Generator:
    """What all devices draw the same rotation from."""
    return stream(seed, "shared update", round_number)


@dataclass(frozen=True)
class SharedUpdates(Updates):
    """Updates that all devices rotate and divide alike."""

    def value(self, state: Any, local: Any, turn: Turn) -> Any:
        """The codes of the update."""
        update = np.concatenate(
            [(new - old).ravel() for new, old in zip(local.weights, state["base"], strict=True)]
        )
        rng = shared_stream(turn.seed, turn.round_number)
        return self.payload.compress(update, rng, turn.room)

    def read(self, value: Any, turn: Turn) -> Update:
        """The update that the codes stand for."""
        dims = self._dims
        rng = shared_stream(turn.seed, turn.round_number)
        found = self.payload.restore(value, rng, dims.num_weights)
        norm = math.sqrt(found.captured) * float(np.linalg.norm(found.update.astype(np.float64)))
        return Update.encoded_whole(unflatten_tensors(found.update, dims), norm, found.captured)


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

    def compress(self, update: Floats, rng: np.random.Generator, room: int | None) -> Split:
        """Each part by itself."""
        found = [
            codec and codec.compress(part, new, room)
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

    def compress(self, update: Floats, rng: np.random.Generator, room: int | None) -> bool:
        """Whether the first coordinate that is dealt is negative."""
        del room
        rotation = Rotation(rng, len(update))
        return bool(rotation.forward(update)[rotation.choices.dealt[0]] < 0)

    def restore(self, codes: bool, rng: np.random.Generator, size: int) -> Restored:
        """Right on average for an update of the norm that all are taken to have."""
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


def _by_layer(share: float) -> Updates:
    return Updates(lambda config, _: ByLayer(int(config.update_bits), share))


def _signs(config: UpdateConfig, _: int) -> RotatedUpdate:
    return RotatedUpdate(largest_per_group=False, bits=int(config.update_bits))


MURMUR = PROTOCOLS["murmur"]
VARIANTS: dict[str, Protocol] = {
    "Murmur": MURMUR,
    "a third of the step": MURMUR,
    "server momentum 0.5": replace(MURMUR, server_step=with_momentum(0.5)),
    "mean of the last two models": replace(MURMUR, server_step=with_averages(2)),
    "shared groups": replace(MURMUR, uplink=SharedUpdates(picked_coordinates)),
    "shared signs, mean": replace(MURMUR, uplink=SharedUpdates(_signs)),
    "shared signs, majority": replace(
        MURMUR, uplink=SharedUpdates(_signs), server_step=by_majority
    ),
    "linear layer alone": replace(MURMUR, uplink=_by_layer(0.0)),
    "convolutions alone": replace(MURMUR, uplink=_by_layer(1.0)),
    "half of the bits for convolutions": replace(MURMUR, uplink=_by_layer(0.5)),
}
"""By the words of the page."""
CHANGES: dict[str, dict[str, Any]] = {"a third of the step": {"step_limit": 0.5}}
"""Variants that are settings of Murmur."""
ONE_BIT = replace(MURMUR, uplink=Updates(lambda *_: OneBit()))
ALONE = PROTOCOLS["isolated"]
