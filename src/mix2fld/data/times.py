"""A column of times as an order: numbers, dates of a frame, or texts of ISO 8601."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError

EXAMPLE = "2024-01-25T13:00:00"


def order_of(name: str, column: NDArray[Any]) -> NDArray[np.int64]:
    """The place [n] of each time among all; raises ``InputError`` for what has no order in time."""
    if column.dtype.kind in "biufM":
        missing = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
        moments: Any = column
    else:
        values = column.tolist()
        missing = np.array([value in (None, "") or str(value) == "nan" for value in values])
        moments = np.array(_moments(name, values)) if not missing.any() else column
    if missing.any():
        raise InputError(
            field="time_column", value=name, hint=f"row {int(missing.argmax())} has no time"
        )
    order: NDArray[np.int64] = np.unique(moments, return_inverse=True)[1]
    return order


def _moments(name: str, values: list[Any]) -> list[Any]:
    """Numbers as they are; texts and dates as seconds."""
    if all(isinstance(value, (int, float)) for value in values):
        return values
    times = []
    for row, value in enumerate(values):
        try:
            times.append(value if isinstance(value, datetime) else datetime.fromisoformat(value))
        except (TypeError, ValueError):
            raise InputError(
                field="time_column",
                value=name,
                hint=f"row {row} has {str(value)[:40]!r}, whose order in time is not known; must "
                f"be numbers, or ISO 8601 such as {EXAMPLE}",
            ) from None
    if len({time.tzinfo is None for time in times}) > 1:
        raise InputError(
            field="time_column", value=name, hint="has times with an offset from UTC, and without"
        )
    return [time.replace(tzinfo=time.tzinfo or UTC).timestamp() for time in times]
