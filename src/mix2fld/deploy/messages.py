"""What server and devices say to each other: payload bytes, and the little that goes with them.

A message is one record of plain values. Whatever comes in is held to its form, so that nothing from
the network is used unchecked, and nothing is ever unpickled.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mix2fld.deploy.edge.messages import MessageError
from mix2fld.types import SampleFormat

if TYPE_CHECKING:
    from flwr.app import RecordDict

FORMAT = 6
MOST_SAMPLES = 1 << 31
TRAIN, DOWNLOAD = "train", "query.download"


class Wire(BaseModel):
    """A message; its name on the wire is the name of its class."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def pack(self) -> "RecordDict":
        """The message as Flower carries it."""
        from flwr.app import ConfigRecord, RecordDict

        record = ConfigRecord(self.model_dump(exclude_none=True))
        return RecordDict({type(self).__name__: record})

    @classmethod
    def unpack(cls, content: "RecordDict") -> Self:
        """The message in ``content``, which must be of this kind."""
        return unpack(content, cls)


class TrainOrder(Wire):
    """The server asks a device for its local phase and its upload."""

    format: int
    run: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    device: Annotated[int, Field(ge=0)]
    round: Annotated[int, Field(ge=1)]
    config: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """Digest of all settings: a device that has others would train something else."""
    sample_shape: list[int]
    dtype: Literal["uint8", "float32", "int32"]
    value_range: Annotated[list[float], Field(min_length=2, max_length=2)]
    """What an n-bit upload spans; two numbers."""
    mean: list[float]
    std: list[float]
    """How the samples of this run were standardised, by channel; empty if they were not."""
    num_labels: int
    uploaded: Annotated[int, Field(ge=0)]
    """The last round whose upload the server took from this device; 0 for none."""
    last_turn: Annotated[int, Field(ge=0)]
    """The round that the device should have been through last; 0 for none."""
    watched: bool
    """Whether accuracy is wanted along the local phase, not only at its end."""
    catch_up: bool = False
    """The device said that it is behind: it continues from what is here, or from what it has."""
    download: bytes | None = None
    bit_budget: Annotated[int, Field(ge=1)] | None = None
    """Bits that the upload may take, if their number is automatic."""

    @property
    def samples(self) -> SampleFormat:
        """What every sample of the run is."""
        low, high = self.value_range
        shape = tuple(self.sample_shape)
        return SampleFormat(shape, self.dtype, low, high, tuple(self.mean), tuple(self.std))


class Trained(Wire):
    """A device's upload, and what it says of its local phase."""

    round: int
    samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
    upload: bytes
    bits: Annotated[int, Field(ge=0)]
    """Bits of the upload, which fill its bytes but for the last ones."""
    seeds: bytes | None = None
    accuracies: list[Annotated[float, Field(ge=0, le=1)]]
    seconds: Annotated[float, Field(ge=0)]


class Behind(Wire):
    """A device that missed a round, or lost its state, and needs the last global state."""

    round: int


class Download(Wire):
    """The server's global state."""

    format: int
    run: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    device: Annotated[int, Field(ge=0)]
    round: Annotated[int, Field(ge=1)]
    data: bytes


class Taken(Wire):
    """A device has kept the download."""

    round: int


class Refused(Wire):
    """A device cannot do what it was asked."""

    reason: str
    diverged: bool = False
    """Whether it is the global model that it cannot train from."""


AnyWire = TypeVar("AnyWire", bound=Wire)


def unpack(content: "RecordDict", *kinds: type[AnyWire]) -> AnyWire:
    """The one message in ``content``; raises ``MessageError`` unless it is of one of ``kinds``."""
    known = {kind.__name__: kind for kind in kinds}
    names = list(content)
    if len(names) != 1 or names[0] not in known:
        raise MessageError(f"records {names[:3]}; must be one of {', '.join(known)}")
    record: Any = content[names[0]]
    try:
        fields = dict(record)
    except (TypeError, ValueError) as error:
        raise MessageError(f"{names[0]}: not a record of values ({error})") from None
    return held_to_form(known[names[0]], fields)


def held_to_form(kind: type[AnyWire], fields: Mapping[str, Any]) -> AnyWire:
    """The message with these fields; raises ``MessageError`` for what it cannot have."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise MessageError(f"{kind.__name__}.{field}: {first['msg'].lower()}") from None
