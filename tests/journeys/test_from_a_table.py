"""The first hour with a CSV file and an NB-IoT link: a decision, and new rows labelled."""

import csv
from pathlib import Path

import numpy as np
import pytest

from mix2fld.cli import main

pytestmark = pytest.mark.long


def write_machines(path: Path, rows: int, seed: int) -> None:
    """As it comes out of a plant: a clock, a machine, texts, numbers with gaps, and a fault."""
    rng = np.random.default_rng(seed)
    fault = rng.choice(["none", "bearing", "belt", "leak"], rows)
    mean = {"none": (1, 60), "bearing": (6, 62), "belt": (4, 75), "leak": (2, 48)}
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["timestamp", "machine", "oil", "vibration", "celsius", "fault"])
        for row in range(rows):
            vibration, celsius = mean[fault[row]] + rng.normal(size=2) * (0.8, 4)
            said = "" if row % 50 == 7 else f"{celsius:.2f}"
            clock = f"2026-03-{1 + row // 200:02}T{row % 24:02}:00"
            oil = "red" if rng.random() < 0.5 else "blue"
            table.writerow([clock, f"m{row % 10}", oil, f"{vibration:.3f}", said, fault[row]])


def test_from_a_table_to_labelled_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_machines(Path("machines.csv"), 3000, seed=1)

    # As it is, the file is refused, with all that is wrong with it.
    table = ["--dataset", "machines.csv", "--label-column", "fault", "--source-column", "machine"]
    with pytest.raises(SystemExit):
        main(["run", *table, "--partition", "by-source"])
    said = capsys.readouterr().err
    for column in ("timestamp", "oil", "celsius"):
        assert f"column '{column}'" in said

    # Told what its columns are; the latest rows of each machine are tested with.
    table += ["--ignore-columns", "timestamp", "--one-hot-columns", "oil", "--missing", "median"]
    table += ["--split", "time", "--time-column", "timestamp", "--partition", "by-source"]
    main(["data", "show", *table])
    assert "labels: 0 bearing" in capsys.readouterr().out

    # What a transfer costs over NB-IoT, and a recommendation.
    main(["link", "--preset", "nb-iot", "--protocols", "fl8", "murmur"])
    main(["advise", "--preset", "nb-iot", "--devices", "10"])
    capsys.readouterr()

    # A pilot decides: the best of each family, Murmur among them, and training alone.
    small = ["--rounds", "2", "--local-steps", "100", "--server-steps", "50", "--model", "mlp"]
    main(["advise", *table, "--preset", "nb-iot", *small, "--learning-rate", "0.05", "--pilot"])
    said = capsys.readouterr()
    assert "Murmur" in said.out
    for line in ("verdict: ", "order: ", "would change the verdict: "):
        assert line in said.out
    assert "η 0.05 → " not in said.out  # the rate that is stated is that of all
    assert len(set(said.err.splitlines())) == len(said.err.splitlines())  # each note once

    # Which columns matter, and for how many steps: the best is marked.
    columns = ["--columns", "vibration,celsius", "celsius", "--local-steps", "50", "200"]
    alone = [*table[: table.index("--ignore-columns")], "--missing", "median"]
    alone += ["--partition", "by-source", "--protocols", "fl8", "--model", "mlp", "--rounds", "2"]
    main(["sweep", *alone, *columns, "--link", "ideal", "--workers", "1", "--out", "runs/sweep"])
    rows = [line for line in capsys.readouterr().out.splitlines() if "FL 8-bit" in line]
    assert len(rows) == 4
    (best,) = [line for line in rows if " * " in line]
    assert best.split()[0] == "vibration"
    assert Path("runs/sweep/sweep.png").is_file()

    # The comparison, also on each machine's own latest rows.
    chosen = ["--protocols", "isolated", "fl8", "murmur:bits=200", "--model", "mlp"]
    short = ["--local-steps", "400", "--rounds", "3", "--out", "runs/machines"]
    main(["run", *table, "--preset", "nb-iot", *chosen, *short])
    said = capsys.readouterr().out
    assert "Devices on their own test samples" in said
    assert "worse off" in said

    # New rows are labelled in the words of the table.
    write_machines(Path("new.csv"), 40, seed=2)
    run = "runs/machines/murmur-bits-200-s0"
    main(["predict", run, "new.csv", "-o", "labelled.csv"])
    assert "40 known labels are right" in capsys.readouterr().out
    with Path("labelled.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    right = [row["predicted"] == row["fault"] for row in rows]
    assert np.mean(right) > 0.8
