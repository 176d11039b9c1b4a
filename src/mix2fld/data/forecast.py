"""Series in a table as samples: a window of the past, and the numbers some rows ahead.

Tests are the latest rows of each source, never random ones. Beside what is learned stand two simple
predictions: the last value (naive), and the value a season before (seasonal naive).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.data import DataConfig
from mix2fld.data.columns import Column, encode, numbers
from mix2fld.data.times import order_of

Floats = NDArray[np.float32]


class WindowedSeries(NamedTuple):
    """Windows of all sources, and what follows them."""

    inputs: Floats  # [n, window, C]
    targets: Floats  # [n, T]
    tested: NDArray[np.bool_]  # [n]
    sources: NDArray[np.int64]  # [n]
    simple: Mapping[str, Floats]
    """Simple predictions by name, [n, T]."""


class SeriesColumns(NamedTuple):
    """How a table of series becomes windows."""

    targets: tuple[str, ...]
    time: str
    source: str | None
    window: int
    horizon: int

    def latest(
        self, columns: Mapping[str, NDArray[Any]], coded: Sequence[Column]
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The window that ends with each row, and these rows: those with enough rows before."""
        for name in (*self.targets, self.time, *([self.source] if self.source else [])):
            if name not in columns:
                raise InputError(f"table: has no column {name!r}, which the model was trained on")
        past = [numbers(name, columns[name]) for name in self.targets]
        values = np.column_stack([*past, *([encode(columns, coded)] if coded else [])])
        found = []
        for rows in self._series(columns):
            ends = np.arange(self.window - 1, len(rows))
            found.append(rows[ends[:, None] + np.arange(1 - self.window, 1)])
        places = np.concatenate(found)
        if not len(places):
            raise InputError(f"table: no series has the {self.window} rows of a window")
        places = places[np.argsort(places[:, -1])]
        return values[places].astype(np.float32), places[:, -1]

    def later(
        self, columns: Mapping[str, NDArray[Any]], target: NDArray[Any]
    ) -> NDArray[np.float64]:
        """What a column is ``horizon`` rows after each row of its series; NaN where none is."""
        found = np.full(len(target), np.nan)
        for rows in self._series(columns):
            found[rows[: -self.horizon]] = target[rows[self.horizon :]]
        return found

    def _series(self, columns: Mapping[str, NDArray[Any]]) -> Iterator[NDArray[np.int64]]:
        """The rows of each series, the earliest first."""
        order = order_of(self.time, columns[self.time])
        owners = columns[self.source].astype(str) if self.source else np.zeros(len(order), str)
        for source in np.unique(owners):
            rows = np.flatnonzero(owners == source)
            yield rows[np.argsort(order[rows], kind="stable")]


def check_no_forecast(config: DataConfig) -> None:
    """Refuse settings of a forecast without a horizon."""
    for name in ("window", "season"):
        value = getattr(config, name)
        if value != DataConfig.model_fields[name].default:
            raise InputError(
                field=name, value=value, hint="is of a forecast; name its horizon, such as 1"
            )


def tested_on(config: DataConfig) -> tuple[str, ...]:
    """What to say where nobody asked for a split by time."""
    if config.split == "time":
        return ()
    share = f"{100 * config.test_fraction:g} %"
    return (f"a forecast is tested on the latest {share} of each source's rows: split = time",)


def check_forecast(config: DataConfig) -> None:
    """Refuse settings that describe no forecast."""
    if not config.target_column:
        raise InputError(field="target_column", hint="must be named with a horizon")
    if config.time_column is None:
        raise InputError(field="time_column", hint="must be named with a horizon")
    if config.split_column is not None or config.split not in ("random", "time"):
        raise InputError(
            field="split",
            value=config.split_column or config.split,
            hint="a forecast is tested on the latest rows of each source; must be time",
        )


def windows_of(
    values: NDArray[Any],
    targets: NDArray[Any],
    moments: NDArray[Any],
    sources: NDArray[np.integer] | None,
    config: DataConfig,
    names: Sequence[str],
) -> WindowedSeries:
    """The windows of a table with values [rows, C] and targets [rows, T]."""
    owners = np.zeros(len(values), np.int64) if sources is None else sources
    order = order_of(config.time_column or "", moments)
    found = []
    for source in np.unique(owners):
        rows = np.flatnonzero(owners == source)
        rows = rows[np.argsort(order[rows], kind="stable")]
        if len(np.unique(order[rows])) < len(rows):
            raise InputError(
                field="time_column",
                value=config.time_column,
                hint=f"{_named(source, names)} has two rows of one time; name a source_column "
                "that tells series apart",
            )
        found.append(_of_source(values, targets, rows, int(source), config, names))
    inputs, aims, tested, whose, simple = zip(*found, strict=True)
    predicted = {name: np.concatenate([one[name] for one in simple]) for name in simple[0]}
    return WindowedSeries(
        np.concatenate(inputs),
        np.concatenate(aims),
        np.concatenate(tested),
        np.concatenate(whose),
        predicted,
    )


def _of_source(
    values: NDArray[Any],
    targets: NDArray[Any],
    rows: NDArray[np.int64],
    source: int,
    config: DataConfig,
    names: Sequence[str],
) -> WindowedSeries:
    window, horizon, season = config.window, config.horizon, config.season
    back = -(-horizon // season) * season if season else 0
    first = max(window, back - horizon + 1)  # rows before what is predicted from
    count = len(rows) - first - horizon + 1
    tests = round(config.test_fraction * len(rows))
    if count < 2 or not 0 < tests < count:
        raise InputError(
            field="horizon",
            value=horizon,
            hint=f"{_named(source, names)} has {len(rows)} rows; a window of {window}, a horizon "
            f"of {horizon}{f' and a season of {season}' if season else ''} need more, both for "
            f"training and for the {tests} latest rows to test with",
        )
    last = first - 1 + np.arange(count)  # of each window
    places = last[:, None] + np.arange(1 - window, 1)
    simple = {"naive": targets[rows[last]]}
    if season:
        simple["seasonal naive"] = targets[rows[last + horizon - back]]
    return WindowedSeries(
        values[rows[places]].astype(np.float32),
        targets[rows[last + horizon]],
        last + horizon >= len(rows) - tests,
        np.full(count, source),
        simple,
    )


def _named(source: int, names: Sequence[str]) -> str:
    return f"source {names[source]!r}" if names else "the series"
