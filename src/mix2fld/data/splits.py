"""Which rows of a table are tested with, and whether the others tell too much of them."""

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.data import DataConfig
from mix2fld.data.columns import Columns, find_column
from mix2fld.data.times import order_of

SPLITS = ("train", "test")
OF_TIME = ("time", "timestamp", "date", "datetime", "ts", "second", "seconds")
OF_GROUPS = ("session", "recording", "trial", "subject", "person", "machine", "device")
"""Names of columns that say which rows are neighbours."""


def leaks(columns: Columns, config: DataConfig) -> tuple[str, ...]:
    """What to say of a random split of rows that are neighbours in time, or of one group."""
    if config.split_column is not None or config.split != "random":
        return ()
    named = {name.lower(): name for name in columns}
    times = config.time_column or next((named[n] for n in OF_TIME if n in named), None)
    groups = config.group_column or next((named[n] for n in OF_GROUPS if n in named), None)
    found = []
    if times is not None:
        found.append(f"--split time --time-column {times}")
    if groups is not None:
        found.append(f"--split group --group-column {groups}")
    if not found:
        return ()
    return (
        "test rows are drawn at random, so that neighbours of a test row are trained with; if "
        f"they are alike, accuracy is too high: {' or '.join(found)} keeps them apart",
    )


def _latest(columns: Columns, config: DataConfig) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The latest rows of each source are tested with, in the order of the time column."""
    if config.time_column is None:
        raise InputError(field="time_column", hint="must be named with split = time")
    times = find_column("time_column", config.time_column, columns)
    moments = order_of(config.time_column, times)
    sources = np.zeros(len(moments), np.int64)
    if config.source_column is not None:
        own = find_column("source_column", config.source_column, columns)
        sources = np.unique(own, return_inverse=True)[1]
    late = []
    for source in np.unique(sources):
        rows = np.flatnonzero(sources == source)
        ordered = rows[np.argsort(moments[rows], kind="stable")]
        late.append(ordered[len(ordered) - round(config.test_fraction * len(ordered)) :])
    return _apart(np.concatenate(late), len(moments), config)


def _unseen(columns: Columns, config: DataConfig) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole groups, or whole sources, are tested with: always the same ones."""
    field = f"{config.split}_column"
    name = getattr(config, field)
    if name is None:
        raise InputError(field=field, hint=f"must be named with split = {config.split}")
    kinds, groups = np.unique(
        [str(value) for value in find_column(field, name, columns).tolist()], return_inverse=True
    )
    count = max(1, round(config.test_fraction * len(kinds)))
    chosen = stream(0, "test-rows").permutation(len(kinds))[:count]
    return _apart(np.flatnonzero(np.isin(groups, chosen)), len(groups), config)


def _apart(
    test: NDArray[np.int64], rows: int, config: DataConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not 0 < len(test) < rows:
        raise InputError(
            field="test_fraction",
            value=f"{config.test_fraction:g}",
            hint=f"leaves {len(test)} of {rows} rows for testing with split = {config.split}",
        )
    return np.setdiff1d(np.arange(rows), test), np.sort(test)


def split_rows(
    columns: Columns, labels: NDArray[np.int32], config: DataConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to train and to test with."""
    if config.split_column is None:
        match config.split:
            case "random":
                return _drawn_split(labels, config.test_fraction)
            case "time":
                return _latest(columns, config)
            case _:
                return _unseen(columns, config)
    column = find_column("split_column", config.split_column, columns)
    said = np.array([str(value).strip().lower() for value in column.tolist()])
    other = ~np.isin(said, SPLITS)
    if other.any() or len(set(said.tolist())) < 2:
        raise InputError(
            field="split_column",
            value=f"{config.split_column!r}",
            hint=f"row {int(np.argmax(other))} has "
            f"{str(column[np.argmax(other)])!r}; must be train or test in every row, both at "
            "least once",
        )
    return np.flatnonzero(said == "train"), np.flatnonzero(said == "test")


def _drawn_split(
    labels: NDArray[np.int32], fraction: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same part of every label for testing, always the same rows; one row stays at least."""
    rng = stream(0, "test-rows")
    tested = []
    for label in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == label)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        tested.append(rng.permutation(rows)[:count])
    test = rng.permutation(np.concatenate(tested))
    if not len(test):
        raise InputError(
            field="test_fraction",
            value=f"{fraction:g}",
            hint=f"leaves none of {len(labels)} rows for testing",
        )
    return np.setdiff1d(np.arange(len(labels)), test), test
