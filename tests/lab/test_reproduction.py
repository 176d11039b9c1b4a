"""The paper's experiments as grids, their runs and records, and the command."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from invented_records import ALL_CELLS
from numpy.testing import assert_allclose

from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.runs.link_plan import plan_link
from mix2fld.runs.results import RunResult
from mix2fld.sweep.places import ThisProcess
from mix2fld.sweep.schedule import Board, SweepProgress
from mix2fld_lab.reproduction.cell_records import load_records, recorded_runs, save_records
from mix2fld_lab.reproduction.experiments import EXPERIMENTS, FULL, QUICK, Cell, Experiment, Scale
from mix2fld_lab.reproduction.grid import cells_of, jobs_of, results_of, run_experiments
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from places import ROOT
from toys import toy_config, toy_dataset

RESULTS = ResultsFolder(ROOT / "results")


def test_a_key_stands_for_one_config() -> None:
    by_key: dict[str, dict[str, Any]] = {}
    for cell in ALL_CELLS:
        assert by_key.setdefault(cell.key, cell.changes) == cell.changes
    settings = [json.dumps(changes, sort_keys=True) for changes in by_key.values()]
    assert len(set(settings)) == len(settings)


@pytest.mark.parametrize("scale", [FULL, QUICK], ids=lambda scale: scale.name)
def test_every_cell_is_a_valid_config(scale: Scale) -> None:
    for cell in cells_of(EXPERIMENTS.values()):
        assert cell.grid(scale).seeds == scale.seeds
    assert len(FULL.seeds) >= 5


def test_only_full_precision_weights_do_not_fit() -> None:
    """What is simulated can be delivered, but for FL, whose outage is what the paper is about."""
    for cell in cells_of(EXPERIMENTS.values()):
        problems = [plan.problem for plan in plan_link(cell.grid(FULL)) if plan.problem]
        assert not problems or (cell.protocol == "fl" and cell.changes.get("max_slots") == 100)


# --- running and recording


def tiny_experiment(folder: Path) -> Experiment:
    data = toy_dataset()
    path = folder / "toy.npz"
    np.savez(
        path,
        train_inputs=data.train_inputs, train_labels=data.train_labels,
        test_inputs=data.test_inputs, test_labels=data.test_labels,
    )  # fmt: skip
    plain = toy_config().model_dump()
    fields = {**plain.pop("data"), **plain.pop("learning"), **plain.pop("seeding")}
    fields |= {"link": "ideal", "rounds": 2, "curve_points": 3, "dataset": str(path)}
    cells = [Cell(f"tiny/{p}", p, {**fields, "protocols": p}) for p in ("fl", "mix2fld")]
    return Experiment("tiny", "Tiny", tuple(cells))


TINY = Scale("full", seeds=(0, 1), most_rounds=2, changes={})


class Counter(Board):
    """Counts simulated rounds; may stop after some."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.rounds, self.stop_after = 0, stop_after

    def show(self, progress: SweepProgress) -> None:
        self.rounds = sum(track.rounds - track.done_before for track in progress.tracks)
        if self.rounds == self.stop_after:
            raise KeyboardInterrupt


def run_tiny(experiment: Experiment, out: Path, board: Board) -> dict[str, list[RunResult]]:
    run_experiments([experiment], TINY, out, ThisProcess(), board=board)
    return results_of(experiment, TINY, out)


def test_a_stopped_grid_resumes(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    whole = run_tiny(experiment, tmp_path / "whole", Counter())
    with pytest.raises(KeyboardInterrupt):
        run_tiny(experiment, tmp_path / "cut", Counter(stop_after=3))
    rest = Counter()
    assert run_tiny(experiment, tmp_path / "cut", rest) == whole
    assert rest.rounds == 8 - 3
    again = Counter()
    assert run_tiny(experiment, tmp_path / "cut", again) == whole
    assert again.rounds == 0
    damaged = next((tmp_path / "cut").rglob("rounds.jsonl"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert run_tiny(experiment, tmp_path / "cut", Counter()) == whole
    assert len(jobs_of([experiment, experiment], TINY, tmp_path)) == 4


def test_a_grid_that_misses_a_run_says_so(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    cells = [
        dataclasses.replace(
            experiment.cells[0], changes={**experiment.cells[0].changes, "learning_rate": 1e6}
        ),
        experiment.cells[1],
    ]
    bad = dataclasses.replace(experiment, cells=tuple(cells))
    with pytest.raises(InputError, match=r"2 of 4 runs failed, such as tiny/fl s0: learning_rate"):
        run_experiments([bad], TINY, tmp_path / "runs", ThisProcess(), retries=0)
    assert len(list((tmp_path / "runs").rglob("summary.json"))) == 2


def test_recorded_runs_are_kept_and_the_missing_ones_added(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    path = tmp_path / "records" / "tiny.json"
    first = dataclasses.replace(TINY, seeds=(1,))
    run_experiments([experiment], first, tmp_path / "first", ThisProcess())
    save_records(path, experiment, first, results_of(experiment, first, tmp_path / "first"))

    recorded = recorded_runs(path, experiment, TINY)
    rest = Counter()
    run_experiments(
        [experiment], TINY, tmp_path / "rest", ThisProcess(), recorded=recorded, board=rest
    )
    assert rest.rounds == 4
    added = results_of(experiment, TINY, tmp_path / "rest", recorded)
    save_records(path, experiment, TINY, added, recorded)

    whole = tmp_path / "records" / "whole.json"
    save_records(whole, experiment, TINY, run_tiny(experiment, tmp_path / "whole", Counter()))
    assert path.read_bytes() == whole.read_bytes()


def test_records_of_other_settings_or_scales_are_not_kept(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    path = tmp_path / "tiny.json"
    save_records(path, experiment, TINY, run_tiny(experiment, tmp_path / "runs", Counter()))
    faster = dataclasses.replace(
        experiment.cells[0], changes={**experiment.cells[0].changes, "learning_rate": 0.02}
    )
    changed = dataclasses.replace(experiment, cells=(faster, experiment.cells[1]))
    assert list(recorded_runs(path, changed, TINY)) == [experiment.cells[1].key]
    assert recorded_runs(tmp_path / "nothing.json", experiment, TINY) == {}
    with pytest.raises(InputError, match="records of full runs, not of quick ones"):
        recorded_runs(path, experiment, dataclasses.replace(TINY, name="quick"))


def test_records_hold_what_the_runs_returned(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    results = run_tiny(experiment, tmp_path / "runs", Counter())
    path = tmp_path / "records" / "tiny.json"
    save_records(path, experiment, TINY, results)
    cells = load_records(path)
    assert list(cells) == [cell.key for cell in experiment.cells]
    for cell in experiment.cells:
        record, of_cell = cells[cell.key], results[cell.key]
        assert (record.label, record.protocol) == (cell.label, cell.protocol)
        assert record.values("summary", "accuracy", "mean").tolist() == [
            result.summary["scores"]["mean"] for result in of_cell
        ]
        last: RunResult = of_cell[-1]
        assert record.runs[-1]["devices"] == last.rounds[-1]["scores"]["devices"]
        points = [point for info in last.rounds for point in info["curve"]]
        kept = record.runs[-1]["curve"]["accuracy"]
        assert_allclose(kept, [point["score"] for point in points], atol=1e-6)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "cells": {}}', '{"format": 1}'])
def test_damaged_records_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fig3.json"
    path.write_text(text)
    with pytest.raises(InputError, match="fig3"):
        load_records(path)


# --- the command


def test_pictures_come_from_records(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path)
    for part in ("records",):
        (tmp_path / part).symlink_to(RESULTS.path / part)
    main(["reproduce", "fig3", "inverse-count", "--from-records", "--results", str(tmp_path)])
    assert folder.figure("fig3").stat().st_size > 10_000
    assert folder.figure("inverse-count").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fig2x",), "fig2"),
        ((), "name at least one"),
        (("fig3", "--from-records", "--results", "nowhere"), "fig3.json"),
        (("claims", "--from-records", "--results", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_get_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def test_the_command_runs_records_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = dataclasses.replace(tiny_experiment(tmp_path), name="why")
    monkeypatch.setitem(EXPERIMENTS, "why", tiny)
    main(["reproduce", "why", "--quick", "--workers", "1", "--out", str(tmp_path / "runs")])
    said = capsys.readouterr().out
    assert "2 finished" in said
    assert "Tiny" in said
    assert set(load_records(tmp_path / "runs" / "results" / "records" / "why.json")) == {
        "tiny/fl", "tiny/mix2fld",
    }  # fmt: skip
