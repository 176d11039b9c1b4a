"""Uploads of updates: what a device's weights moved by, in few bits.

An update is counted from ``base``, the last download that this device received; before that, from
its initial weights. The server adds updates to its model, whatever that is by then, so that it need
not know the base (decision 29). With error feedback nothing is sent twice and nothing gets lost: an
update is counted from the last delivered upload, and what that left out, or a download replaced
before the server heard of it, waits as ``residual``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mix2fld.base.accounting import noise_multiplier, shares
from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import (
    LargestEntries,
    RotatedUpdate,
    SparseTernary,
    SplitUpdate,
    UpdateCodec,
    estimated_norm,
    flatten_tensors,
    unflatten_tensors,
    with_last_layer_apart,
)
from mix2fld.codecs.rotated_plan import COARSE_NORM, FINE_NORM
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import Inbox, Protocol, StepInfo, Turn, Uplink, named, server_step
from mix2fld.protocols.guarantees import of_updates, updates_of_a_device
from mix2fld.protocols.noise import NO_KEY, NOISE_KEY, noise_stream
from mix2fld.protocols.seed_samples import OF_SEEDS, mixed
from mix2fld.protocols.weights import GlobalWeights
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.training import Training
from mix2fld.types import (
    Dimensions,
    Group,
    Local,
    SeedSet,
    ServerState,
    State,
    Tensors,
    Update,
    Upload,
)

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.config.uploads import UpdateConfig

MakeCodec = Callable[["UpdateConfig", int], UpdateCodec]
"""From the settings and the number of weights."""


MOST_BITS_PER_WEIGHT = 32


@dataclass(frozen=True)
class Updates(Uplink):
    """What the device's weights moved by since its base, and with feedback what is still due."""

    make_codec: MakeCodec
    feedback: bool = False
    codec: UpdateCodec | None = None
    dims: Dimensions | None = None

    @property
    def payload(self) -> UpdateCodec:  # type: ignore[override]
        """The codes of an update."""
        if self.codec is None:
            from mix2fld.config.uploads import UpdateConfig

            return self.make_codec(UpdateConfig(), 0)
        return self.codec

    @property
    def takes_bit_budget(self) -> bool:
        """Whether the number of bits is automatic."""
        return isinstance(self.payload, RotatedUpdate | SplitUpdate) and self.payload.fewer

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the codec that the config gives an update of this model."""
        codec = self.make_codec(config.updates, dims.num_weights)
        codec = with_last_layer_apart(codec, config.updates.last_layer_share, dims)
        return replace(self, codec=codec, dims=dims)

    def start(self, weights: Tensors) -> State:
        """All devices have their initial weights in common with the server."""
        due = {"residual": tuple(np.zeros_like(tensor) for tensor in weights)}
        return {"base": weights, **(due if self.feedback else {})}

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The codes of the update."""
        update = flatten_tensors(_wanted(state, local.weights), self._dims)
        return self.payload.compress(update, _codec_stream(turn), turn.room)

    def read(self, value: Any, turn: Turn) -> Update:
        """The update that the codes stand for."""
        dims = self._dims
        found = self.payload.restore(value, _codec_stream(turn), dims.num_weights)
        tensors = unflatten_tensors(found.update, dims)
        if found.apart:
            return Update(tensors, found.captured, found.apart)
        norm = estimated_norm(found.update, found.captured)
        return Update.encoded_whole(tensors, norm, found.captured)

    def delivered(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """With feedback, what comes next is counted from here."""
        if not self.feedback:
            return {}
        left_out = _minus(_wanted(state, local.weights), read().tensors)
        return {"base": local.weights, "residual": left_out}

    def replaced(self, state: State, weights: Tensors) -> State:
        """A download is the new base; with feedback, what it replaces and nobody knows is due."""
        if not self.feedback:
            return {"base": weights}
        return {"base": weights, "residual": _wanted(state, state["weights"])}

    @property
    def _dims(self) -> Dimensions:
        if self.dims is None:
            raise ValueError("this uplink has not been configured")
        return self.dims


@dataclass(frozen=True)
class NoisyUpdates(Updates):
    """Updates that keep a privacy budget (DP-FedAvg): clipped, and with noise, before any codec.

    Two updates of a device are at most 2 C apart, whatever its samples are, so the budget is one of
    everything that it holds. What a codec does with the noisy update tells nothing more. All
    rounds of the run use the budget, whether their uploads are delivered or not.
    """

    clip: float = 1.0
    deviation: float = 0.0

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the noise that the budget asks for."""
        multiplier = noise_multiplier(config.privacy.epsilon, config.privacy.delta)
        (each,) = shares(multiplier, 1 / max(1, updates_of_a_device(config)))
        clip = config.privacy.update_clip
        found = super().configured(config, dims)
        return replace(found, clip=clip, deviation=2 * clip * each)

    def start(self, weights: Tensors) -> State:
        """With the key of its noise, which a deployment draws."""
        return {**super().start(weights), NOISE_KEY: NO_KEY}

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The codes of the clipped update with noise."""
        update = flatten_tensors(_wanted(state, local.weights), self._dims).astype(np.float64)
        update *= min(1.0, self.clip / max(float(np.linalg.norm(update)), 1e-12))
        rng = noise_stream(turn, state[NOISE_KEY], turn.round_number)
        noisy = (update + self.deviation * rng.normal(size=update.shape)).astype(np.float32)
        return self.payload.compress(noisy, _codec_stream(turn), turn.room)

    def read(self, value: Any, turn: Turn) -> Update:
        """The noisy update; the one behind it is no longer than the clip, so no step need be."""
        found = super().read(value, turn)
        groups = [one._replace(norm=min(one.norm, self.clip)) for one in found.groups]
        return found._replace(groups=tuple(groups))


def picked_coordinates(config: "UpdateConfig", weights: int) -> RotatedUpdate:
    """Murmur: the largest of random groups of rotated coordinates, in ``update_bits`` bits.

    Automatic bits are at most one for each weight: with more, accuracy gains nothing.
    """
    if config.update_bits == "auto":
        return RotatedUpdate(picks=True, bits=_with_norm(1, weights), fewer=True)
    if weights and config.update_bits > MOST_BITS_PER_WEIGHT * weights:
        raise InputError(
            field="update_bits",
            value=config.update_bits,
            hint=f"more than {MOST_BITS_PER_WEIGHT} for each of "
            f"{weights:,} weights; must be at most {MOST_BITS_PER_WEIGHT * weights:,}",
        )
    return RotatedUpdate(picks=True, bits=config.update_bits)


def rotated_levels(config: "UpdateConfig", weights: int) -> RotatedUpdate:
    """EDEN: rotated coordinates with ``bits_per_weight`` bits each, or some of them with one."""
    return RotatedUpdate(picks=False, bits=_with_norm(config.bits_per_weight, weights))


def rotated_signs(config: "UpdateConfig", weights: int) -> RotatedUpdate:
    """The signs of all rotated coordinates."""
    del config
    return RotatedUpdate(picks=False, bits=_with_norm(1, weights), closest=True)


def sparse_ternary(config: "UpdateConfig", weights: int) -> SparseTernary:
    """STC: signs of the largest entries, and their mean magnitude."""
    del weights
    return SparseTernary(config.kept_share)


def largest_entries(config: "UpdateConfig", weights: int) -> LargestEntries:
    """Top-k: the largest entries."""
    del weights
    return LargestEntries(config.kept_share)


def _with_norm(bits_per_weight: float, weights: int) -> int:
    """Bits of an upload that has so many for each weight, and those of its norm."""
    norm_bits = FINE_NORM if bits_per_weight >= 1 else COARSE_NORM
    return max(LEAST_UPDATE_BITS, round(bits_per_weight * weights) + norm_bits)


def _codec_stream(turn: Turn) -> np.random.Generator:
    """What both ends draw an upload's random choices from."""
    return stream(turn.seed, "update", turn.round_number, turn.device)


def _wanted(state: State, weights: Tensors) -> Tensors:
    """What the server should hear of ``weights``: their distance from the base, and what is due."""
    update = _minus(weights, state["base"])
    residual = state.get("residual")
    return update if residual is None else _plus(update, residual)


def _plus(one: Tensors, other: Tensors) -> Tensors:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _minus(one: Tensors, other: Tensors) -> Tensors:
    return tuple(a - b for a, b in zip(one, other, strict=True))


@server_step("The server adds the mean of the updates that arrived to its model.")
def add_mean_update(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """The mean of the delivered updates, or if it is too long a part of it, is added to the model.

    In few bits, noise makes the mean longer than the updates are. A step is at most ``step_limit``
    times as long as they are, by the root mean square of their norms; with a robust aggregation in
    place of the mean, by the median of them. Arrays that were encoded by themselves have a step of
    their own.
    """
    del seeds, round_number
    if not inbox:
        return state, StepInfo()
    defence = learning.config.defence
    uploads = as_tensors(inbox)
    still = tuple(np.zeros_like(part) for part in uploads[min(uploads)].value)
    mean = combine_weights(uploads, still, defence)
    last = learning.common_weights if state.weights is None else state.weights
    weights = list(last)
    for group in zip(*(inbox[device].value.groups for device in sorted(inbox)), strict=True):
        step = _step(mean, group, learning.config)
        for place in group[0].arrays:
            weights[place] = last[place] + step * mean[place]
    return replace(state, weights=tuple(weights), updates=state.updates + 1), StepInfo()


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
        device: Upload(upload.value.tensors, upload.samples, weight=upload.value.captured)
        for device, upload in inbox.items()
    }


adjusted = Training(logit_adjustment=2.0, rate_factors=(2.0, 0.5), device_model="mean")
replaying = Training(logit_adjustment=1.0, rate_factors=(2.0, 0.5), device_model="mean", replay=0.3)
OF_UPDATES = named("upload_every", "step_limit", "downlink_bits")
OF_MURMUR = {**OF_UPDATES, "bits": "update_bits", **named("last_layer_share", "delivery_target")}

TOP_K = Protocol(
    "Top-k", label_loss, Updates(largest_entries, feedback=True), None, add_mean_update,
    GlobalWeights(), parameters={**OF_UPDATES, **named("kept_share")}, colour="#999933", line=":",
)  # fmt: skip
STC = replace(TOP_K, title="STC", uplink=Updates(sparse_ternary, feedback=True), line="--")
SIGN = replace(
    TOP_K, title="Sign", uplink=Updates(rotated_signs, feedback=True), parameters=OF_UPDATES,
    colour="#44aa99",
)  # fmt: skip
EDEN = replace(
    SIGN, title="EDEN", uplink=Updates(rotated_levels),
    parameters={**OF_UPDATES, **named("bits_per_weight")}, line="--",
)  # fmt: skip
MURMUR = Protocol(
    "Murmur", label_loss, Updates(picked_coordinates), None, add_mean_update, GlobalWeights(),
    adjusted, parameters=OF_MURMUR, colour="#aa4499",
)  # fmt: skip
MURMUR_MIX = replace(
    MURMUR, title="Murmur-Mix", seeds=mixed, training=replaying,
    parameters={**OF_MURMUR, **OF_SEEDS}, line=(0, (5, 1)),
)  # fmt: skip
DP_FL = Protocol(
    "DP-FL", label_loss, NoisyUpdates(rotated_levels), None, add_mean_update, GlobalWeights(),
    adjusted, promise=of_updates,
    parameters={**OF_UPDATES, **named("bits_per_weight", "epsilon", "delta", "update_clip")},
    colour="#117733",
)  # fmt: skip
DP_MURMUR = replace(
    DP_FL, title="DP-Murmur", uplink=NoisyUpdates(picked_coordinates),
    parameters={**OF_MURMUR, **named("epsilon", "delta", "update_clip")}, line="--",
)  # fmt: skip
