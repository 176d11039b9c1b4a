"""Every command on a table of numbers."""

import csv
import json
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
