"""What every section of the config is made of. This module imports no JAX."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mix2fld.errors import InputError, did_you_mean

LONGEST_SHOWN = 80
HOMES: dict[str, str] = {}
"""Every field with its section, once the config is known; empty for the top level."""


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, (str, int, float)) else value


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


Listed = BeforeValidator(_as_tuple)
AsNumber = BeforeValidator(_as_number)
LARGEST = 2**63 - 1
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveFloat = Annotated[float, Field(gt=0)]


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
