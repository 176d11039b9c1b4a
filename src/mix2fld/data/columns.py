"""Columns of a table as the values of samples: numbers, and texts as one value for each kind."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError, did_you_mean
from mix2fld.config.data import DataConfig

Columns = Mapping[str, NDArray[Any]]
MOST_KINDS = 100
"""Different values of a column that becomes one value for each of them."""


class Column(NamedTuple):
    """A column of a table, and how it becomes values of a sample."""

    name: str
    kinds: tuple[str, ...] = ()
    """Of a column of texts: a value for each, which is 1 or 0."""
    fill: float | str | None = None
    """What stands for a missing value; None: there must be none."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that its values become."""
        return tuple(f"{self.name}={kind}" for kind in self.kinds) or (self.name,)


class Problems:
    """What is wrong with a table: all of it is said in one message."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Go on after the block, whatever is wrong in it."""
        try:
            yield
        except Mix2fldError as error:
            self._found.append(str(error))

    def check(self) -> None:
        """Raise one ``InputError`` with all problems, if there are any."""
        if len(self._found) == 1:
            raise InputError(self._found[0])
        if self._found:
            listed = "; ".join(f"({n}) {one}" for n, one in enumerate(self._found, start=1))
            raise InputError(f"{len(self._found)} problems: {listed}")


def chosen_columns(columns: Columns, config: DataConfig, special: set[str | None]) -> list[str]:
    """The columns that are values of a sample: those named, or all that are nothing else."""
    named = {
        field: getattr(config, field) for field in ("columns", "ignore_columns", "one_hot_columns")
    }
    for field, names in named.items():
        for name in names:
            if name not in columns:
                raise InputError(
                    field=field,
                    value=repr(name),
                    hint=f"the table has no such column; {did_you_mean(name, columns)}",
                )
    wanted = config.columns or [name for name in columns if name not in special]
    return [name for name in wanted if name not in config.ignore_columns]


def rows_without_gaps(columns: Columns, names: Sequence[str]) -> NDArray[np.bool_]:
    """The rows in which none of these columns is missing."""
    gaps = [_missing(columns[name]) for name in names]
    return ~np.any(gaps, axis=0)


def find_column(field: str, name: str, columns: Columns) -> NDArray[Any]:
    """The column that a setting names; raises ``InputError`` if there is none."""
    if name not in columns:
        hint = f"the table has no such column; {did_you_mean(name, columns)}"
        raise InputError(field=field, value=f"{name!r}", hint=hint)
    return columns[name]


def fit_column(
    name: str, column: NDArray[Any], config: DataConfig, train: NDArray[np.int64]
) -> Column:
    """How a column is encoded; what fills gaps is that of the training rows."""
    gone, fill = _missing(column), config.missing == "median"
    if name in config.one_hot_columns:
        texts = np.array([_text(value) for value in column.tolist()], object)
        kinds, counts = np.unique(texts[train][~gone[train]], return_counts=True)
        if not 2 <= len(kinds) <= MOST_KINDS:
            raise InputError(
                field="one_hot_columns",
                value=repr(name),
                hint=f"has {len(kinds):,} different values; must be from 2 to {MOST_KINDS}",
            )
        common = str(kinds[counts.argmax()])
        return Column(name, tuple(kinds.tolist()), common if fill else None)
    values = numbers(name, column, gaps=fill)
    if not fill:
        return Column(name)
    if np.isnan(values[train]).all():
        raise InputError(f"column {name!r}: is missing in every training row; ignore it")
    return Column(name, fill=float(np.nanmedian(values[train])))


def encode(columns: Columns, coded: Sequence[Column]) -> NDArray[np.float64]:
    """Samples [n, F] of these columns of a table, in this order; all problems in one message."""
    found, problems = [], Problems()
    for column in coded:
        with problems.noted():
            if column.name not in columns:
                raise InputError(
                    f"table: has no column {column.name!r}, which the model was trained on; "
                    f"{did_you_mean(column.name, columns)}"
                )
            found += _encoded(column, columns[column.name])
    problems.check()
    return np.stack(found, axis=1)


def _encoded(column: Column, values: NDArray[Any]) -> list[NDArray[np.float64]]:
    if not column.kinds:
        given = numbers(column.name, values, gaps=column.fill is not None)
        return [given if column.fill is None else np.where(np.isnan(given), column.fill, given)]
    texts = [
        column.fill if gone else _text(value)
        for value, gone in zip(values.tolist(), _missing(values), strict=True)
    ]
    for row, text in enumerate(texts):
        if text not in column.kinds:
            raise InputError(
                f"column {column.name!r}: row {row} "
                + ("is missing; set missing = drop or median" if text is None else f"has {text!r}")
                + ("" if text is None else f"; known are {', '.join(column.kinds[:8])}")
            )
    return [np.array([float(text == kind) for text in texts]) for kind in column.kinds]


def numbers(name: str, column: NDArray[Any], *, gaps: bool = False) -> NDArray[np.float64]:
    """A column of numbers; with ``gaps``, missing ones are NaN."""
    values = [
        None if gone else v for v, gone in zip(column.tolist(), _missing(column), strict=True)
    ]
    wrong = next((v for v in values if not isinstance(v, (int, float, type(None)))), None)
    if column.dtype.kind not in "biufO" or wrong is not None:
        raise InputError(
            f"column {name!r}: has {str(column[0] if wrong is None else wrong)[:40]!r}, which is "
            "not a number; name it in one_hot_columns, or in ignore_columns"
        )
    found = np.array([np.nan if value is None else value for value in values], np.float64)
    bad = np.isinf(found) if gaps else ~np.isfinite(found)
    if bad.any():
        more = f" ({bad.sum():,} rows)" if bad.sum() > 1 else ""
        raise InputError(
            f"column {name!r}: row {int(bad.argmax())} is missing or not finite{more}; "
            "set missing = drop or median"
        )
    return found


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), np.bool_)
    return np.array([_is_gap(value) for value in column.tolist()])


def _is_gap(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and np.isnan(value).item())


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
