"""The global model in few bits: devices take the server's steps themselves.

The model has versions, one for each step of the server. A device keeps the version that it has
beside the weights that it trains; the server knows of each device which one that is, and keeps its
latest steps. It multicasts whatever is smallest for those who listen: the steps that they lack, or
all weights. After either, a device has the server's weights, bit for bit, which a checksum proves.

A step is relayed, as the uploads that the server took: for protocols whose step is a function of
the last weights and of decoded uploads (``relays``). Or it is coded: the server codes what its
weights moved by, and takes over what it sent; what the codes left out is due with its next step.
"""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import (
    Encoded,
    PayloadError,
    RotatedUpdate,
    Size,
    UpdateCodec,
    flatten_tensors,
    unflatten_tensors,
    with_last_layer_apart,
)
from mix2fld.codecs.global_steps import (
    HEAD_BITS,
    MOST_STEPS,
    STALE_BITS,
    GlobalState,
    GlobalSteps,
    RelayedUpload,
    Step,
    step_of_tree,
    tree_of_step,
)
from mix2fld.codecs.rotated_plan import bits_with_norm
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.lateness import Lateness, mixed
from mix2fld.protocols.listeners import steps_missed
from mix2fld.protocols.parts import Arrives, Inbox, Turn
from mix2fld.tensors import minus, plus, zeros
from mix2fld.types import ServerState, State, Tensors, Upload

KNOWN = "global_version"
"""The entry of a device's state with the version of the global model that it has."""
SINCE = "global_since"
"""The entry of a decoded download with the oldest version that can follow it."""
STEPS = "global_steps"
"""The entry of the server's memory with its latest steps, and who has which version."""
CHECKED_STEPS = 2
"""Of a run: whether devices get to the same weights is tried before they are asked to."""
ANY, NONE = -2, -1
"""In place of a version: whatever a device has will do; a device has none."""


@dataclass(frozen=True)
class GlobalVersions:
    """The downlink of a protocol whose devices follow the server's steps."""

    inner: Protocol
    coded: bool
    """Whether the server codes its steps, or relays uploads."""
    policy: Lateness

    same_for_all = False
    sends_steps = True

    @cached_property
    def download_codec(self) -> GlobalSteps:
        """The codec of the downlink: of all weights, or of the steps that were missed."""
        protocol = self.inner
        return GlobalSteps(
            protocol.devices, protocol.upload_codec, self._codec, protocol.download_codec
        )

    @cached_property
    def relays(self) -> bool:
        """Whether the uploads of a step can have fewer bits than all weights."""
        whole = self.download_codec.size(self.inner.dims)
        return not self._step_size.exact or self._step_size.bits < whole.bits

    @cached_property
    def _step_size(self) -> Size:
        """Of a step whose uploads all arrive."""
        config, dims = self.inner.config, self.inner.dims
        if self.coded:
            return self.download_codec.coded_step_size(dims)
        asked = config.participants_per_round
        uploads = int(min(asked, self.policy.enough(asked)))
        return self.download_codec.step_size(dims, uploads, late=self.policy.uses_late)

    def download_size(self, arrives: Arrives | None = None) -> Size:
        """Mean over rounds in which all uploads arrive; no more than all weights."""
        chances = steps_missed(self.inner.config, self.policy)
        step, whole = self._step_size, self.download_codec.size(self.inner.dims)
        if arrives is not None and self.inner.statistics is not None:
            return whole  # the first: it follows from statistics
        sizes = np.minimum(HEAD_BITS + step.bits * np.arange(1, 1 + len(chances)), whole.bits)
        most = int(np.flatnonzero(chances)[-1])
        exact = step.exact and not np.any(chances[:most])
        return Size(round(float(sizes @ chances)), exact)

    # The device half

    def start(self, weights: Tensors) -> State:
        """All devices have the initial weights in common, which is version 0, or none."""
        alike = self.inner.config.learning.initial_weights != "independent"
        known = {"version": np.array(0 if alike else NONE), "weights": weights}
        return {**self.inner.start(weights), KNOWN: known}

    def taken(self, value: GlobalState, states: Iterable[State]) -> State:
        """The entries that a download replaces; ``states`` are of devices that take it.

        All that can follow the steps get to the same weights. None if none of them can.
        """
        since = ANY if value.weights is not None else value.since
        weights = value.weights
        for state in states if weights is None else ():
            known = state[KNOWN]
            if since <= int(known["version"]) <= value.version:
                weights = self._follow(value, int(known["version"]), known["weights"])
                break
        if weights is None or checksum(weights) != value.checksum:
            return {}
        known = {"version": np.array(value.version), "weights": weights}
        return {**self.inner.received(weights), KNOWN: known, SINCE: np.array(since)}

    def has_taken(self, value: GlobalState, state: State) -> bool:
        """Whether a device has this version of the weights."""
        return int(state[KNOWN]["version"]) == value.version

    def _follow(self, value: GlobalState, version: int, weights: Tensors) -> Tensors | None:
        """The weights after the steps that a device of this version lacks."""
        first = version - value.since
        try:
            for number, step in enumerate(value.steps[first:], version):
                weights = self._after(step, weights if number else None, weights)
        except PayloadError:
            return None
        return weights

    def _after(self, step: Step, begun: Tensors | None, base: Tensors) -> Tensors:
        """The weights after a step; ``begun`` is None where the server has made none yet."""
        if step.codes is not None:
            return plus(base, self._decoded(step.codes, step.round_number))
        learning = self.inner.learning
        number, uploads = step.round_number, step.uploads.values()
        decode, dims = self.inner.upload_codec.decode, self.inner.dims
        turns = [Turn(learning.seed, number - own.staleness, d) for d, own in step.uploads.items()]
        read = self.inner.reads([decode(own.body.data, dims) for own in uploads], turns)
        weights = [self.policy.weight(own.staleness) for own in uploads]
        inbox = {
            device: Upload(value, own.samples, weight=weight, staleness=own.staleness)
            for (device, own), value, weight in zip(
                step.uploads.items(), read, weights, strict=True
            )
        }
        after, _ = self.inner.step(ServerState(weights=begun), inbox, number)
        assert after.weights is not None
        return mixed(self.policy, base, after.weights, inbox)

    # The server half

    def after_step(
        self, before: ServerState, after: ServerState, inbox: Inbox, round_number: int
    ) -> ServerState:
        """The server with its step as devices will take it."""
        if after.updates == before.updates or after.weights is None:
            return after
        memory = self._memory(before)
        base = self._weights(before)
        if self.coded:
            moved = plus(minus(after.weights, base), memory.get("residual") or zeros(base))
            codes = self._encoded(moved, round_number)
            sent = self._decoded(codes, round_number)
            memory["residual"] = minus(moved, sent)
            step: Step | None = Step(round_number, {}, codes)
            after = ServerState(**{**vars(after), "weights": plus(base, sent)})
        else:
            step = self._relayed(inbox, round_number)
            if step is not None and memory["version"] < CHECKED_STEPS:
                self._check_relay(step, before, after)
        kept = [] if step is None else self._worth_keeping([*memory["kept"], tree_of_step(step)])
        memory |= {"version": memory["version"] + 1, "kept": kept}
        return after.keeping(**{STEPS: memory})

    def _worth_keeping(self, steps: list[State]) -> list[State]:
        """The latest steps; more of them than all weights have bits are never sent."""
        most = self.inner.download_codec.size(self.inner.dims).bits
        bits = np.cumsum([int(step["bits"].sum()) for step in reversed(steps)])
        return steps[-min(MOST_STEPS, max(1, int(np.sum(bits < most)))) :]

    def _relayed(self, inbox: Inbox, round_number: int) -> Step | None:
        """The uploads as they came; None where there is only their sum, or more than updates."""
        if self.inner.statistics is not None and any(
            own.seeds is not None for own in inbox.values()
        ):
            return None
        carried = {
            d: RelayedUpload(own.samples, own.carried, own.staleness) for d, own in inbox.items()
        }
        if any(own.body is None or own.staleness >= 1 << STALE_BITS for own in carried.values()):
            return None
        step = Step(round_number, carried)
        whole = self.inner.download_codec.size(self.inner.dims).bits
        return step if self.download_codec.bits_of(step, self.inner.dims) < whole else None

    def _check_relay(self, step: Step, before: ServerState, after: ServerState) -> None:
        """Refuse a protocol whose step is not what devices make of the uploads."""
        found = self._after(step, before.weights, self._weights(before))
        assert after.weights is not None
        if checksum(found) != checksum(after.weights):
            raise InputError(
                field="downlink",
                value="relay",
                hint=f"the server's step of {self.inner.title} needs more than the uploads; "
                "must be weights or coded",
            )

    def download(self, server: ServerState) -> GlobalState:
        """All weights: for a device that has nothing."""
        weights = self._weights(server)
        return GlobalState(int(self._memory(server)["version"]), checksum(weights), weights)

    def download_to(self, server: ServerState, device: int) -> GlobalState:
        """The steps since the version that it confirmed last; all weights if these are smaller."""
        whole, memory = self.download(server), self._memory(server)
        since, first = int(self._versions(server, "confirmed")[device]), self._first_kept(memory)
        if since < first:
            return whole
        codec, dims = self.download_codec, self.inner.dims
        choices = (self._steps_since(server, since), whole)
        return min(choices, key=lambda choice: codec.encode(choice, dims).bits)

    def _steps_since(self, server: ServerState, version: int) -> GlobalState:
        memory = self._memory(server)
        trees = memory["kept"][len(memory["kept"]) - (int(memory["version"]) - version) :]
        steps = tuple(step_of_tree(tree) for tree in trees)
        return self.download(server)._replace(weights=None, steps=steps)

    def download_for(
        self, server: ServerState, audience: Sequence[int], arrives: Arrives
    ) -> GlobalState:
        """What is smallest of all that serves every listener.

        If so much is not expected to arrive, whatever serves most of them and is, if anything.
        """
        whole, codec, dims = self.download(server), self.download_codec, self.inner.dims
        has = self._versions(server)[list(audience)]
        first = self._first_kept(self._memory(server))
        begins = sorted({int(version) for version in has if version >= first})
        longest = self._steps_since(server, begins[0]) if begins else whole
        left_out = [version - begins[0] for version in begins]
        choices = [whole, *(longest._replace(steps=longest.steps[n:]) for n in left_out)]
        bits = [codec.state_bits(choice, dims) for choice in choices]
        serves = [int(np.sum(has >= (ANY if c.weights is not None else c.since))) for c in choices]
        order = sorted(range(len(choices)), key=lambda n: (-serves[n], bits[n]))
        likely = [n for n in order if arrives(bits[n])]
        return choices[(likely or order)[0]]

    def beyond_history(
        self, server: ServerState, audience: Sequence[int], value: GlobalState
    ) -> list[int]:
        """Listeners that lack more steps than are kept, so that all weights are sent."""
        memory = self._memory(server)
        if value.weights is None or not memory["kept"]:
            return []
        has, first = self._versions(server), self._first_kept(memory)
        return [device for device in audience if 0 <= has[device] < first]

    def on_receipt(
        self,
        server: ServerState,
        receivers: Collection[int],
        asked: Collection[int],
        value: GlobalState,
    ) -> State:
        """Who has which version now, and who confirmed it."""
        has, confirmed = self._versions(server).copy(), self._versions(server, "confirmed").copy()
        since = ANY if value.weights is not None else value.since
        listening = np.array(sorted(receivers), np.int64)
        took = listening[has[listening] >= since]
        has[took] = value.version
        confirmed[took[np.isin(took, list(asked))]] = value.version
        return {STEPS: {**self._memory(server), "has": has, "confirmed": confirmed}}

    def _first_kept(self, memory: Mapping[str, Any]) -> int:
        """The version that the oldest step that is kept begins with."""
        return int(memory["version"]) - len(memory["kept"])

    def _memory(self, server: ServerState) -> dict[str, Any]:
        kept = server.memory.get(STEPS)
        return dict(kept) if kept is not None else {"version": 0, "kept": []}

    def _versions(self, server: ServerState, which: str = "has") -> NDArray[np.int64]:
        found = self._memory(server).get(which)
        alike = self.inner.config.learning.initial_weights != "independent"
        begun = np.full(self.inner.devices, 0 if alike else NONE, np.int64)
        return begun if found is None else np.asarray(found)

    def _weights(self, server: ServerState) -> Tensors:
        """The server's; before its first step, those that all devices begin with."""
        return self.inner.learning.common_weights if server.weights is None else server.weights

    # A coded step

    @cached_property
    def _codec(self) -> UpdateCodec:
        weights, config = self.inner.dims.num_weights, self.inner.config.updates
        bits = config.downlink_step_bits
        if bits == "auto":
            bits = bits_with_norm(1, weights)
        codec = RotatedUpdate(largest_per_group=True, min_mse=True, bits=bits)
        arrays = self.inner.last_layer if self.coded else ()
        return with_last_layer_apart(codec, "auto", self.inner.dims, arrays)

    def _encoded(self, moved: Tensors, round_number: int) -> Encoded:
        rng, dims = self._stream(round_number), self.inner.dims
        return self._codec.encode(
            self._codec.compress(flatten_tensors(moved, dims), rng, None), dims
        )

    def _decoded(self, codes: Encoded, round_number: int) -> Tensors:
        rng, dims = self._stream(round_number), self.inner.dims
        found = self._codec.restore(self._codec.decode(codes.data, dims), rng, dims.num_weights)
        return unflatten_tensors(found.update, dims)

    def _stream(self, round_number: int) -> np.random.Generator:
        return stream(self.inner.learning.seed, "downlink", round_number, 1)


def follows(state: State, received: State) -> State:
    """What of a decoded download a device can take: steps only from a version that it has."""
    if KNOWN not in received:
        return received
    own, new = (int(known[KNOWN]["version"]) for known in (state, received))
    able = int(received[SINCE]) <= own <= new
    left = (SINCE,) if able else (SINCE, KNOWN, "weights")
    return {name: value for name, value in received.items() if name not in left}


def takes(state: State, received: State) -> bool:
    """Whether a device can take the whole of a decoded download."""
    return KNOWN not in state or KNOWN in follows(state, received)


def checksum(weights: Tensors) -> int:
    """Of the bytes of all arrays."""
    found = 0
    for array in weights:
        found = zlib.crc32(np.ascontiguousarray(array, "<f4").tobytes(), found)
    return found
