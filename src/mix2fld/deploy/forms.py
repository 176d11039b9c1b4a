"""The forms of messages: what their fields may hold, and how Flower carries them.

Whatever comes in is held to its form, so that nothing from the network is used unchecked, and
nothing is ever unpickled. A record of Flower has the name of its message and plain values; a device
of Flower lives for one message, so that an order also says what run it is of.
"""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mix2fld.deploy.edge.messages import (
    AnyMessage,
    Behind,
    Download,
    MessageError,
    Refused,
    Taken,
    Trained,
    TrainOrder,
)
from mix2fld.tasks.base import Task
from mix2fld.tasks.table import as_record, from_record
from mix2fld.types import SampleFormat

if TYPE_CHECKING:
    from flwr.app import RecordDict

FORMAT = 7
MOST_SAMPLES = 1 << 31
TRAIN, DOWNLOAD = "train", "query.download"
ANSWERS: Mapping[str, tuple[type[AnyMessage], ...]] = {
    TRAIN: (Trained, Behind, Refused),
    DOWNLOAD: (Taken, Refused),
}
Count = Annotated[int, Field(ge=0)]
Hexadecimal = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
RULES: Mapping[str, Any] = {
    "run": Hexadecimal,
    "uploaded": Count,
    "last_turn": Count,
    "bit_budget": Annotated[int, Field(ge=1)] | None,
    "samples": Annotated[int, Field(ge=1, le=MOST_SAMPLES)],
    "bits": Count,
    "scores": list[float],
    "seconds": Annotated[float, Field(ge=0)],
}
"""What a field of this name may hold, beside being of its type."""
ADDRESS = {"format": int, "device": Count, "round": Annotated[int, Field(ge=1)]}
"""Beside what a device of Flower is told."""
RUN = {
    "config": Hexadecimal,
    "sample_shape": list[int],
    "dtype": Literal["uint8", "float32", "int32"],
    "value_range": Annotated[list[float], Field(min_length=2, max_length=2)],
    "mean": list[float],
    "std": list[float],
    "network": str,
    "task": str,
}
"""What a device of Flower must know of a run; ``config`` is the digest of all settings,
``network`` what made the samples and ``task`` what is learned, as JSON."""
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _form(
    kind: type[AnyMessage], more: Mapping[str, Any] | None = None, without: Collection[str] = ()
) -> type[BaseModel]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {
        name: (RULES.get(name, hints[name]), kind._field_defaults.get(name, ...))
        for name in kind._fields
        if name not in without
    }
    fields |= {name: (rule, ...) for name, rule in (more or {}).items()}
    return create_model(kind.__name__, __config__=STRICT, **fields)


FORMS: Mapping[type[AnyMessage], type[BaseModel]] = {
    TrainOrder: _form(TrainOrder, {**ADDRESS, **RUN}, without={"epoch", "heard", "start"}),
    Download: _form(Download, ADDRESS),
    Trained: _form(Trained, without={"run"}),
    Behind: _form(Behind, without={"run", "has", "needs_start"}),
    Taken: _form(Taken, without={"run"}),
    Refused: _form(Refused, without={"run", "round"}),
}
"""The fields that Flower's records have: an answer goes with its order, which names the run."""


class Received(NamedTuple):
    """A message, and all fields of the record that it came in."""

    message: Any
    fields: Mapping[str, Any]


def pack(message: AnyMessage, **more: Any) -> "RecordDict":
    """The message as Flower carries it, with what else its record has."""
    from flwr.app import ConfigRecord, RecordDict

    fields = {name: more.get(name, getattr(message, name, None)) for name in _names(type(message))}
    record = ConfigRecord({name: value for name, value in fields.items() if value is not None})
    return RecordDict({type(message).__name__: record})


def unpack(content: "RecordDict", *kinds: type[AnyMessage]) -> Received:
    """The one message in ``content``; raises ``MessageError`` unless it is of one of ``kinds``."""
    known = {kind.__name__: kind for kind in kinds}
    names = list(content)
    if len(names) != 1 or names[0] not in known:
        raise MessageError(f"records {names[:3]}; must be one of {', '.join(known)}")
    kind, record = known[names[0]], content[names[0]]
    try:
        given: dict[str, Any] = dict(record)
    except (TypeError, ValueError) as error:
        raise MessageError(f"{names[0]}: not a record of values ({error})") from None
    fields = _held_to_form(kind, given)
    own = {name: value for name, value in fields.items() if name in kind._fields}
    return Received(kind(**{"run": "", "round": 0, **own}), fields)


def check(message: AnyMessage) -> None:
    """Raise ``MessageError`` for what no field of the message can have."""
    kind = type(message)
    _held_to_form(kind, {name: getattr(message, name) for name in _names(kind)})


def run_fields(samples: SampleFormat, task: Task, config: str) -> dict[str, Any]:
    """What a device of Flower must know of a run."""
    return {
        "config": config,
        "sample_shape": list(samples.shape),
        "dtype": samples.dtype,
        "value_range": [samples.low, samples.high],
        "mean": list(samples.mean),
        "std": list(samples.std),
        "network": json.dumps(samples.record().get("network")),
        "task": json.dumps(as_record(task)),
    }


def sample_format(fields: Mapping[str, Any]) -> SampleFormat:
    """What every sample of the run is that an order is of."""
    low, high = fields["value_range"]
    try:
        network = json.loads(fields["network"])
        named = {name: fields[name] for name in ("dtype", "mean", "std")}
        record = {"shape": fields["sample_shape"], "low": low, "high": high, "network": network}
        return SampleFormat.of({**named, **record})
    except (ValueError, TypeError, AttributeError) as error:
        raise MessageError(f"network: not the record of one ({error})") from None


def task_in(fields: Mapping[str, Any]) -> Task:
    """What the run learns that an order is of."""
    try:
        return from_record(json.loads(fields["task"]))
    except (ValueError, AttributeError) as error:
        raise MessageError(f"TrainOrder.task: {error}") from None


def _names(kind: type[AnyMessage]) -> list[str]:
    return list(FORMS[kind].model_fields)


def _held_to_form(kind: type[AnyMessage], fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return FORMS[kind].model_validate(fields).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise MessageError(f"{kind.__name__}.{field}: {first['msg'].lower()}") from None
