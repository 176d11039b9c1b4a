"""What the fields of messages may hold, and how Flower carries a message.

Whatever comes in is held to its form, so that nothing from the network is used unchecked, and
nothing is ever unpickled. Flower carries the bytes that MQTT carries, in a record beside what a
device of Flower, which lives for one message, is told of itself and of the run.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mix2fld.deploy.edge.messages import (
    FORMAT,
    KINDS,
    AnyMessage,
    Behind,
    MessageError,
    Refused,
    SumAnswer,
    Taken,
    Trained,
    pack,
    unpack,
)
from mix2fld.deploy.edge.run_settings import check_format

if TYPE_CHECKING:
    from flwr.app import RecordDict

MOST_SAMPLES = 1 << 31
RECORD = "mix2fld"
TRAIN, DOWNLOAD, SUM = "train", "query.download", "query.sum"
ANSWERS: Mapping[str, tuple[type[AnyMessage], ...]] = {
    TRAIN: (Trained, Behind, Refused),
    DOWNLOAD: (Taken, Refused),
    SUM: (SumAnswer, Refused),
}
RULES: Mapping[str, Any] = {
    "bit_budget": Annotated[int, Field(ge=1)] | None,
    "samples": Annotated[int, Field(ge=1, le=MOST_SAMPLES)],
    "seconds": Annotated[float, Field(ge=0)],
}
"""What a field of this name may hold, beside what its bytes can say."""
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _form(kind: type[AnyMessage]) -> type[BaseModel]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {name: (RULES.get(name, hints[name]), ...) for name in kind._fields}
    return create_model(kind.__name__, __config__=STRICT, **fields)


FORMS: Mapping[type[AnyMessage], type[BaseModel]] = {kind: _form(kind) for kind in KINDS.values()}


def read(data: bytes) -> AnyMessage:
    """The message; raises ``MessageError`` for bytes or values that no honest sender sends."""
    message = unpack(data)
    try:
        FORMS[type(message)].model_validate(message._asdict())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise MessageError(f"{type(message).__name__}.{field}: {first['msg'].lower()}") from None
    return message


def to_record(message: AnyMessage, **told: int | bytes) -> "RecordDict":
    """The message as Flower carries it, with what else a device is told."""
    from flwr.app import ConfigRecord, RecordDict

    record = ConfigRecord({"format": FORMAT, "message": pack(message), **told})
    return RecordDict({RECORD: record})


def from_record(content: "RecordDict", *kinds: type[AnyMessage]) -> tuple[Any, Mapping[str, Any]]:
    """The message, and all fields of its record; raises ``MessageError`` if it is none of these."""
    for other in content.config_records.values():
        if "format" in other:
            check_format(other["format"])
    names = list(content)
    if names != [RECORD] or RECORD not in content.config_records:
        raise MessageError(f"records {names[:3]}; must be {RECORD}")
    fields: dict[str, Any] = dict(content.config_records[RECORD])
    data = fields.get("message")
    if not isinstance(data, bytes):
        raise MessageError(f"{RECORD}.message: {type(data).__name__}; must be bytes")
    message = read(data)
    if type(message) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise MessageError(f"a message {type(message).__name__}; must be {wanted}")
    return message, fields
