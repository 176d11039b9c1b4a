"""A table as a dataset: a row is a sample, numeric columns are its values, one column its label."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.config.settings import DataConfig
from mix2fld.data.bins import bin_edges, bins_of
from mix2fld.data.columns import (
    Column,
    Problems,
    chosen_columns,
    encode,
    find_column,
    fit_column,
    numbers,
    rows_without_gaps,
)
from mix2fld.data.forecast import (
    SeriesColumns,
    check_forecast,
    check_no_forecast,
    tested_on,
    windows_of,
)
from mix2fld.data.samples import channel_statistics, standardise
from mix2fld.data.splits import leaks, split_rows
from mix2fld.dataset import Dataset

Columns = dict[str, NDArray[Any]]
_WORDS = {"": "nan", "false": "0", "true": "1"}


def dataset_from_table(table: Any, name: str = "table", **fields: Any) -> Dataset:
    """A dataset from a pandas or Polars frame, an Arrow table or a dict of columns.

    ``fields`` are those of ``DataConfig`` that concern tables: ``label_column``,
    ``source_column``, ``split_column``, ``split``, ``test_fraction``, ``columns``, ``missing``,
    ``standardise`` and others.
    """
    return _dataset(name, columns_of(table), DataConfig(**fields))


def read_table_file(path: Path, config: DataConfig) -> Dataset:
    """The dataset in a .csv, .parquet, .feather or .arrow file."""
    if not path.is_file():
        raise InputError(field="dataset", value=path, hint="there is no such file")
    try:
        return _dataset(path.stem, read_columns(path), config)
    except Mix2fldError as error:
        raise InputError(field="dataset", value=path, hint=f"{error}") from None


def read_columns(path: Path) -> Columns:
    """The columns of a table file by name."""
    return _read_csv(path) if path.suffix == ".csv" else _read_arrow(path)


def columns_of(table: Any) -> Columns:
    """The columns of a table by name, whatever library it is of."""
    if isinstance(table, Mapping):
        named: Iterable[tuple[Any, Any]] = table.items()
    elif hasattr(table, "column_names"):  # Arrow
        named = zip(table.column_names, map(_decoded, table.columns), strict=True)
    elif hasattr(table, "columns"):  # pandas, Polars
        named = ((name, table[name]) for name in table.columns)
    else:
        raise InputError(
            field="table",
            hint=f"{type(table).__name__}; must be a frame, an Arrow table or a dict of columns",
        )
    columns: Columns = {}
    for name, values in named:
        array = np.asarray(values)
        if str(name) in columns or array.ndim != 1:
            raise InputError(f"column {str(name)!r}: must be one column of single values")
        columns[str(name)] = array
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(field="table", hint="its columns are not equally long")
    if not columns or not len(next(iter(columns.values()))):
        raise InputError(field="table", hint="has no rows")
    return columns


def _decoded(column: Any) -> Any:
    """An Arrow column with the values that a dictionary stands for."""
    if str(column.type).startswith("dictionary"):
        column = column.cast(column.type.value_type)
    return column.to_numpy(zero_copy_only=False)


def _read_csv(path: Path) -> Columns:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = file.readline()
            separator = max(",;\t", key=head.count)
            file.seek(0)
            rows = csv.reader(file, delimiter=separator, strict=True)
            header = next(rows, [])
            lines = [(rows.line_num, row) for row in rows if row]
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a table ({error})") from None
    for number, row in lines:
        if len(row) != len(header):
            raise InputError(
                f"line {number} has {len(row)} values; the header has {len(header)} names"
            )
    if not lines or len(set(header)) < len(header):
        raise InputError("must have a header with different names, and at least one row below it")
    columns = zip(*(row for _, row in lines), strict=True)
    return {name: _parsed(column) for name, column in zip(header, columns, strict=True)}


def _parsed(texts: tuple[str, ...]) -> NDArray[Any]:
    """A column of a text file: numbers or truth values if all are, NaN for blanks; else texts."""
    plain = [_WORDS.get(text.strip().lower(), text) for text in texts]
    for kind in (np.int64, np.float64):  # integers first: a float64 has 16 digits
        try:
            return np.array(plain, kind)
        except (ValueError, OverflowError):
            continue
    return np.array(texts, object)


def _read_arrow(path: Path) -> Columns:
    try:
        import pyarrow as pa
        from pyarrow import feather, parquet
    except ImportError:
        raise InputError(
            f"{path.suffix} files need pyarrow; install it with: pip install 'mix2fld[frames]'"
        ) from None
    try:
        read = parquet.read_table if path.suffix == ".parquet" else feather.read_table
        table = read(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as a table ({str(error).splitlines()[0]})") from None
    return columns_of(table)


def _dataset(name: str, columns: Columns, config: DataConfig) -> Dataset:
    if config.horizon:
        return _forecast(name, columns, config)
    check_no_forecast(config)
    problems = Problems()
    known = config.target_column or (config.label_column,)
    roles = (*known, config.source_column, config.split_column)
    order = (config.time_column, config.group_column)
    features: list[str] = []
    with problems.noted():
        features = chosen_columns(columns, config, {*roles, *order})
    if config.missing == "drop":
        needed = [*features, *(role for role in (*roles, *order) if role in columns and role)]
        columns = _complete(columns, needed)
    labels, label_names = np.zeros(0, np.int32), tuple[str, ...]()
    targets: NDArray[np.float32] | None = None
    with problems.noted():
        if config.target_column:
            targets = _targets(columns, config.target_column)
            labels = bins_of(targets, bin_edges(targets))
        else:
            labels, label_names = _labels(columns, config)
    sources: NDArray[np.int32] | None = None
    source_names: tuple[str, ...] = ()
    if config.source_column is not None:
        with problems.noted():
            sources, source_names = _classes("source_column", config.source_column, columns)
    if not len(labels):  # without labels, no rows can be held out
        everything = np.arange(len(next(iter(columns.values()))))
        _fitted(columns, features, config, everything, problems)
        problems.check()
    if not features:
        problems.check()
        raise InputError(field="table", hint="has no column of numbers beside the label")
    train, test = np.zeros(0, np.int64), np.zeros(0, np.int64)
    with problems.noted():
        train, test = split_rows(columns, labels, config)
        _check_trained(labels, label_names, train)
    coded = _fitted(columns, features, config, train, problems)
    problems.check()
    inputs: NDArray[Any] = encode(columns, coded)
    names = tuple(feature for column in coded for feature in column.features)
    fields: dict[str, Any] = {}
    if config.standardise != "never":
        mean, std = channel_statistics(inputs[train], [f"column {key!r}" for key in names])
        inputs, fields = standardise(inputs, mean, std), {"mean": mean, "std": std}
    if targets is None:
        fields |= {"train_labels": labels[train], "test_labels": labels[test]}
    else:
        fields |= {"train_targets": targets[train], "test_targets": targets[test]}
    return Dataset(
        name, inputs[train], test_inputs=inputs[test], num_labels=len(label_names),
        value_range=config.value_range,
        train_sources=None if sources is None else sources[train],
        test_sources=None if sources is None else sources[test],
        label_names=label_names,
        source_names=source_names,
        feature_names=names,
        columns=tuple(coded),
        notes=leaks(columns, config),
        **fields,
    )  # fmt: skip


def _forecast(name: str, columns: Columns, config: DataConfig) -> Dataset:
    """Windows of the past with the target some rows ahead; its own past is among their values."""
    check_forecast(config)
    assert config.time_column is not None
    moments = find_column("time_column", config.time_column, columns)
    targets, problems = _targets(columns, config.target_column), Problems()
    roles = {*config.target_column, config.time_column, config.source_column, config.group_column}
    rows = np.arange(len(targets))
    coded = _fitted(columns, chosen_columns(columns, config, roles), config, rows, problems)
    problems.check()
    sources: NDArray[np.int32] | None = None
    source_names: tuple[str, ...] = ()
    if config.source_column is not None:
        sources, source_names = _classes("source_column", config.source_column, columns)
    others = [encode(columns, coded)] if coded else []
    values = np.concatenate([targets, *others], axis=1)
    names = (*config.target_column, *(feature for one in coded for feature in one.features))
    series = windows_of(values, targets, moments, sources, config, source_names)
    test, train = series.tested, ~series.tested
    inputs, fields = series.inputs, dict[str, Any]()
    if config.standardise != "never":
        mean, std = channel_statistics(inputs[train], [f"column {key!r}" for key in names])
        inputs, fields = standardise(inputs, mean, std), {"mean": mean, "std": std}
    if sources is not None:
        owners = series.sources.astype(np.int32)
        fields |= {"train_sources": owners[train], "test_sources": owners[test]}
    return Dataset(
        name, inputs[train], test_inputs=inputs[test],
        train_targets=series.targets[train], test_targets=series.targets[test],
        test_baselines={key: found[test] for key, found in series.simple.items()},
        value_range=config.value_range, source_names=source_names, feature_names=names,
        columns=tuple(coded), notes=tested_on(config),
        series=SeriesColumns(
            config.target_column, config.time_column, config.source_column, config.window,
            config.horizon,
        ),
        **fields,
    )  # fmt: skip


def _labels(columns: Columns, config: DataConfig) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The label of each row, and the names of all."""
    labels, names = _classes(LABEL_COLUMN, config.label_column, columns)
    if len(names) < 2:
        raise InputError(
            field="label_column",
            value=f"{config.label_column!r}",
            hint=f"has only the label {names[0]!r}; must have at least two",
        )
    return labels, names


def _targets(columns: Columns, names: Sequence[str]) -> NDArray[np.float32]:
    """The numbers to predict [n, T]."""
    found = []
    for name in names:
        column = numbers(name, find_column("target_column", name, columns))
        if column.min() == column.max():
            raise InputError(
                field="target_column",
                value=name,
                hint=f"is {column[0]:g} in every row; nothing is to learn",
            )
        found.append(column)
    return np.stack(found, axis=1).astype(np.float32)


def _complete(columns: Columns, names: Sequence[str]) -> Columns:
    """The rows of a table in which nothing is missing."""
    kept = rows_without_gaps(columns, names)
    if not kept.any():
        raise InputError(field="missing", value="drop", hint="leaves no row")
    return {name: column[kept] for name, column in columns.items()}


def _fitted(
    columns: Columns,
    names: Sequence[str],
    config: DataConfig,
    train: NDArray[np.int64],
    problems: Problems,
) -> list[Column]:
    """How each column is encoded, as far as nothing is wrong with it."""
    coded = []
    for name in names:
        with problems.noted():
            coded.append(fit_column(name, columns[name], config, train))
            encode(columns, coded[-1:])
    return coded


LABEL_COLUMN = "label_column"
MOST_NUMBERS = 100
"""Different numbers in a column of labels; more of them are numbers to predict."""
EXACT = 2.0**53
"""Up to here a float64 stands for one integer."""
_NO_REGRESSION = (
    ". These seem to be numbers to predict: name the column with --target-column, or put them into "
    "classes, such as ranges; if they are names, write them as text such as n17"
)


def _classes(field: str, name: str, columns: Columns) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """A column as numbers 0, 1, ... in the sorted order of its values, and these values."""
    column = find_column(field, name, columns)
    if column.dtype.kind not in "biuf":
        texts = [value if isinstance(value, str) else None for value in column.tolist()]
        column = np.array(texts, object) if any(texts) else numbers(name, column)
    missing = [row for row, value in enumerate(column.tolist()) if value is None or _is_nan(value)]
    if missing:
        raise InputError(
            f"{field} = {name!r}: row {missing[0]} has no value, or one that is not a string"
        )
    if column.dtype.kind == "f":
        other = column[(column != np.rint(column)) | (np.abs(column) > EXACT)]
        if len(other):
            raise InputError(
                f"{field} = {name!r}: has the value {other[0]:g}; must be strings or integers"
                f"{_NO_REGRESSION if field == LABEL_COLUMN else ''}"
            )
        column = column.astype(np.int64)
    kinds, numbered = np.unique(column, return_inverse=True)
    if field == LABEL_COLUMN and len(kinds) > MOST_NUMBERS:
        _check_names(name, kinds)
    return numbered.astype(np.int32), tuple(str(kind) for kind in kinds.tolist())


def _check_names(name: str, kinds: NDArray[Any]) -> None:
    """Refuse so many labels if they are numbers, whatever marks their decimals or thousands."""
    found = "integers"
    if kinds.dtype.kind == "O":
        found = f"numbers, such as {str(kinds[0])!r}"
        try:
            for kind in kinds.tolist():
                float(kind.replace(",", "").replace(" ", ""))
        except ValueError:
            return
    raise InputError(
        f"{LABEL_COLUMN} = {name!r}: has {len(kinds):,} different {found}; must be at most "
        f"{MOST_NUMBERS}{_NO_REGRESSION}"
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value).item()


def _check_trained(
    labels: NDArray[np.int32], names: tuple[str, ...], train: NDArray[np.int64]
) -> None:
    missing = np.setdiff1d(np.arange(len(names)), labels[train])
    if len(missing):
        raise InputError(f"label {names[missing[0]]!r}: has no row left for training")
