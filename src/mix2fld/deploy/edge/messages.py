"""What server and devices say to each other, and how it crosses a low-rate link.

Over every transport a message is one byte for its kind, the identity of the run, the round, and
fields of fixed size; payloads come last: a few bytes beside each payload. Which device an answer is
from, the transport says: over MQTT its topic, which the broker's access list makes sure of. Numbers
are little-endian. Nothing is ever unpickled.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

FORMAT = 9
"""Of messages, over every transport; both ends must have the same."""
HEAD = struct.Struct("<c8sI")  # kind, run, round
ORDER = struct.Struct("<IIIBII")  # epoch, uploaded, last turn, flags, bit budget, heard
SUM_STEP = struct.Struct("<B8s")  # step, which sum
TRAINED = struct.Struct("<IBfIH")  # samples, padding bits, seconds, bytes of seeds, scores
WATCHED, CATCH_UP, HAS_BIT_BUDGET, HAS_DOWNLOAD, HAS_START = (1 << bit for bit in range(5))
HAS_SEEDS = 0x8000
"""In the number of scores: seeds are there, if perhaps of no length."""


class MessageError(ValueError):
    """A message that no honest sender would send; the text is one line."""


class MessageHead(NamedTuple):
    """Whose message of which round: what tells duplicates, replays and old answers apart."""

    kind: str
    run: str
    round: int


class TrainOrder(NamedTuple):
    """The server asks a device for its local phase and its upload."""

    run: str
    round: int
    uploaded: int
    """The last round whose upload the server took from this device; 0 for none."""
    last_turn: int
    """The round that the device should have been through last; 0 for none."""
    watched: bool
    """Whether scores are wanted along the local phase, not only at its end."""
    catch_up: bool = False
    """The device said that it is behind: it continues from what is here, or from what it has."""
    bit_budget: int | None = None
    """Bits that the upload may take, if their number is automatic."""
    download: bytes | None = None
    epoch: int = 0
    """When the server was started: an order of an older process is a replay."""
    heard: int = 0
    """The round of a multicast that the device should have and use; 0 for none."""
    start: bytes | None = None
    """What tells a device that cannot draw its initial weights how to."""


class Trained(NamedTuple):
    """A device's upload, and what it says of its local phase."""

    run: str
    round: int
    samples: int
    padding: int
    """Bits of the last byte of the upload that say nothing; 0 to 7."""
    seconds: float
    scores: list[float]
    """All metrics of the task, at the end; of the watched device, at several steps before it."""
    upload: bytes
    seeds: bytes | None = None

    @property
    def bits(self) -> int:
        """Of the upload, as they are charged."""
        return 8 * len(self.upload) - self.padding


class Behind(NamedTuple):
    """A device that missed a round or lacks something, and the last multicast that it has."""

    run: str
    round: int
    has: int = 0
    needs_start: bool = False


class Download(NamedTuple):
    """The server's global state."""

    run: str
    round: int
    data: bytes


class Taken(NamedTuple):
    """A device has kept the download."""

    run: str
    round: int


class Refused(NamedTuple):
    """A device cannot do what it was asked."""

    run: str
    round: int
    reason: str
    diverged: bool = False
    """Whether it is the global model that it cannot train from."""


class SumOrder(NamedTuple):
    """The server asks a device for its next step of a masked sum, and says what others sent."""

    run: str
    round: int
    step: int
    """0: its keys; 1: shares for others; 2: its numbers under masks; 3: what masks are left."""
    place: bytes
    """Eight bytes: which sum it is, of those that are tried in this round."""
    data: bytes = b""


class SumAnswer(NamedTuple):
    """What a device was asked for in a step of a masked sum."""

    run: str
    round: int
    step: int
    place: bytes
    data: bytes


Answer = Trained | Behind | Taken | Refused | SumAnswer
AnyMessage = TrainOrder | Download | SumOrder | Answer
KINDS: Mapping[str, type[AnyMessage]] = {
    "O": TrainOrder, "T": Trained, "B": Behind, "D": Download, "K": Taken, "R": Refused,
    "S": SumOrder, "A": SumAnswer,
}  # fmt: skip


def pack(message: AnyMessage) -> bytes:
    """The bytes of a message."""
    kind = next(letter for letter, known in KINDS.items() if isinstance(message, known))
    head = HEAD.pack(kind.encode(), bytes.fromhex(message.run), message.round)
    match message:
        case TrainOrder():
            body = _pack_order(message)
        case Trained():
            body = _pack_trained(message)
        case Behind():
            body = struct.pack("<I?", message.has, message.needs_start)
        case Download():
            body = message.data
        case Taken():
            body = b""
        case SumOrder() | SumAnswer():
            body = SUM_STEP.pack(message.step, message.place) + message.data
        case Refused():
            body = struct.pack("<?", message.diverged) + message.reason.encode()[:2000]
    return head + body


def read_head(data: bytes) -> MessageHead:
    """Whose message it is; raises ``MessageError`` if it is none."""
    if len(data) < HEAD.size:
        raise MessageError(f"a message of {len(data)} bytes; must have at least {HEAD.size}")
    kind, run, number = HEAD.unpack_from(data)
    letter = kind.decode("latin-1")
    if letter not in KINDS:
        raise MessageError(f"a message of kind {letter!r}; must be one of {', '.join(KINDS)}")
    return MessageHead(letter, run.hex(), number)


def unpack(data: bytes) -> AnyMessage:
    """The message; raises ``MessageError`` unless all of its fields are there."""
    kind, run, number = read_head(data)
    body = data[HEAD.size :]
    found: AnyMessage
    try:
        match kind:
            case "O":
                found = _unpack_order(run, number, body)
            case "T":
                found = _unpack_trained(run, number, body)
            case "B":
                found = Behind(run, number, *struct.unpack("<I?", body))
            case "D":
                found = Download(run, number, body)
            case "S":
                found = SumOrder(run, number, *_unpack_step(body))
            case "A":
                found = SumAnswer(run, number, *_unpack_step(body))
            case "K":
                found = _only_head(Taken(run, number), body)
            case _:
                found = Refused(run, number, body[1:].decode(errors="replace"), bool(body[0]))
    except (struct.error, IndexError):
        raise MessageError(f"{KINDS[kind].__name__}: {len(body)} bytes that do not fit") from None
    return found


def _pack_order(order: TrainOrder) -> bytes:
    flags = WATCHED * order.watched | CATCH_UP * order.catch_up
    flags |= HAS_BIT_BUDGET * (order.bit_budget is not None)
    flags |= HAS_DOWNLOAD * (order.download is not None)
    flags |= HAS_START * (order.start is not None)
    fields = ORDER.pack(
        order.epoch, order.uploaded, order.last_turn, flags, order.bit_budget or 0, order.heard
    )
    start = b"" if order.start is None else struct.pack("<I", len(order.start)) + order.start
    return fields + start + (order.download or b"")


def _unpack_order(run: str, number: int, body: bytes) -> TrainOrder:
    epoch, uploaded, last_turn, flags, bit_budget, heard = ORDER.unpack_from(body)
    rest, start = body[ORDER.size :], None
    if flags & HAS_START:
        (length,) = struct.unpack_from("<I", rest)
        start, rest = rest[4 : 4 + length], rest[4 + length :]
    return TrainOrder(
        run,
        number,
        uploaded,
        last_turn,
        watched=bool(flags & WATCHED),
        catch_up=bool(flags & CATCH_UP),
        bit_budget=bit_budget if flags & HAS_BIT_BUDGET else None,
        download=rest if flags & HAS_DOWNLOAD else None,
        epoch=epoch,
        heard=heard,
        start=start,
    )


def _pack_trained(trained: Trained) -> bytes:
    count = len(trained.scores) | (HAS_SEEDS if trained.seeds is not None else 0)
    seeds = trained.seeds or b""
    fields = TRAINED.pack(trained.samples, trained.padding, trained.seconds, len(seeds), count)
    scores = struct.pack(f"<{len(trained.scores)}d", *trained.scores)
    return fields + scores + seeds + trained.upload


def _unpack_trained(run: str, number: int, body: bytes) -> Trained:
    samples, padding, seconds, seed_bytes, count = TRAINED.unpack_from(body)
    values = count & ~HAS_SEEDS
    scores = list(struct.unpack_from(f"<{values}d", body, TRAINED.size))
    rest = body[TRAINED.size + 8 * values :]
    if len(rest) < seed_bytes:
        raise MessageError(f"Trained: {len(rest)} bytes of payload, {seed_bytes} of seeds")
    seeds = rest[:seed_bytes] if count & HAS_SEEDS else None
    upload = rest[seed_bytes:]
    if padding > min(7, 8 * len(upload)):
        raise MessageError(f"Trained: {padding} padding bits in {len(upload)} bytes of payload")
    return Trained(run, number, samples, padding, seconds, scores, upload, seeds)


def _unpack_step(body: bytes) -> tuple[int, bytes, bytes]:
    step, place = SUM_STEP.unpack_from(body)
    return step, place, body[SUM_STEP.size :]


def _only_head(taken: Taken, body: bytes) -> Taken:
    if body:
        raise MessageError(f"Taken: {len(body)} bytes too many")
    return taken
