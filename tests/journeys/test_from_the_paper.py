"""The first hour with the paper in hand: a figure, lambda, (N_S, N_I), and a plot of one's own."""

from pathlib import Path

import pytest

import mix2fld
from mix2fld.cli import main

pytestmark = pytest.mark.long
SHORT = ["--local-steps", "200", "--server-steps", "100", "--rounds", "2", "--test-samples", "500"]


def test_from_the_paper_to_an_own_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    # The paper's symbols are understood: lambda, N_S and N_I.
    main(["run", "--protocols", "mix2fld", "--lambda", "0.2", "--n-s", "10", "--n-i", "20", *SHORT])
    (folder,) = Path("runs").iterdir()
    (config,) = [run.config for run in mix2fld.runs.reader.read_runs([folder]).runs]
    assert config.seeding.mixing_ratio == (0.2,)
    assert (config.seeding.seed_samples, config.seeding.inverse_samples) == (10, 20)

    # Fig. 2c, scaled down.
    main(["reproduce", "fig2c", "--quick"])
    assert list(Path("runs/reproduce-quick").rglob("fig2c*"))

    # Lambda as an axis, three settings of it; the sweep ends with a table of them.
    main(["sweep", "--protocols", "mix2fld", "--mixing-ratio", "0.1", "0.3", "--seed", "0..1",
          "--out", "lambda", "--workers", "1", *SHORT])  # fmt: skip
    said = capsys.readouterr().out
    assert "mixing_ratio" in said
    assert "±" in said

    # A plot of one's own, from one row for each run.
    frame = mix2fld.load_runs("lambda", rows="runs")
    axes = frame.groupby("mixing_ratio")["accuracy/mean"].mean().plot(marker="o")
    axes.figure.savefig("lambda.png")
    assert frame["mixing_ratio"].dtype == float
    assert Path("lambda.png").stat().st_size > 1000
