"""Uploads of updates: what a device's weights moved by, in few bits.

An update is relative to ``base``, the last download that this device received; before that, to its
initial weights. The server adds updates to its model, whatever that is by then, so that it need not
know the base (decision 29). What stands between an update and its codec, such as error feedback or
noise, are transforms (``protocols.transforms``).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import (
    LargestEntries,
    Restored,
    RotatedUpdate,
    SparseTernary,
    UpdateCodec,
    compress_rows,
    estimated_norm,
    flatten_tensors,
    restore_rows,
    unflatten_tensors,
    with_last_layer_apart,
)
from mix2fld.codecs.rotated_plan import bits_with_norm
from mix2fld.protocols import at_server
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import LateUploads
from mix2fld.protocols.parts import (
    Device,
    Inbox,
    Line,
    Seeding,
    StepInfo,
    Stepped,
    Turn,
    of_devices,
    setting,
)
from mix2fld.protocols.seed_samples import SeedParameters, mixed
from mix2fld.protocols.transforms import Chain, ClippedNoise, ErrorFeedback, Transform
from mix2fld.protocols.weights import DownloadsWeights
from mix2fld.tasks.training import Training
from mix2fld.tensors import zeros
from mix2fld.types import Group, Local, ServerState, State, Tensors, Update, Upload

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

Item = TypeVar("Item")
MOST_BITS_PER_WEIGHT = 32
WEIGHTS_AT_ONCE = 1 << 24
"""In rows of updates that are coded together."""
adjusted = Training(
    logit_adjustment=2.0, scarce_adjustment=1.0, rate_factors=(2.0, 0.5), device_model="mean"
)
replaying = Training(logit_adjustment=1.0, rate_factors=(2.0, 0.5), device_model="mean", replay=0.3)


@dataclass(frozen=True, kw_only=True)
class Updates(DownloadsWeights):
    """Devices upload what their weights moved by; the server adds the mean to its model."""

    upload_kind = "update"
    late_uploads: ClassVar[LateUploads] = "mixed"
    sums = True
    downlinks: ClassVar[tuple[str, ...]] = ("weights", "auto", "relay", "coded")
    transforms: tuple[Transform, ...] = ()
    """What stands between an update and its codec."""
    upload_every: int = setting("updates.upload_every", 1)
    step_limit: float = setting("updates.step_limit", 1.5)

    def with_(self, *transforms: Transform, **changes: Any) -> Self:
        """The same with more between an update and its codec, and with what else changes."""
        promised = next((own for each in transforms if (own := each.promise)), self.promise)
        parts = (*self.transforms, *transforms)
        return replace(self, **{"transforms": parts, "promise": promised, **changes})

    def configured(self, config: "Config") -> Self:
        own = tuple(each.configured(config) for each in self.transforms)
        return replace(super().configured(config), transforms=own)

    def parameters(self) -> dict[str, str]:
        """Those of its transforms, too."""
        given = (each.parameters() for each in self.transforms)
        return {**super().parameters(), **{k: path for each in given for k, path in each.items()}}

    @cached_property
    def chain(self) -> Chain:
        """What stands between an update and its codec, as one."""
        return Chain(self.transforms)

    @abstractmethod
    def make_codec(self, weights: int) -> UpdateCodec:
        """The codec of an update of so many weights."""

    @property
    def takes_bit_budget(self) -> bool:
        """Where the codec may have fewer bits than it has at most."""
        return bool(getattr(self.upload_codec, "variable_rate", False))

    @cached_property
    def upload_codec(self) -> UpdateCodec:
        return self.make_codec(0 if self.sizes is None else self.dims.num_weights)

    def start(self, weights: Tensors) -> State:
        """All devices have their initial weights in common with the server."""
        return {"base": weights, **self.chain.start(weights)}

    def upload(self, device: Device, local: Local) -> Any:
        (codes,) = Updates.uploads(self, [device], [local])
        return codes

    def uploads(self, devices: Sequence[Device], local: Sequence[Local]) -> list[Any]:
        """The codes of updates, each with its own random choices and bits."""
        pairs, codes = list(zip(devices, local, strict=True)), list[Any]()
        for some in batched(pairs, self.dims.num_weights):
            rows = np.stack([self.update_of(device, own) for device, own in some])
            turns = [device.turn for device, _ in some]
            choices = [self.choices(turn) for turn in turns]
            budgets = [turn.bit_budget for turn in turns]
            codes += compress_rows(self.upload_codec, rows, choices, budgets)
        return codes

    def update_of(self, device: Device, local: Local) -> NDArray[np.float32]:
        """What a device has to say, in one row [N_mod]."""
        return self.chain.apply(local, device, self.config, self.dims)

    def choices(self, turn: Turn) -> np.random.Generator:
        """What both ends draw an upload's random choices from."""
        return stream(turn.seed, "update", turn.round_number, turn.device)

    def read(self, value: Any, turn: Turn) -> Update:
        (update,) = Updates.reads(self, [value], [turn])
        return update

    def reads(self, values: Sequence[Any], turns: Sequence[Turn]) -> list[Update]:
        """The updates that codes stand for."""
        pairs, size, found = list(zip(values, turns, strict=True)), self.dims.num_weights, []
        for some in batched(pairs, size):
            choices = [self.choices(turn) for _, turn in some]
            restored = restore_rows(self.upload_codec, [own for own, _ in some], choices, size)
            found += [self._as_update(own) for own in restored]
        return found

    def _as_update(self, found: Restored) -> Update:
        tensors = unflatten_tensors(found.update, self.dims)
        if found.apart:
            return self.chain.read(Update(tensors, found.captured, found.apart))
        norm = estimated_norm(found.update, found.captured)
        return self.chain.read(Update.encoded_whole(tensors, norm, found.captured))

    def on_acknowledged(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        return self.chain.on_acknowledged(state, local, read)

    def on_download(self, state: State, weights: Tensors) -> State:
        """A download is the new base."""
        return {"base": weights, **self.chain.on_download(state)}

    server_words = "The server adds the mean of the updates that arrived to its model."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The mean of the delivered updates, or a part of it, is added to the model.

        In few bits, noise makes the mean longer than the updates are. A step is at most
        ``step_limit`` times as long as they are, by the root mean square of their norms; with a
        robust aggregation in place of the mean, by the median of them. Arrays that were encoded by
        themselves have a step of their own.
        """
        if not inbox:
            return server, StepInfo()
        config = self.config
        uploads = as_tensors(inbox)
        still = zeros(uploads[min(uploads)].value)
        mean = combine_weights(uploads, still, config.defence)
        last = self.global_model(server)
        weights = list(last)
        for group in zip(*(inbox[device].value.groups for device in sorted(inbox)), strict=True):
            step = _step(mean, group, config)
            for place in group[0].arrays:
                weights[place] = last[place] + step * mean[place]
        did = StepInfo(words=f"added the mean of the updates of {of_devices(inbox)}")
        return replace(server, weights=tuple(weights), updates=server.updates + 1), did

    def from_signal(self, mean: NDArray[np.float32], turn: Turn) -> Update:
        """The mean update, which is taken in full."""
        length = float(np.linalg.norm(mean))
        return Update.encoded_whole(unflatten_tensors(mean, self.dims), length, captured=1.0)

    def as_row(self, value: Any, server: ServerState) -> NDArray[np.float64]:
        """The weights that the update leads to from the global model."""
        update = flatten_tensors(value.tensors, self.dims).astype(np.float64)
        return self.last_row(server) + update


@dataclass(frozen=True, kw_only=True)
class TopK(Updates):
    """The largest entries of an update."""

    title: str = "Top-k"
    colour: str = "#999933"
    line: Line = ":"
    transforms: tuple[Transform, ...] = (ErrorFeedback(),)
    kept_share: float = setting("updates.kept_share", 0.05)

    def make_codec(self, weights: int) -> UpdateCodec:
        return LargestEntries(self.kept_share)


@dataclass(frozen=True, kw_only=True)
class STC(TopK):
    """Signs of the largest entries, and their mean magnitude."""

    title: str = "STC"
    line: Line = "--"

    def make_codec(self, weights: int) -> UpdateCodec:
        return SparseTernary(self.kept_share)


@dataclass(frozen=True, kw_only=True)
class Sign(Updates):
    """The signs of all rotated coordinates."""

    title: str = "Sign"
    colour: str = "#44aa99"
    line: Line = ":"
    transforms: tuple[Transform, ...] = (ErrorFeedback(),)

    def make_codec(self, weights: int) -> UpdateCodec:
        return RotatedUpdate(largest_per_group=False, bits=bits_with_norm(1, weights), min_mse=True)


@dataclass(frozen=True, kw_only=True)
class EDEN(Updates):
    """Rotated coordinates with some bits each, or some of them with one."""

    title: str = "EDEN"
    colour: str = "#44aa99"
    line: Line = "--"
    bits_per_weight: float = setting("updates.bits_per_weight", 1.0)

    def make_codec(self, weights: int) -> UpdateCodec:
        return RotatedUpdate(
            largest_per_group=False, bits=bits_with_norm(self.bits_per_weight, weights)
        )


@dataclass(frozen=True, kw_only=True)
class Murmur(Updates):
    """The largest of random groups of rotated coordinates, in any number of bits from 20.

    Automatic bits are at most one for each weight: with more, accuracy gains nothing.
    """

    downlinks: ClassVar[tuple[str, ...]] = ("auto", "weights", "relay", "coded")
    title: str = "Murmur"
    colour: str = "#aa4499"
    training: Training = adjusted
    bits: Literal["auto"] | int = setting("updates.update_bits", "auto")
    last_layer_share: str | float = setting("updates.last_layer_share", "auto")
    delivery_target: float = setting("updates.delivery_target", 0.95)

    def make_codec(self, weights: int) -> UpdateCodec:
        """The largest of groups; a small last layer by itself."""
        if self.bits == "auto":
            most = max(bits_with_norm(1, weights), 8 * -(-LEAST_UPDATE_BITS // 8))  # in whole bytes
            codec = RotatedUpdate(largest_per_group=True, bits=most, variable_rate=True)
        elif weights and self.bits > MOST_BITS_PER_WEIGHT * weights:
            raise InputError(
                field="update_bits",
                value=self.bits,
                hint=f"more than {MOST_BITS_PER_WEIGHT} for each of "
                f"{weights:,} weights; must be at most {MOST_BITS_PER_WEIGHT * weights:,}",
            )
        else:
            codec = RotatedUpdate(largest_per_group=True, bits=self.bits)
        if self.sizes is None or self.last_layer_share == 0:
            return codec
        arrays = self.sizes.last_layer
        return with_last_layer_apart(codec, self.last_layer_share, self.dims, arrays)


@dataclass(frozen=True, kw_only=True)
class MurmurMix(Murmur, SeedParameters):
    """Murmur, whose devices also train on mixed-up samples of all devices."""

    needs_labels = True
    title: str = "Murmur-Mix"
    line: Line = (0, (5, 1))
    training: Training = replaying
    seeds: Seeding | None = mixed
    downlinks: ClassVar[tuple[str, ...]] = Murmur.downlinks

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The step of Murmur, and seed samples that the downlink takes along."""
        if not server.seeds and all(upload.seeds is None for upload in inbox.values()):
            return super().step(server, inbox, round_number)  # e.g. of a device, of relayed uploads
        server, did = at_server.take_in_seeds(self, server, inbox)
        after, more = super().step(server, inbox, round_number)
        return after, did.then(more)


DP_FL = EDEN(title="DP-FL", colour="#117733", line="-", training=adjusted).with_(ClippedNoise())
DP_MURMUR = Murmur(title="DP-Murmur", colour="#117733", line="--").with_(ClippedNoise())


def batched(items: Sequence[Item], weights: int) -> Iterator[Sequence[Item]]:
    """So many at a time that their rows of weights do not fill the memory."""
    size = max(1, WEIGHTS_AT_ONCE // max(weights, 1))
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _step(mean: Tensors, group: Sequence[Group], config: "Config") -> np.float32:
    """What the mean of some arrays is shortened to; ``group`` has them as each device sent them."""
    squared = np.mean if config.defence.aggregation == "mean" else np.median
    norm = math.sqrt(squared(np.square([own.norm for own in group])))
    moved = [mean[place] for place in group[0].arrays]
    length = math.sqrt(sum(float(np.sum(part.astype(np.float64) ** 2)) for part in moved))
    return np.float32(min(1.0, config.updates.step_limit * norm / length) if length else 1.0)


def as_tensors(inbox: Inbox) -> dict[int, Upload]:
    """The decoded updates as plain tensors, each weighing by its samples and what it captured.

    The more of an update was captured, the less noise it brings. Where devices differ by as much as
    they move, the mean with these weights is closest to that of all updates.
    """
    return {
        device: upload._replace(
            value=upload.value.tensors, seeds=None, weight=upload.weight * upload.value.captured
        )
        for device, upload in inbox.items()
    }
