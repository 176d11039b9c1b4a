"""Values in, messages out, and back: the same for every protocol, every link and every fleet.

Every fleet calls these, so that bits charged are bits carried wherever the devices are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.codecs import Addends, Encoded, Payload, PayloadError, Size, keeps_weights
from mix2fld.codecs.weights import FULL_PRECISION
from mix2fld.engine.messages import SERVER, Message
from mix2fld.engine.policies import make_policy, policy_of
from mix2fld.masking.party import Overhead
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.downlink import GlobalVersions
from mix2fld.protocols.masked import MaskedSums, check_masked
from mix2fld.protocols.parts import Arrives, Device, Turn
from mix2fld.protocols.replay import Replayed
from mix2fld.protocols.seed_samples import seed_stream
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.replay import REPLAY, seeds_in
from mix2fld.tasks.training import rate_in_round, resolve
from mix2fld.types import Inputs, Local, SampleFormat, SeedSet, ServerState, State, Upload

if TYPE_CHECKING:
    from mix2fld.config.settings import Config


class Wire:
    """A protocol bound to a run, and what of it crosses the link."""

    def __init__(self, protocol: Protocol, sizes: Sizes) -> None:
        for name in ("personal", "finetune_steps"):
            check_personal(protocol, name, getattr(sizes.config.learning, name))
        self.shared, self.completed, sizes = sizes.shared, sizes.completed, sizes.sent
        self.protocol = protocol.bound(sizes)
        self.policy = policy_of(sizes.config.availability.wait)
        self._sizes, self._dims = sizes, sizes.dims
        self.downlink: Protocol | GlobalVersions | Replayed = self._versions() or self.protocol
        self.masks: MaskedSums | None = None
        if sizes.config.privacy.sums == "masked":
            self.masks = MaskedSums(self.protocol, self.policy)
        self._body: Payload = self.masks.codec if self.masks else self.protocol.upload_codec
        self._body_size = self._body.size(sizes.dims)
        self.overhead = Overhead.of(self.masks.members) if self.masks else Overhead()
        self._once: Payload | None = None
        if protocol.once is not None:
            check_mixable(protocol, sizes.dims.samples)
            self._once = protocol.once.payload(sizes)
        self.training = resolve(sizes.config, protocol.training)
        if self.training.replay:
            self.downlink = self._replayed()
        elif protocol.needs_replay:
            raise InputError(
                field="replay",
                value="0",
                hint=f"{protocol.title} labels seeds that all devices share, which "
                "replay multicasts; must be above 0",
            )

    @property
    def _down(self) -> Payload:
        return self.downlink.download_codec

    def upload_size(self, with_seeds: bool) -> Size:
        """Bits of one device's upload in advance, with what masks take."""
        once = self._once.size(self._dims).bits if with_seeds and self._once else 0
        bits = self._body_size.bits + self.overhead.up * (self._body_size.bits > 0)
        return Size(bits + once, self._body_size.exact)

    def uploads_in(self, round_number: int) -> bool:
        """Whether devices upload in this round, or only train."""
        return round_number % self._sizes.config.updates.upload_every == 0

    def rate_in(self, round_number: int) -> float:
        """The learning rate of the devices in a round."""
        return rate_in_round(self.training, round_number, self._sizes.config.rounds)

    def download_size(self, arrives: Arrives | None = None) -> Size:
        """Bits of the multicast in advance; with ``arrives``, of the largest that arrives."""
        bits, exact = self.downlink.download_size(arrives)
        return Size(bits + self.overhead.down, exact)

    @property
    def all_listen(self) -> bool:
        """Whether all idle devices receive a multicast, or those of this round and the next."""
        listeners = self._sizes.config.availability.listeners
        return self.downlink.sends_steps if listeners == "auto" else listeners == "all"

    @property
    def most_download(self) -> Size:
        """Bits of the largest multicast."""
        return self._down.size(self._dims)

    def make_once(self, device: int, inputs: Inputs, values: NDArray[Any]) -> Any:
        """What one device uploads once, None if nothing: the same whenever it makes it."""
        if self.protocol.once is None:
            return None
        rng = seed_stream(self._sizes.seed, device)
        try:
            return self.protocol.once.collect(rng, inputs, values, self._sizes)
        except Mix2fldError as error:
            raise InputError(f"device {device}: {error}") from None

    def prepare_seeds(self, seeds: Mapping[int, Any]) -> SeedSet | None:
        """The samples that the server trains on, from the seed samples that it holds."""
        seeding = self.protocol.seeds
        return None if seeding is None else seeding.prepare(seeds, self._sizes)

    def encode_body(self, device: Device, local: Local) -> Encoded:
        """What a device uploads of its local phase."""
        (body,) = self.encode_bodies([device], [local])
        return body

    def encode_bodies(self, devices: Sequence[Device], local: Sequence[Local]) -> list[Encoded]:
        """What each of several devices does."""
        values = self.protocol.uploads(devices, local)
        if self.masks:
            values = [self.masks.addends(value) for value in values]
        return [self._body.encode(value, self._dims) for value in values]

    def decode_body(self, data: bytes, turn: Turn) -> Any:
        """What the server makes of it."""
        value = self._body.decode(data, self._dims)
        return self.masks.read(value, turn) if self.masks else self.protocol.read(value, turn)

    def kind_of(self, message: Message) -> int:
        """Which uploads can be added to one: all that the server reads of it under masks."""
        return message.body.data[0]

    def addends_in(self, message: Message) -> Addends:
        """The numbers of an upload that are added under masks."""
        found: Addends = self._body.decode(message.body.data, self._dims)
        return found

    def encode_once(self, value: Any) -> Encoded:
        """What one device uploads once, on the link."""
        if self._once is None:
            raise ValueError("this protocol uploads nothing once")
        return self._once.encode(value, self._dims)

    def decode_once(self, data: bytes) -> Any:
        """The same as the server sees it."""
        if self._once is None:
            raise PayloadError("seeds: this protocol has none")
        return self._once.decode(data, self._dims)

    def decode_upload(self, message: Message, turn: Turn) -> Upload:
        """What the server reads; raises ``PayloadError`` for what no honest device sends."""
        (upload,) = self.decode_uploads([message], [turn])
        if isinstance(upload, PayloadError):
            raise upload
        return upload

    def decode_uploads(
        self, messages: Sequence[Message], turns: Sequence[Turn]
    ) -> list[Upload | PayloadError]:
        """What the server reads of each of several uploads, or why it refuses one."""
        found = [self._opened(message) for message in messages]
        fine = {n: own for n, own in enumerate(found) if isinstance(own, Upload)}
        try:
            codes = [own.value for own in fine.values()]
            values = self.protocol.reads(codes, [turns[n] for n in fine])
        except PayloadError as error:
            if len(messages) == 1:
                return [error]
            pairs = zip(messages, turns, strict=True)
            return [own for each, turn in pairs for own in self.decode_uploads([each], [turn])]
        for (n, own), value in zip(fine.items(), values, strict=True):
            found[n] = own._replace(value=value)
        return found

    def _opened(self, message: Message) -> Upload | PayloadError:
        """An upload whose value is what was encoded."""
        try:
            self.check_bits(message)
            value = self._body.decode(message.body.data, self._dims)
            once = None if message.once is None else self.decode_once(message.once.data)
        except PayloadError as error:
            return error
        return Upload(value, message.samples, once, carried=message.body)

    def check_bits(self, message: Message) -> None:
        """Raise ``PayloadError`` unless the bits of an upload can be charged as they are given."""
        due = self.uploads_in(message.round_number)
        size = self._body_size if due else Size(0)
        if not (self.masks and due):  # or only its kind is known
            _check_bits(self._body.name, message.body, size)
        if message.once is not None:
            if self._once is None:
                raise PayloadError("seeds: this protocol has none")
            _check_bits(self._once.name, message.once, self._once.size(self._dims))

    def download_message(self, round_number: int, value: Any) -> Message:
        """What the downlink carries, on the link."""
        encoded = self._down.encode(value, self._dims)
        return Message(SERVER, round_number, encoded)

    def encode_download(self, server: ServerState, device: int | None = None) -> Encoded:
        """The server's state for any device; or for one that missed nothing since its turn."""
        down = self.downlink
        value = down.download(server) if device is None else down.download_to(server, device)
        return self._down.encode(value, self._dims)

    def decode_download(self, data: bytes, states: Iterable[State] = ()) -> State:
        """The entries of a device's state that the multicast replaces.

        ``states`` are of devices that receive it: what it brings may start from what they have.
        """
        value = self._down.decode(data, self._dims)
        return self.downlink.taken(value, states)

    def has_taken(self, state: State, data: bytes) -> bool:
        """Whether a device has the global state that a download leads to."""
        return self.downlink.has_taken(self._down.decode(data, self._dims), state)

    def replayed_samples(self, state: State) -> SeedSet | None:
        """The samples that a device replays, made as the server makes them; None without any."""
        if REPLAY not in state:
            return None
        return self.prepare_seeds(seeds_in(state[REPLAY]))

    def _versions(self) -> GlobalVersions | None:
        """The downlink of steps, if that is what is asked for."""
        protocol, settings = self.protocol, self._sizes.config.updates
        asked = settings.downlink
        chosen = protocol.downlinks[0] if asked == "default" else asked
        if chosen not in protocol.downlinks:
            raise InputError(
                field="downlink",
                value=chosen,
                hint=_why_not(protocol),
            )
        if chosen == "weights" or (chosen == "auto" and "relay" not in protocol.downlinks):
            return None
        if asked == "default" and settings.downlink_bits != FULL_PRECISION:
            return None
        if not keeps_weights(protocol.download_codec):
            raise InputError(
                field="downlink",
                value=chosen,
                hint=f"{protocol.title} must download weights alone, in downlink_bits = "
                f"{FULL_PRECISION}; or must be weights",
            )
        versions = GlobalVersions(protocol, chosen == "coded", self.policy)
        if chosen == "coded" or versions.relays:
            return versions
        if chosen == "auto":
            return None
        raise InputError(
            field="downlink",
            value=chosen,
            hint=f"the uploads of a step of {protocol.title} have more bits than all weights; "
            f"must be {_listed(other for other in protocol.downlinks if other != 'relay')}",
        )

    def _replayed(self) -> Replayed:
        seeds = self.protocol.seeds
        if seeds is None:
            raise InputError(
                field="replay",
                value=f"{self.training.replay:g}",
                hint=f"{self.protocol.title} uploads no seed samples that could be "
                "replayed; choose a protocol with seeds, such as mixfld, or 0",
            )
        devices = self._sizes.config.data.devices
        inner = self._versions() or self.protocol
        return Replayed(inner, seeds.payload(self._sizes), self._dims, devices)


def checked_wire(protocol: Protocol, sizes: Sizes) -> Wire:
    """What crosses the link in a run, whose server can wait as ``wait`` says."""
    make_policy(sizes.config)
    check_masked(sizes.config)
    wire = Wire(protocol, sizes)
    if wire.policy.uses_late:
        _check_lateness(protocol, sizes.config)
    return wire


def _check_lateness(protocol: Protocol, config: "Config") -> None:
    """Refuse what has no meaning where uploads of other rounds are used."""
    together = {
        "upload_every": config.updates.upload_every > 1,
        "min_uploads": config.availability.min_uploads > 0,
        "evaluated_rounds": config.evaluated_rounds == "last",
    }
    for name in [name for name, given in together.items() if given]:
        raise InputError(
            field=name, hint=f"has no meaning with wait = {config.availability.wait}; leave it out"
        )
    if not protocol.late_uploads:
        raise InputError(
            field="wait",
            value=config.availability.wait,
            hint=f"{protocol.title} needs the uploads of a round together; must be all, quorum or "
            "deadline",
        )


def _why_not(protocol: Protocol) -> str:
    """Why a global model does not come down as was asked."""
    if protocol.downlinks == ("weights",) and not protocol.download_codec.size(protocol.dims).bits:
        return f"{protocol.title} downloads nothing; leave it out"
    return (
        f"{protocol.title} cannot be downloaded so: its server step needs more than weights and "
        f"uploads; must be {_listed(protocol.downlinks)}"
    )


def _listed(words: Iterable[str]) -> str:
    """Words as a sentence has them: a, b or c."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def check_mixable(protocol: Protocol, samples: SampleFormat) -> None:
    """Refuse a protocol that uploads seed samples if the samples are token ids."""
    if protocol.seeds is not None and not samples.mixable:
        raise InputError(
            field="protocols",
            value=protocol.title,
            hint=f"uploads seed samples, but samples are {samples}: token "
            "ids, which cannot be mixed or rounded; choose a protocol without seeds, such as fl",
        )


def check_personal(protocol: Protocol, field: str, value: str | int) -> None:
    """Refuse models of devices where the server trains the whole model, or devices send no part."""
    if value in ("none", 0):
        return
    sends = protocol.upload_kind in ("weights", "update") and protocol.once is None
    if protocol.upload_kind is None and not protocol.server_steps:
        sends = protocol.once is None  # training alone, where all is personal
    if not sends or protocol.server_steps or protocol.first_model is not None:
        raise InputError(
            field=field,
            value=value,
            hint=f"{protocol.title} does not send weights or updates alone, which devices could "
            f"keep apart; must be {'none' if field == 'personal' else 0}, or choose fl or one that "
            "sends updates, such as murmur",
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
