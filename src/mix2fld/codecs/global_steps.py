"""The global model on the downlink: as weights, or as the steps from an older one to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.bits import Bits, from_bits, to_bits
from mix2fld.codecs.codec import Encoded, Payload, PayloadError, Size
from mix2fld.types import Dimensions, State, Tensors

COUNT_BITS, VERSION_BITS, CHECKSUM_BITS = 8, 24, 32
ROUND_BITS, SAMPLE_BITS, LENGTH_BITS, STALE_BITS = 24, 24, 24, 8
HEAD_BITS = COUNT_BITS + VERSION_BITS + CHECKSUM_BITS
SNAPSHOT = 255
"""In place of a number of steps: weights follow."""
MOST_STEPS = SNAPSHOT - 1
RELAYED, CODED = 0, 1


class RelayedUpload(NamedTuple):
    """An upload that is passed on as it came."""

    samples: int
    body: Encoded
    staleness: int = 0
    """How many rounds ago the device was asked for it."""


class Step(NamedTuple):
    """One step of the server: the uploads that it took, or what they changed, as codes."""

    round_number: int
    uploads: dict[int, RelayedUpload]
    codes: Encoded | None = None
    """In place of uploads."""


class GlobalState(NamedTuple):
    """A version of the global model, and how to get there."""

    version: int
    checksum: int
    """Of the weights that devices then have."""
    weights: Tensors | None
    """None: follow the steps."""
    steps: tuple[Step, ...] = ()

    @property
    def since(self) -> int:
        """The oldest version that the steps begin with."""
        return self.version - len(self.steps)


@dataclass(frozen=True)
class GlobalSteps:
    """Number of steps, version and checksum; then weights, or one step after the other.

    A step is a bit that says its kind, its round, and codes; or who uploaded (one bit for each
    device), their numbers of samples, of how many rounds ago their uploads are, the bits of each
    upload where these may differ, and the uploads. Numbers that are alike are sent once.
    """

    devices: int
    upload: Payload
    codes: Payload
    weights: Payload
    name: str = "global steps"
    words: str = "weights, or steps to them"

    def size(self, dims: Dimensions) -> Size:
        """As weights: the server sends nothing that is larger."""
        return Size(HEAD_BITS + self.weights.size(dims).bits, exact=False)

    def step_size(self, dims: Dimensions, uploads: int, *, late: bool = False) -> Size:
        """Of a step of so many uploads of devices with as many samples each."""
        upload = self.upload.size(dims)
        ages = uploads * STALE_BITS if late else 0
        numbers = self.devices + 2 + SAMPLE_BITS + (0 if upload.exact else 1 + LENGTH_BITS)
        return Size(1 + ROUND_BITS + numbers + ages + uploads * upload.bits, upload.exact)

    def coded_step_size(self, dims: Dimensions) -> Size:
        """Of a coded step."""
        return Size(1 + ROUND_BITS + self.codes.size(dims).bits)

    def encode(self, value: GlobalState, dims: Dimensions) -> Encoded:
        """The bits without a gap; weights begin with a whole byte."""
        count = SNAPSHOT if value.weights is not None else len(value.steps)
        head = [_bits(count, COUNT_BITS), _bits(value.version, VERSION_BITS)]
        head.append(_bits(value.checksum, CHECKSUM_BITS))
        if value.weights is not None:
            carried = self.weights.encode(value.weights, dims)
            data = np.packbits(np.concatenate(head)).tobytes() + carried.data
            return Encoded(data, HEAD_BITS + carried.bits)
        bits = np.concatenate([*head, *(self._step_bits(step, dims) for step in value.steps)])
        return Encoded(np.packbits(bits).tobytes(), len(bits))

    def bits_of(self, step: Step, dims: Dimensions) -> int:
        """What a step adds to a message."""
        head = 1 + ROUND_BITS
        if step.codes is not None:
            return head + self._carried_bits(self.codes, [step.codes], dims)
        uploads = list(step.uploads.values())
        late = STALE_BITS * len(uploads) * any(own.staleness for own in uploads)
        samples = _numbers_bits([own.samples for own in uploads], SAMPLE_BITS)
        carried = self._carried_bits(self.upload, [own.body for own in uploads], dims)
        return head + self.devices + samples + 1 + late + carried

    def state_bits(self, value: GlobalState, dims: Dimensions) -> int:
        """Those of a message."""
        if value.weights is not None:
            return HEAD_BITS + self.weights.size(dims).bits
        return HEAD_BITS + sum(self.bits_of(step, dims) for step in value.steps)

    def decode(self, data: bytes, dims: Dimensions) -> GlobalState:
        """What the server said; codes of uploads are read when the steps are taken."""
        reader = _Reader(self.name, data)
        count, version = reader.number(COUNT_BITS), reader.number(VERSION_BITS)
        checksum = reader.number(CHECKSUM_BITS)
        if count == SNAPSHOT:
            weights = self.weights.decode(data[HEAD_BITS // 8 :], dims)
            return GlobalState(version, checksum, weights)
        if count > version:
            raise PayloadError(f"{self.name}: {count} steps to version {version}")
        steps = tuple(self._read_step(reader, dims) for _ in range(count))
        reader.end()
        return GlobalState(version, checksum, None, steps)

    def _step_bits(self, step: Step, dims: Dimensions) -> Bits:
        kind = _bits(RELAYED if step.codes is None else CODED, 1)
        first = [kind, _bits(step.round_number, ROUND_BITS)]
        if step.codes is not None:
            return np.concatenate([*first, *self._lengths(self.codes, [step.codes], dims)])
        order = sorted(step.uploads)
        who = np.isin(np.arange(self.devices), order).astype(np.uint8)
        samples = _numbers([step.uploads[d].samples for d in order], SAMPLE_BITS)
        ages = [step.uploads[d].staleness for d in order]
        late = [_bits(int(any(ages)), 1), *(_bits(age, STALE_BITS) for age in ages if any(ages))]
        carried = self._lengths(self.upload, [step.uploads[d].body for d in order], dims)
        return np.concatenate([*first, who, samples, *late, *carried])

    def _lengths(
        self, payload: Payload, carried: Sequence[Encoded], dims: Dimensions
    ) -> list[Bits]:
        """What is carried, after its lengths if these are not known."""
        exact = payload.size(dims).exact
        ahead = [] if exact else [_numbers([each.bits for each in carried], LENGTH_BITS)]
        bits = [
            np.unpackbits(np.frombuffer(each.data, np.uint8), count=each.bits) for each in carried
        ]
        return [*ahead, *bits]

    def _carried_bits(self, payload: Payload, carried: Sequence[Encoded], dims: Dimensions) -> int:
        bits = [each.bits for each in carried]
        ahead = 0 if payload.size(dims).exact else _numbers_bits(bits, LENGTH_BITS)
        return ahead + sum(bits)

    def _read_step(self, reader: "_Reader", dims: Dimensions) -> Step:
        kind, round_number = reader.number(1), reader.number(ROUND_BITS)
        if kind == CODED:
            (codes,) = self._read_carried(reader, self.codes, 1, dims)
            return Step(round_number, {}, codes)
        order = np.flatnonzero(reader.take(self.devices)).tolist()
        if not order:
            raise PayloadError(f"{self.name}: a step of no upload")
        samples = reader.numbers(len(order), SAMPLE_BITS)
        late = reader.number(1)
        ages = [reader.number(STALE_BITS) if late else 0 for _ in order]
        if max(ages) >= round_number:
            raise PayloadError(f"{self.name}: an upload of {max(ages)} rounds before round 1")
        bodies = self._read_carried(reader, self.upload, len(order), dims)
        carried = [RelayedUpload(*each) for each in zip(samples, bodies, ages, strict=True)]
        return Step(round_number, dict(zip(order, carried, strict=True)))

    def _read_carried(
        self, reader: "_Reader", payload: Payload, count: int, dims: Dimensions
    ) -> list[Encoded]:
        size = payload.size(dims)
        lengths = [size.bits] * count if size.exact else reader.numbers(count, LENGTH_BITS)
        if max(lengths) > size.bits:
            raise PayloadError(f"{self.name}: {max(lengths)} bits; must be at most {size.bits}")
        return [Encoded(np.packbits(reader.take(bits)).tobytes(), bits) for bits in lengths]


def tree_of_step(step: Step) -> State:
    """A step as a checkpoint keeps it."""
    bodies = [step.codes] if step.codes else [own.body for _, own in sorted(step.uploads.items())]
    return {
        "round": step.round_number,
        "devices": np.array(sorted(step.uploads), np.int64),
        "samples": np.array([step.uploads[d].samples for d in sorted(step.uploads)], np.int64),
        "ages": np.array([step.uploads[d].staleness for d in sorted(step.uploads)], np.int64),
        "bits": np.array([each.bits for each in bodies], np.int64),
        "data": np.frombuffer(b"".join(each.data for each in bodies), np.uint8),
    }


def step_of_tree(tree: Mapping[str, Any]) -> Step:
    """The step that ``tree_of_step`` took apart."""
    data, place, bodies = tree["data"].tobytes(), 0, []
    for bits in tree["bits"].tolist():
        end = place + -(-bits // 8)
        bodies.append(Encoded(data[place:end], bits))
        place = end
    devices, samples, ages = (tree[name].tolist() for name in ("devices", "samples", "ages"))
    if not devices:
        return Step(int(tree["round"]), {}, bodies[0])
    carried = [RelayedUpload(*each) for each in zip(samples, bodies, ages, strict=True)]
    return Step(int(tree["round"]), dict(zip(devices, carried, strict=True)))


class _Reader:
    """Bits from the first to the last."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name, self._place = name, 0
        self._bits = np.unpackbits(np.frombuffer(data, np.uint8))

    def take(self, count: int) -> Bits:
        found = self._bits[self._place : self._place + count]
        if len(found) < count:
            raise PayloadError(f"{self._name}: {len(self._bits) // 8} bytes end too soon")
        self._place += count
        return found

    def number(self, width: int) -> int:
        return int(from_bits(self.take(width), width)[0])

    def numbers(self, count: int, width: int) -> list[int]:
        """Read whole numbers as ``_numbers`` wrote them."""
        if self.number(1):
            return [self.number(width)] * count
        return [self.number(width) for _ in range(count)]

    def end(self) -> None:
        """Refuse more than zeros up to a whole byte."""
        rest = self._bits[self._place :]
        if len(rest) > 7 or rest.any():
            raise PayloadError(f"{self._name}: {len(rest)} bits too many")


def _bits(number: int, width: int) -> Bits:
    if not 0 <= number < 1 << width:
        raise PayloadError(f"global steps: {number} does not fit into {width} bits")
    return to_bits(np.array([number], np.uint32), width)


def _numbers_bits(values: Sequence[int], width: int) -> int:
    """Those of ``_numbers``."""
    return 1 + width * (1 if len(set(values)) == 1 else len(values))


def _numbers(values: Sequence[int], width: int) -> NDArray[Any]:
    """A bit that says whether all are alike; then one of them, or all."""
    alike = len(set(values)) == 1
    sent = values[:1] if alike else values
    return np.concatenate([_bits(int(alike), 1), *(_bits(value, width) for value in sent)])
