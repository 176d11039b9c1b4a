"""What the sections of the config are made of: kinds of values, and errors that name the field."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mix2fld.base.bounds import LEAST_UPDATE_BITS
from mix2fld.base.errors import InputError, did_you_mean

LONGEST_SHOWN = 80
HOMES: dict[str, str] = {}
"""Every field with its section, once the config is known; empty for the top level."""


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, (str, int, float)) else value


def _auto_or(accepts: Callable[[float], bool], words: str) -> BeforeValidator:
    """``auto``, or a number of which ``accepts`` is true; it may be written as text."""

    def read(value: Any) -> Any:
        if value == "auto":
            return value
        number = math.nan
        with suppress(ValueError, TypeError):
            number = math.nan if isinstance(value, bool) else float(value)
        if not (math.isfinite(number) and accepts(number)):
            raise ValueError(f"must be auto, or {words}")
        return number

    return BeforeValidator(read)


def _one_of(accepts: Callable[[Any], bool], words: str) -> BeforeValidator:
    """A word or a number, also as text, of which ``accepts`` is true."""

    def read(value: Any) -> Any:
        if isinstance(value, str):
            with suppress(ValueError):
                value = int(value) if value.isdecimal() else float(value)
        if not accepts(value):
            raise ValueError(f"must be {words}")
        return value

    return BeforeValidator(read)


def _is_count(value: Any, least: int = 1) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and least <= value <= LARGEST


def _is_bits(value: Any, least: int) -> bool:
    """So many bits of rounded values, or 32 of exact ones."""
    return _is_count(value, least) and (value <= 16 or value == 32)


def _as_step_times(value: Any) -> Any:
    """One cost, or one for each device."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    with suppress(ValueError):
        listed = [float(one) if isinstance(one, str) else one for one in listed]
    if listed and all(_is_cost(one) for one in listed):
        several = isinstance(value, (list, tuple))
        return tuple(map(float, listed)) if several else float(listed[0])
    raise ValueError("must be 0 or more microseconds, or a list of them, one for each device")


def _is_cost(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


Listed = BeforeValidator(_as_tuple)
AutoOrPositive = Annotated[
    Literal["auto"] | float, _auto_or(lambda value: value > 0, "a number above 0")
]
AutoOrNotNegative = Annotated[
    Literal["auto"] | float, _auto_or(lambda value: value >= 0, "a number from 0")
]
AutoOrShare = Annotated[
    Literal["auto"] | float, _auto_or(lambda value: 0 <= value <= 1, "a number from 0 to 1")
]
LARGEST = 2**63 - 1
AUTO_EVALUATED = 100
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveFloat = Annotated[float, Field(gt=0)]
Spread = Annotated[float, Field(ge=0, le=10)]
Participants = Annotated[
    Literal["all"] | int | float,
    _one_of(
        lambda v: v == "all" or _is_count(v) or (isinstance(v, float) and 0 < v <= 1),
        "all, a number of devices from 1, or a fraction above 0 and up to 1",
    ),
]
Evaluated = Annotated[
    Literal["auto", "all"] | int,
    _one_of(
        lambda v: v in ("auto", "all") or _is_count(v),
        f"all, a number of devices from 1, or auto (at most {AUTO_EVALUATED})",
    ),
]
UpdateBits = Annotated[
    Literal["auto"] | int,
    _one_of(
        lambda v: v == "auto" or _is_count(v, LEAST_UPDATE_BITS),
        f"auto, or {LEAST_UPDATE_BITS} bits or more",
    ),
]
AutoOrCount = Annotated[
    Literal["auto"] | int,
    _one_of(lambda v: v == "auto" or _is_count(v), "auto, or a number of devices from 1"),
]
SeedBits = Annotated[int, _one_of(lambda v: _is_bits(v, 1), "a number of bits from 1 to 16, or 32")]
Precision = Annotated[int, _one_of(lambda v: _is_bits(v, 2), "32, or from 2 to 16")]
StepTimes = Annotated[float | tuple[float, ...], BeforeValidator(_as_step_times)]


class Section(BaseModel):
    """A group of fields that turns a validation error into one ``InputError``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(_describe(error, type(self))) from None


def _describe(error: ValidationError, section: type[Section]) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(part for part in first["loc"] if isinstance(part, str)) or section.__name__
    if first["type"] == "extra_forbidden":
        home = HOMES.get(field)
        hint = f"it belongs in [{home}]" if home else did_you_mean(field, section.model_fields)
        return f"{field}: no such field here; {hint}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    given = repr(first["input"])
    shown = given if len(given) <= LONGEST_SHOWN else f"{given[:LONGEST_SHOWN]}…"
    return f"{field} = {shown}: {message[0].lower()}{message[1:]}"
