"""Tables as datasets: files and frames, and one message for each thing that can be wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.config.settings import DataConfig
from mix2fld.data import fingerprint, load_dataset
from toys import toy_config


def a_frame(rows: int = 60) -> pd.DataFrame:
    """Three kinds of machine, whose speed tells them apart, logged by four people."""
    rng = np.random.default_rng(3)
    kind = np.arange(rows) % 3
    return pd.DataFrame(
        {
            "speed": 1000 + 50 * kind + rng.normal(size=rows),
            "label": np.array(["saw", "drill", "mill"])[kind],
            "on": rng.random(rows) < 0.5,
            "count": rng.integers(0, 9, rows),
            "who": np.array(["Ann", "Bo", "Cy", "Di"])[np.arange(rows) // 3 % 4],
        }
    )


FIELDS = {"source_column": "who"}


def assert_same(one: mix2fld.Dataset, other: mix2fld.Dataset) -> None:
    assert fingerprint(one) == fingerprint(other)
    assert one.samples == other.samples
    assert (one.label_names, one.source_names) == (other.label_names, other.source_names)


def test_a_frame_by_hand() -> None:
    frame = a_frame()
    data = mix2fld.dataset_from_table(frame, "machines", **FIELDS)
    assert data.name == "machines"
    assert data.label_names == ("drill", "mill", "saw")
    assert data.source_names == ("Ann", "Bo", "Cy", "Di")
    assert data.sample_shape == (3,)
    assert np.bincount(data.test_labels).tolist() == [4, 4, 4]
    assert len(data.train_labels) == 48
    # The rows to train with stay in the order of the table: find each by its speed.
    raw = data.train_inputs * np.array(data.std) + np.array(data.mean)
    rows = [int(np.argmin(np.abs(frame["speed"] - speed))) for speed in raw[:, 0]]
    assert rows == sorted(rows)
    held = frame.iloc[rows]
    assert [data.label_names[label] for label in data.train_labels] == held["label"].tolist()
    assert [data.source_names[one] for one in data.train_sources] == held["who"].tolist()
    columns = held[["speed", "on", "count"]].to_numpy(np.float64)
    np.testing.assert_allclose(data.mean, columns.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.std, columns.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.train_inputs.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(data.train_inputs.std(axis=0), 1, rtol=1e-6)


def test_every_kind_of_table_is_the_same_dataset(tmp_path: Path) -> None:
    frame = a_frame()
    table = pa.Table.from_pandas(frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.assign(on=frame["on"].astype(int)).to_csv(tmp_path / "s.csv", index=False, sep=";")
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, str(tmp_path / "t.feather"))
    expected = mix2fld.dataset_from_table(frame, **FIELDS)
    categories = frame.assign(label=frame["label"].astype("category"))
    for other in (
        table,
        pa.Table.from_pandas(categories),
        categories,
        {name: frame[name].tolist() for name in frame},
    ):
        assert_same(mix2fld.dataset_from_table(other, **FIELDS), expected)
    for name in ("t.csv", "s.csv", "t.parquet", "t.feather"):
        config = DataConfig(dataset=str(tmp_path / name), **FIELDS)
        assert_same(load_dataset(config), expected)


def test_a_split_column_and_labels_that_are_numbers() -> None:
    frame = a_frame().drop(columns="who")
    frame["label"] = frame["label"].map({"saw": 7, "drill": 3, "mill": 5})
    frame["part"] = ["test" if row % 6 < 3 else "Train" for row in range(len(frame))]
    data = mix2fld.dataset_from_table(frame, split_column="part", standardise="never")
    assert data.label_names == ("3", "5", "7")
    assert data.mean == ()
    np.testing.assert_array_equal(
        data.test_inputs[:, 0], frame["speed"][frame["part"] == "test"].astype(np.float32)
    )
    limited = mix2fld.dataset_from_table(frame, split_column="part", value_range=(-2, 2.5))
    assert limited.value_range == (-2, 2.5)


@given(st.integers(9, 60), st.floats(0.2, 0.95))
def test_every_label_is_trained_with_and_rows_are_used_once(rows: int, fraction: float) -> None:
    frame = a_frame(rows)[["speed", "label"]]
    data = mix2fld.dataset_from_table(frame, test_fraction=fraction, standardise="never")
    assert set(data.train_labels.tolist()) == {0, 1, 2}
    values = np.concatenate([data.train_inputs, data.test_inputs]).ravel()
    assert sorted(values) == sorted(frame["speed"].astype(np.float32))
    again = mix2fld.dataset_from_table(frame, test_fraction=fraction, standardise="never")
    assert fingerprint(again) == fingerprint(data)


def with_value(column: str, row: int, value: object) -> pd.DataFrame:
    frame = a_frame().astype({"on": object, "speed": object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("table", "fields", "words"),
    [
        (a_frame(), {"label_column": "labels"}, "label_column = 'labels': the table has no such"),
        (a_frame(), {"source_column": "whom"}, "did you mean 'who'"),
        (a_frame(), {}, "column 'who': has 'Ann', which is not a number"),
        (a_frame().assign(label="saw"), FIELDS, "has only the label 'saw'; must have at least two"),
        (a_frame().assign(label=0.5), FIELDS, "has the value 0.5; must be strings or integers. T"),
        (
            a_frame(300).assign(label=range(300)),
            FIELDS,
            "300 different integers; must be at most 100",
        ),
        (
            a_frame(300).assign(label=[f"{row / 2:.1f}".replace(".", ",") for row in range(300)]),
            FIELDS,
            "300 different numbers, such as '0,0'; must be at most 100. These seem to be numbers",
        ),
        (
            a_frame(300).assign(label=[f"{1000 + row:,}" for row in range(300)]),
            FIELDS,
            "300 different numbers, such as '1,000'; must be at most 100",
        ),
        (
            a_frame().assign(label=[0.0, np.inf] * 30),
            FIELDS,
            "label_column = 'label': has the value inf; must be strings or integers",
        ),
        (
            a_frame().assign(label=[1.0, 1e300] * 30),
            FIELDS,
            r"has the value 1e\+300; must be strings or integers",
        ),
        (with_value("speed", 7, np.nan), FIELDS, "column 'speed': row 7 is missing or not finite"),
        (with_value("on", 4, None), FIELDS, "column 'on': .*missing"),
        (with_value("label", 9, None), FIELDS, "label_column = 'label': row 9 has no value"),
        (a_frame().assign(count=4), FIELDS, "column 'count': is 4 in every training sample"),
        (a_frame()[["label", "who"]], FIELDS, "has no column of numbers beside the label"),
        (a_frame()[:0], FIELDS, "table: has no rows"),
        (a_frame()[:3], FIELDS, "test_fraction = 0.2: leaves none of 3 rows for testing"),
        (a_frame(), {**FIELDS, "split_column": "on"}, "must be train or test in every row"),
        (a_frame(), {**FIELDS, "value_range": (1, 0)}, r"value_range = \(1.0, 0.0\): must be two"),
        ([1, 2], {}, "table: list; must be a frame"),
        ({"label": [0, 1], "x": [1.0]}, {}, "not equally long"),
        ({"label": [0, 1], "x": [[1.0], [2.0]]}, {}, "column 'x': must be one column"),
        ({"label": [0, 1], "x": np.array(["2020-01-01"] * 2, "M8[D]")}, {}, "is not a number"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(table, fields, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        mix2fld.dataset_from_table(table, **fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "x,label\n1,a\n2\n", "line 3 has 1 values; the header has 2 names"),
        ("t.csv", "x,x\n1,a\n", "header with different names"),
        ("t.csv", "", "at least one row"),
        ("t.csv", "x,label\n1,a\n,b\n3,a\n", "column 'x': row 1 is missing"),
        ("t.csv", b"\xff\xfe\x00x", "cannot be read as a table"),
        ("t.csv", 'x,label\n"1,a\n', "cannot be read as a table"),
        ("t.parquet", b"PAR1 nothing", "cannot be read as a table"),
        ("t.feather", b"", "cannot be read as a table"),
        ("none.csv", None, "there is no such file"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, name, content, words, capsys) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as code:
        main(["run", "--dataset", str(path), "--out", str(tmp_path / "out")])
    assert code.value.code == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert str(path) in said
    assert not (tmp_path / "out").exists()


def test_long_integers_of_a_file_stay_apart(tmp_path: Path) -> None:
    """Numbers of parts or people often have more digits than a float64 tells apart."""
    numbers = [2**60 + row % 3 for row in range(60)]
    a_frame().assign(label=numbers).to_csv(tmp_path / "t.csv", index=False)
    data = load_dataset(DataConfig(dataset=str(tmp_path / "t.csv"), **FIELDS))
    assert data.label_names == tuple(str(2**60 + kind) for kind in range(3))


def test_names_that_have_digits_are_names() -> None:
    frame = a_frame(900).assign(label=[f"n{row % 150}" for row in range(900)])
    assert mix2fld.dataset_from_table(frame, **FIELDS).num_labels == 150


def test_pyarrow_is_named_where_it_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"pip install 'mix2fld\[frames\]'"):
        load_dataset(DataConfig(dataset=str(tmp_path / "t.parquet")))


def test_a_table_is_shown_and_learned_from(tmp_path: Path, capsys) -> None:
    frame = a_frame(240)
    frame.to_csv(tmp_path / "machines.csv", index=False)
    common = ["--dataset", str(tmp_path / "machines.csv"), "--source-column", "who"]
    main(["data", "show", *common, "--partition", "by-source", "--devices", "4"])
    shown = capsys.readouterr().out
    assert "samples: float32 [3] from" in shown
    assert "labels: 0 drill, 1 mill, 2 saw" in shown
    assert "devices: 0 Ann, 1 Bo, 2 Cy, 3 Di" in shown
    config = toy_config(
        protocol="mix2fld", dataset=str(tmp_path / "machines.csv"), source_column="who",
        partition="by-source", model="auto", rounds=2, local_steps=200, server_steps=200,
    )  # fmt: skip
    (result,) = mix2fld.run(config)
    assert result.summary["scores"]["global"] > 0.9


def machines(rows: int = 120) -> dict[str, np.ndarray]:
    """As it is found: a clock, a number, texts, and gaps."""
    rng = np.random.default_rng(4)
    rpm = rng.normal(1500, 90, rows)
    rpm[[3, 50]] = np.nan
    oil = np.array(["red", "blue", "", "red"], object)[np.arange(rows) % 4]
    return {
        "timestamp": np.array([f"2026-01-01T{row // 60:02}:{row % 60:02}" for row in range(rows)]),
        "id": np.arange(rows),
        "rpm": rpm,
        "oil": oil,
        "machine": np.array([f"m{row // 20}" for row in range(rows)]),
        "label": np.array(["worn", "new"])[np.arange(rows) % 2],
    }


CHOSEN = {"columns": ("rpm", "oil"), "one_hot_columns": ("oil",)}


def test_all_problems_of_a_table_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        mix2fld.dataset_from_table(machines(), source_column="pump")
    words = str(caught.value)
    assert words.startswith("5 problems: (1) source_column = 'pump'")
    for part in ("column 'timestamp': has '2026", "'rpm': row 3 is missing or not finite (2 rows)"):
        assert part in words
    assert "name it in one_hot_columns, or in ignore_columns" in words


def test_missing_values_are_filled_with_the_median_of_training_rows() -> None:
    table = machines()
    fields = {**CHOSEN, "split": "time", "time_column": "timestamp", "standardise": "never"}
    data = mix2fld.dataset_from_table(table, missing="median", **fields)
    assert data.feature_names == ("rpm", "oil=blue", "oil=red")
    median = np.float32(np.nanmedian(table["rpm"][:96]))  # the last fifth of 120 rows is tested
    assert data.train_inputs[3, 0] == data.train_inputs[50, 0] == median
    red = (table["oil"] != "blue").astype(np.float32)  # the commonest fills gaps
    np.testing.assert_array_equal(data.train_inputs[:, 2], red[:96])
    np.testing.assert_array_equal(data.test_inputs[:, 1], 1 - red[96:])


def test_rows_with_missing_values_are_dropped() -> None:
    table = machines()
    data = mix2fld.dataset_from_table(table, missing="drop", **CHOSEN)
    whole = ~np.isnan(table["rpm"]) & (table["oil"] != "")
    assert len(data.train_inputs) + len(data.test_inputs) == whole.sum()
    with pytest.raises(InputError, match="missing = drop: leaves no row"):
        mix2fld.dataset_from_table({**table, "rpm": np.full(120, np.nan)}, missing="drop", **CHOSEN)


def test_columns_are_ignored_by_name() -> None:
    table = {name: machines()[name] for name in ("id", "machine", "label")}
    data = mix2fld.dataset_from_table(table, ignore_columns=("machine",))
    assert data.feature_names == ("id",)
    with pytest.raises(InputError, match=r"ignore_columns = 'machin': .*did you mean 'machine'"):
        mix2fld.dataset_from_table(table, ignore_columns=("machin",))
    with pytest.raises(InputError, match="one_hot_columns = 'id': has 160 different values"):
        mix2fld.dataset_from_table(machines(200), columns=("id",), one_hot_columns=("id",))


@pytest.mark.parametrize(
    ("split", "column"),
    [("group", "group_column"), ("source", "source_column")],
)
def test_whole_groups_are_tested_with(split: str, column: str) -> None:
    """Six machines of 20 rows; none is on both sides, and their names are no values."""
    table, fields = machines(), {**CHOSEN, "missing": "median", "standardise": "never"}
    data = mix2fld.dataset_from_table(table, split=split, **{column: "machine"}, **fields)
    assert len(data.test_inputs) == 20
    tested = set(data.test_inputs[:, 0].tolist())
    own = [m for m in range(6) if table["rpm"][20 * m + 7].astype(np.float32) in tested]
    assert len(own) == 1
    if split == "source":
        assert set(data.test_sources.tolist()).isdisjoint(data.train_sources.tolist())


def test_the_latest_rows_of_each_source_are_tested_with() -> None:
    table, fields = machines(), {**CHOSEN, "missing": "median"}
    data = mix2fld.dataset_from_table(
        table, split="time", time_column="timestamp", source_column="machine", **fields
    )
    assert np.bincount(data.test_sources).tolist() == [4] * 6
    with pytest.raises(InputError, match="time_column: must be named with split = time"):
        mix2fld.dataset_from_table(table, split="time", **fields)


def test_a_random_split_of_neighbours_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    table, fields = machines(), {**CHOSEN, "missing": "median"}
    data = mix2fld.dataset_from_table(table, **fields)
    (note,) = data.notes
    assert "--split time --time-column timestamp or --split group --group-column machine" in note
    assert not mix2fld.dataset_from_table(
        table, split="group", group_column="machine", **fields
    ).notes
    mix2fld.run(
        mix2fld.Config.of(
            protocol="isolated", rounds=1, local_steps=2, devices=2, samples_per_device=10,
            partition="iid",
        ),
        dataset=data,
    )  # fmt: skip
    assert "neighbours of a test row are trained with" in capsys.readouterr().err
