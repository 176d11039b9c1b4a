"""Uploads of updates: what a device's weights moved by, in few bits.

An update is counted from ``base``, the last download that this device received; before that, from
its initial weights. The server adds updates to its model, whatever that is by then, so that it need
not know the base (decision 29). With error feedback nothing is sent twice and nothing gets lost: an
update is counted from the last delivered upload, and what that left out, or a download replaced
before the server heard of it, waits as ``residual``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mix2fld.accounting import noise_multiplier, shares
from mix2fld.bounds import LEAST_UPDATE_BITS
from mix2fld.device.noise import NO_KEY, NOISE_KEY, noise_stream
from mix2fld.device.uplinks import Turn, Uplink
from mix2fld.errors import InputError
from mix2fld.link.payloads import (
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
from mix2fld.link.payloads.rotated_plan import COARSE_NORM, FINE_NORM
from mix2fld.streams import stream
from mix2fld.types import Dimensions, Local, State, Tensors, Update

if TYPE_CHECKING:
    from mix2fld.config import Config
    from mix2fld.config_uploads import UpdateConfig

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
            from mix2fld.config_uploads import UpdateConfig

            return self.make_codec(UpdateConfig(), 0)
        return self.codec

    @property
    def takes_room(self) -> bool:
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


def updates_of_a_device(config: "Config") -> int:
    """How many updates a device uploads at most."""
    return config.rounds // config.updates.upload_every


def picked_coordinates(config: "UpdateConfig", weights: int) -> RotatedUpdate:
    """Murmur: the largest of random groups of rotated coordinates, in ``update_bits`` bits.

    Automatic bits are at most one for each weight: with more, accuracy gains nothing.
    """
    if config.update_bits == "auto":
        return RotatedUpdate(picks=True, bits=_with_norm(1, weights), fewer=True)
    if weights and config.update_bits > MOST_BITS_PER_WEIGHT * weights:
        raise InputError(
            f"update_bits = {config.update_bits}: more than {MOST_BITS_PER_WEIGHT} for each of "
            f"{weights:,} weights; must be at most {MOST_BITS_PER_WEIGHT * weights:,}"
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
