"""Small things that everybody feels: the paper's symbols, ranges of seeds, whole numbers."""

import io
from pathlib import Path

import pytest

from mix2fld import load_runs, run
from mix2fld.cli import main
from mix2fld.cli.commands import parse
from mix2fld.cli.console import PipedConsole, print_table
from mix2fld.cli.suggestions import SYMBOLS, flags_of
from mix2fld.config.grid import Grid
from mix2fld.report.sweep_view import draw_sweep, sweep_rows
from mix2fld.report.tables import results_table
from mix2fld.runs.reader import read_runs
from mix2fld_lab.cli.reproduce import ReproduceCommand
from places import ROOT
from toys import save_dataset, toy_config, toy_dataset, toy_grid


def test_the_papers_symbols_are_flags() -> None:
    assert set(SYMBOLS.values()) <= set(flags_of(Grid))
    page = (ROOT / "docs" / "reference" / "paper_map.md").read_text(encoding="utf-8")
    assert all(f"`{symbol}`" in page and f"`{flag}`" in page for symbol, flag in SYMBOLS.items())
    given = ["--lambda", "0.2", "--n-s=10", "--N_I", "30", "--k", "50"]
    settings = parse("run", given).settings
    assert settings.seeding.mixing_ratio == (0.2,)
    assert (settings.seeding.seed_samples, settings.seeding.inverse_samples) == (10, 30)
    assert settings.learning.local_steps == 50


def test_a_range_of_seeds_is_one_everywhere() -> None:
    assert parse("run", ["--seed", "0..3"]).settings.seed == (0, 1, 2, 3)
    assert parse("run", ["--seed", "0..1,7"]).settings.seed == (0, 1, 7)


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    results = run(toy_grid(protocols=("fl", "murmur")), dataset=toy_dataset())
    file = io.StringIO()
    print_table(PipedConsole(file=file, width=40), results_table(results))
    assert "…" not in file.getvalue()
    for result in results:
        assert f"{100 * result.summary['scores']['mean']:.1f}" in file.getvalue()


def test_a_sweep_ends_with_a_table_by_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_dataset(tmp_path / "toy.npz", toy_dataset())
    out = tmp_path / "out"
    fixed = ["--dataset", str(data), "--partition", "iid", "--devices", "3", "--rounds", "1"]
    steps = ["--samples-per-device", "30", "--model", "mlp", "--link", "ideal", "--workers", "1"]
    axes = ["--local-steps", "5", "40", "--seed", "0..1", "--protocols", "fl"]
    main(["sweep", *fixed, *steps, *axes, "--out", str(out)])
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if " FL " in line and "±" in line]
    assert [row.split()[0] for row in rows] == ["5", "40"]
    assert all(row.split()[-1] == "2" for row in rows)
    frame = load_runs(out, rows="runs")
    assert frame["local_steps"].dtype.kind == "i"
    assert frame["bits/up"].nunique() == 1
    best = frame.groupby("local_steps")["accuracy/mean"].mean().idxmax()
    assert [" * " in row for row in rows] == [best == 5, best == 40]
    assert "*: the best" in " ".join(said.split())
    assert f"by setting in {out / 'sweep.png'}" in said
    assert (out / "sweep.png").stat().st_size > 5000


def test_settings_that_are_words_are_drawn(tmp_path: Path) -> None:
    data = save_dataset(tmp_path / "toy.npz", toy_dataset())
    for model in ("mlp", "linear"):
        for steps in (2, 3):
            config = toy_config(dataset=str(data), model=model, local_steps=steps)
            run(config, tmp_path / f"{model}{steps}")
    rows = sweep_rows(read_runs([tmp_path]).runs)
    assert rows is not None
    assert rows.names == ["model", "local_steps"]
    assert draw_sweep(rows, tmp_path / "sweep.png")
    assert sweep_rows([]) is None


def test_symbols_that_are_misspelled_are_answered_with_their_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for given, meant in (("--lamda", "--mixing-ratio (the paper's lambda)"), ("--n-x", "--n-s")):
        with pytest.raises(SystemExit):
            main(["run", given, "0.2"])
        said = capsys.readouterr().err
        assert f"{given}: no such option; did you mean" in said
        if given == "--lamda":
            assert meant in said


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (["--seeds", "0..1"], (0, 1)), (["--seed", "1", "3"], (1, 3)), (["--seeds", "2"], (0, 1)),
        (["--seed", "0..2"], (0, 1, 2)), ([], (0, 1, 2, 3, 4)),
    ],
)  # fmt: skip
def test_seeds_of_a_reproduction(given: list[str], seeds: tuple[int, ...]) -> None:
    command = parse("reproduce", ["fig2c", *given])
    assert isinstance(command, ReproduceCommand)
    assert command.scale().seeds == seeds


def test_a_seed_that_is_not_of_the_experiment_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for given in (["--seed", "7"], ["--seed", "1", "--seeds", "2"]):
        with pytest.raises(SystemExit):
            main(["reproduce", "fig2c", *given])
        assert "mix2fld: seed" in capsys.readouterr().err


def test_a_mixing_ratio_is_a_number(tmp_path: Path) -> None:
    run(toy_config(protocol="mix2fld", mixing_ratio=(0.2,)), tmp_path, dataset=toy_dataset())
    assert load_runs(tmp_path, rows="runs")["mixing_ratio"].dtype == float


def test_progress_is_shown_where_somebody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    config, data = toy_config(rounds=2), toy_dataset()
    run(config, dataset=data)
    assert "round" not in capsys.readouterr().err
    (result,) = run(config, dataset=data, progress=True)
    assert capsys.readouterr().err.endswith("fl-s0: round 2 of 2\n")
    assert len(result.frame()) == 2


def test_resume_draws_curves(tmp_path: Path) -> None:
    data = save_dataset(tmp_path / "toy.npz", toy_dataset())
    run(toy_config(dataset=str(data)), tmp_path / "runs")
    main(["resume", str(tmp_path / "runs")])
    assert (tmp_path / "runs" / "curves.png").stat().st_size > 1000
