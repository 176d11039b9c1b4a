"""Forecasts: windows of a series, splits by time, and simple predictions beside what is learned."""

from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.data import dataset_from_table

HOURS, DAY = 200, 24


def table(rng=None, hours: int = HOURS) -> dict[str, np.ndarray]:
    """Two buildings in any order of rows; the load repeats each day."""
    rng = rng or np.random.default_rng(0)
    hour = np.tile(np.arange(hours), 2)
    building = np.repeat(["a", "b"], hours)
    size = np.where(building == "a", 1.0, 3.0)
    load = 10 + size * np.sin(2 * np.pi * hour / DAY) + 0.05 * rng.normal(size=2 * hours)
    order = rng.permutation(2 * hours)
    made = {"hour": hour, "building": building, "load": load, "outside": 0.5 * load + hour}
    return {name: column[order] for name, column in made.items()}


FIELDS = {
    "target_column": ("load",), "time_column": "hour", "source_column": "building",
    "horizon": 3, "window": 12, "season": DAY, "standardise": "never",
}  # fmt: skip


def test_windows_end_where_they_are_predicted_from_and_tests_are_the_latest() -> None:
    columns = table()
    data = dataset_from_table(columns, **FIELDS)
    known = {
        (b, h): load
        for b, h, load in zip(*(columns[c] for c in ("building", "hour", "load")), strict=True)
    }
    assert data.sample_shape == (12, 2)
    assert data.feature_names == ("load", "outside")
    for part in ("train", "test"):
        inputs, targets = getattr(data, f"{part}_inputs"), getattr(data, f"{part}_targets")
        owners = getattr(data, f"{part}_sources")
        for window, target, owner in zip(inputs, targets, owners, strict=True):
            hours = np.rint(window[:, 1] - 0.5 * window[:, 0]).astype(int)
            assert np.array_equal(hours, hours[0] + np.arange(12))
            name, aim = data.source_names[owner], hours[-1] + 3
            assert target[0] == np.float32(known[name, aim])
            late = aim >= HOURS - 40
            assert late == (part == "test")
    last = data.test_inputs[:, -1, 0]
    np.testing.assert_array_equal(data.test_baselines["naive"][:, 0], last)
    owner, window = data.test_sources[0], data.test_inputs[0]
    hour = round(float(window[-1, 1] - 0.5 * window[-1, 0])) + 3 - DAY
    seasonal = data.test_baselines["seasonal naive"][0, 0]
    assert seasonal == np.float32(known[data.source_names[owner], hour])


def test_simple_predictions_stand_beside_every_protocol(tmp_path: Path, capsys) -> None:
    columns, file = table(), tmp_path / "load.csv"
    rows = zip(*columns.values(), strict=True)
    file.write_text("\n".join([",".join(columns), *(",".join(map(str, r)) for r in rows)]) + "\n")
    main(
        ["run", "--dataset", str(file), "--target-column", "load", "--time-column", "hour",
         "--source-column", "building", "--horizon", "3", "--season", "24", "--partition",
         "by-source", "--devices", "2", "--rounds", "2", "--local-steps", "400", "--link", "ideal",
         "--batch-size", "8", "--protocols", "fl", "statistics", "--out", str(tmp_path / "runs")]
    )  # fmt: skip
    shown = " ".join(capsys.readouterr().out.split())
    assert "naive" in shown
    assert "seasonal naive" in shown
    frame = mix2fld.load_runs(tmp_path / "runs", rows="runs")
    assert (frame["RMSE/mean"] < 1.5).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"horizon": 500}, "source 'a' has 200 rows; a window of 12, a horizon of 500 and a seaso"),
        ({"window": 190}, "need more, both for training and for the 40 latest rows"),
        ({"time_column": None}, "time_column: must be named with a horizon"),
        ({"target_column": ()}, "target_column: must be named with a horizon"),
        ({"source_column": None}, "has two rows of one time; name a source_column"),
        ({"split": "group", "group_column": "building"}, "must be time"),
    ],
)
def test_a_forecast_that_cannot_be_is_one_message(changed, words) -> None:
    columns = table()
    if "source_column" in changed:
        del columns["building"]
    with pytest.raises(InputError, match=words):
        dataset_from_table(columns, **{**FIELDS, **changed})
