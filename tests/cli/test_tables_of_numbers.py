"""Every command on a table of numbers."""

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from deploy.mqtt_lab import needs_mosquitto
from mix2fld.cli import main
from mix2fld.runs.reader import read_run


def write_rows(path: Path, header: list[str], rows) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(rows)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A number that two columns determine."""
    drawn = np.random.default_rng(0).normal(size=(400, 2))
    return write_rows(
        tmp_path / "load.csv", ["a", "b", "load"],
        ([a, b, 30 * a - 12 * b + 100] for a, b in drawn),
    )  # fmt: skip


def flags(table: Path, *more: str) -> list[str]:
    return [
        *("--dataset", str(table), "--target-column", "load"),
        *("--partition", "iid", "--devices", "3", "--samples-per-device", "80", "--rounds", "1"),
        *("--local-steps", "40", "--model", "linear", *more),
    ]


def test_a_sweep_runs_on_numbers(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    grid = flags(table, "--protocols", "fl", "murmur", "--learning-rate", "0.01", "0.03")
    main(["sweep", *grid, "--out", str(out), "--workers", "1", "--link", "ideal"])
    found = sorted(out.rglob("summary.json"))
    assert len(found) == 4
    assert {json.loads(file.read_text())["scores"]["metric"]["name"] for file in found} == {"RMSE"}
    main(["sweep", *grid, "--out", str(out), "--workers", "1", "--link", "ideal"])  # nothing is new


def test_a_sweep_names_a_protocol_of_labels(table: Path, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", *flags(table, "--protocols", "fl", "cfd"), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "cfd: needs labels, and the task regression has none" in capsys.readouterr().err


@needs_mosquitto
def test_numbers_are_deployed_over_mqtt(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "mqtt"
    main(["deploy", "mqtt", *flags(table, "--protocols", "fl"), "--out", str(out)])
    assert read_run(out / "fl-s0").rounds[-1]["uploads"]["delivered"] == 3


@pytest.mark.long
def test_numbers_are_deployed_over_flower(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "local"
    main(
        [
            "deploy",
            "local",
            *flags(table, "--columns", "b", "a"),
            "--protocols",
            "fl",
            "--out",
            str(out),
        ]
    )
    assert read_run(out / "fl-s0").rounds[-1]["uploads"]["delivered"] == 3


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return " ".join(said.split())


def test_one_bin_is_refused_by_name(tmp_path: Path, capsys) -> None:
    drawn = np.random.default_rng(0).normal(size=(400, 2))
    rows = ([a, b, 0.0 if n % 20 else a] for n, (a, b) in enumerate(np.abs(drawn)))
    skew = write_rows(tmp_path / "skew.csv", ["a", "b", "load"], rows)
    said = refused(capsys, "run", *flags(skew, "--protocols", "fd", "--out", str(tmp_path / "r")))
    assert "fd: needs bins of the target, and target_bins finds one" in said
    main(["run", *flags(skew, "--protocols", "fl", "--out", str(tmp_path / "r"))])


def test_bins_are_shown_with_their_edges(table: Path, capsys) -> None:
    main(["data", "show", *flags(table)[:10], "--target-bins", "4"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Bin distribution: training samples by device" in said
    assert "bins of the target: 0 below " in said
    assert " or more" in said
    main(["data", "show", *flags(table)[:10], "--target-bins", "4", "--json"])
    assert len(json.loads(capsys.readouterr().out)["bins"]) == 4


def hours(path: Path, form: str, count: int = 120) -> Path:
    start = datetime(2024, 1, 25)
    times = [start + timedelta(hours=n) for n in range(count)]
    rows = [[time.strftime(form), name, 10 * place + n + 5 * np.sin(n / 4)]
            for place, name in enumerate("xy") for n, time in enumerate(times)]  # fmt: skip
    np.random.default_rng(1).shuffle(rows)
    return write_rows(path, ["when", "site", "load"], rows)


FORECAST = ["--target-column", "load", "--time-column", "when", "--source-column", "site",
            "--partition", "by-source", "--devices", "2", "--rounds", "1", "--local-steps", "40",
            "--model", "linear", "--horizon", "3", "--window", "4"]  # fmt: skip


def test_times_that_are_texts_are_parsed_or_refused(tmp_path: Path, capsys) -> None:
    out = ["--protocols", "fl", "--out", str(tmp_path / "runs")]
    other = hours(tmp_path / "other.csv", "%d/%m/%Y %H:%M")
    said = refused(capsys, "run", "--dataset", str(other), *FORECAST, *out)
    assert "whose order in time is not known; must be numbers, or ISO 8601" in said
    said = refused(capsys, "run", *flags(other)[:4], "--columns", "load", "--split", "time",
                   "--time-column", "when", *out)  # fmt: skip
    assert "order in time is not known" in said


def test_a_forecast_is_predicted_from_each_whole_window(tmp_path: Path, capsys) -> None:
    table, out = hours(tmp_path / "iso.csv", "%Y-%m-%dT%H:%M:%S"), tmp_path / "runs"
    main(["run", "--dataset", str(table), *FORECAST, "--protocols", "fl", "--out", str(out)])
    assert "tested on the latest 20 % of each source's rows" in " ".join(
        "".join(capsys.readouterr()).split()
    )
    said = tmp_path / "said.csv"
    main(["predict", str(out / "fl-s0"), str(table), "--out", str(said)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "RMSE" in shown
    assert "on 228 known numbers" in shown  # of each site, 3 rows begin no window, 3 have no later
    with said.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (120 - 3)
    errors = []
    for site in "xy":
        own = sorted((row for row in rows if row["site"] == site), key=lambda row: row["when"])
        errors += [float(a["predicted"]) - float(b["load"])
                   for a, b in zip(own, own[3:], strict=False)]  # fmt: skip
    told = float(shown.split("RMSE ")[1].split()[0])
    assert told == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-3)


def test_a_window_without_a_horizon_is_refused(table: Path, tmp_path: Path, capsys) -> None:
    out = ["--protocols", "fl", "--out", str(tmp_path / "runs")]
    assert "window = 3: is of a forecast" in refused(
        capsys, "run", *flags(table), "--window", "3", *out
    )


def test_devices_keep_the_closed_form_of_numbers(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    main(["run", *flags(table, "--protocols", "statistics", "--rounds", "4", "--link", "ideal"),
          "--out", str(out)])  # fmt: skip
    run = read_run(out / "statistics-s0")
    scores = (run.summary or {})["scores"]
    assert scores["mean"] == pytest.approx(scores["global"], rel=1e-6)
    assert run.config.learning.device_model == "received"
