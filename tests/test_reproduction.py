"""The paper's experiments as grids, their records, and how claims are judged."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from mix2fld.cli import main
from mix2fld.errors import InputError
from mix2fld.reproduction import paper_values as paper
from mix2fld.reproduction.cell_records import CellRecord, load_records, save_records
from mix2fld.reproduction.claims import CLAIMS, judge
from mix2fld.reproduction.evidence import Claim, Evidence, Part, sized
from mix2fld.reproduction.experiments import EXPERIMENTS, FULL, QUICK, Cell, Experiment, Scale
from mix2fld.reproduction.grid import GridWatcher, cells_of, run_experiment, total_work
from mix2fld.reproduction.results_folder import ResultsFolder
from mix2fld.reproduction.statistics import gain, spread
from mix2fld.reproduction.step_costs import StepCost
from mix2fld.reproduction.times import jumps, rounds_to_final, times_longer
from mix2fld.round.plan import plan_link
from mix2fld.runs.folder import RunResult
from toys import toy_config, toy_dataset

ROOT = Path(__file__).parent.parent
RESULTS = ResultsFolder(ROOT / "results")
ALL_CELLS = [cell for experiment in EXPERIMENTS.values() for cell in experiment.cells]


def test_a_key_stands_for_one_config() -> None:
    by_key: dict[str, dict[str, Any]] = {}
    for cell in ALL_CELLS:
        assert by_key.setdefault(cell.key, cell.changes) == cell.changes
    settings = [json.dumps(changes, sort_keys=True) for changes in by_key.values()]
    assert len(set(settings)) == len(settings)


@pytest.mark.parametrize("scale", [FULL, QUICK], ids=lambda scale: scale.name)
def test_every_cell_is_a_valid_config(scale: Scale) -> None:
    for cell in cells_of(EXPERIMENTS.values()):
        assert cell.config(scale).seed == scale.seeds
    assert len(FULL.seeds) >= 5


def test_only_full_precision_weights_do_not_fit() -> None:
    """What is simulated can be delivered, but for FL, whose outage is what the paper is about."""
    for cell in cells_of(EXPERIMENTS.values()):
        problems = [plan.problem for plan in plan_link(cell.config(FULL)) if plan.problem]
        assert not problems or (cell.protocol == "fl" and cell.changes.get("max_slots") == 100)


# --- playing and recording


def tiny_experiment(folder: Path) -> Experiment:
    data = toy_dataset()
    path = folder / "toy.npz"
    np.savez(
        path,
        train_images=data.train_images, train_labels=data.train_labels,
        test_images=data.test_images, test_labels=data.test_labels,
    )  # fmt: skip
    plain = toy_config().model_dump()
    fields = {**plain.pop("data"), **plain.pop("learning"), **plain.pop("seeding")}
    fields |= {"link": "ideal", "rounds": 2, "curve_points": 3, "dataset": str(path)}
    cells = [Cell(f"tiny/{p}", p, {**fields, "protocols": p}) for p in ("fl", "mix2fld")]
    return Experiment("tiny", "Tiny", tuple(cells))


TINY = Scale("full", seeds=(0, 1), most_rounds=2, changes={})


class Counter(GridWatcher):
    """Counts rounds that are played; may stop after some."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.rounds, self.stop_after = 0, stop_after

    def round_done(self, config: object, info: object) -> None:
        self.rounds += 1
        if self.rounds == self.stop_after:
            raise KeyboardInterrupt


def test_a_stopped_grid_goes_on(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    whole = run_experiment(experiment, TINY, tmp_path / "whole", Counter())
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, TINY, tmp_path / "cut", Counter(stop_after=3))
    rest = Counter()
    cut = run_experiment(experiment, TINY, tmp_path / "cut", rest)
    assert cut == whole
    assert rest.rounds == 8 - 3
    again = Counter()
    assert run_experiment(experiment, TINY, tmp_path / "cut", again) == whole
    assert again.rounds == 0
    damaged = next((tmp_path / "cut").rglob("rounds.jsonl"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert run_experiment(experiment, TINY, tmp_path / "cut", Counter()) == whole
    assert total_work([experiment], TINY) == 8 * 4


def test_records_hold_what_the_runs_gave(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    played = run_experiment(experiment, TINY, tmp_path / "runs", Counter())
    path = tmp_path / "records" / "tiny.json"
    save_records(path, experiment, TINY, played)
    cells = load_records(path)
    assert list(cells) == [cell.key for cell in experiment.cells]
    for cell in experiment.cells:
        record, results = cells[cell.key], played[cell.key]
        assert (record.label, record.protocol) == (cell.label, cell.protocol)
        assert record.values("summary", "accuracy", "mean").tolist() == [
            result.summary["accuracy"]["mean"] for result in results
        ]
        last: RunResult = results[-1]
        assert record.runs[-1]["devices"] == last.rounds[-1]["accuracy"]["devices"]
        points = [point for info in last.rounds for point in info["curve"]]
        kept = record.runs[-1]["curve"]["accuracy"]
        assert_allclose(kept, [point["accuracy"] for point in points], atol=1e-6)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "cells": {}}', '{"format": 1}'])
def test_damaged_records_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fig3.json"
    path.write_text(text)
    with pytest.raises(InputError, match="fig3"):
        load_records(path)


# --- numbers over seeds


def test_spread_is_students_interval() -> None:
    values = [1.0, 2.5, 2.0, 4.0, 3.0]
    found = spread(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert_allclose((found.mean, found.low, found.high), (2.5, low, high))
    assert not spread([1.0]).above_zero


def record(
    accuracy: float,
    *,
    converged: int | None = 3,
    jump: float = -0.02,
    later: float = 0.01,
    seconds: float = 1.0,
    downloads: bool = True,
    groups: int = 50,
    devices: int = 10,
    noise: float = 0.001,
    bits: int = 9480,
) -> CellRecord:
    """Five runs of ten rounds: 6400 local and 3200 server steps at the stated cost."""
    runs = []
    for seed in range(5):
        reached = accuracy + noise * (seed - 2)
        ends = [reached - later * (9 - number) for number in range(10)]
        events, heights, steps = ["start"], [0.1], [0]
        for number, end in enumerate(ends):
            events += ["local", "local"]
            heights += [heights[-1] if downloads else end - later + jump, end]
            steps += [6400 * number + 3200, 6400 * (number + 1)]
            if downloads:
                events.append("download")
                heights.append(end + jump)
                steps.append(6400 * (number + 1))
        done = converged or 10
        runs.append(
            {
                "seed": seed,
                "summary": {
                    "rounds": 10,
                    "converged_round": converged,
                    "accuracy": {"mean": reached, "reference": reached, "global": reached - 0.01},
                    "uploads": {"attempted": 10 * devices, "delivered": 10 * devices},
                    "bits": {"up": 10 * devices * bits},
                    "seconds": {"communication": seconds, "computing": 9.6},
                    "seconds_to_converge": converged
                    and {"communication": seconds * done / 10, "computing": 0.96 * done},
                    "seeds": {"distinct_groups": groups},
                },
                "devices": [reached + 0.01 * noise * d for d in range(devices)],
                "rounds": {"reference": ends},
                "curve": {
                    "event": events,
                    "accuracy": heights,
                    "step": steps,
                    "communication": [0.0] * len(events),
                    "computing": [0.0] * len(events),
                },
            }
        )  # fmt: skip
    return CellRecord("label", "mix2fld" if downloads else "fd", {}, runs)


def test_times_at_other_costs() -> None:
    cell = record(0.8, converged=5, seconds=2.0)
    double = record(0.8, converged=10, seconds=2.0)
    for cost in (StepCost("air", 0, 0), StepCost("stated", 100, 100), StepCost("slow", 1000, 1)):
        assert_allclose(times_longer(double, cell, cost).value, 2.0)
    fast_link = record(0.8, converged=5, seconds=1.0)
    assert_allclose(times_longer(cell, fast_link, StepCost("air", 0, 0)).value, 2.0)
    stated = (1.0 + 4.8) / (0.5 + 4.8)
    assert_allclose(times_longer(cell, fast_link, StepCost("stated", 100, 100)).value, stated)
    no_server = (1.0 + 5 * 6.4) / (0.5 + 5 * 6.4)
    assert_allclose(times_longer(cell, fast_link, StepCost("slow", 1000, 0)).value, no_server)
    never = times_longer(record(0.8, converged=None, seconds=2.0), cell, StepCost("air", 0, 0))
    assert never.at_least
    assert_allclose(never.value, 2.0)


@pytest.mark.parametrize("downloads", [True, False])
def test_jumps_by_hand(downloads: bool) -> None:
    found = jumps(record(0.8, jump=-0.05, later=0.02, downloads=downloads))
    assert found.count == 5 * 9
    expected = -5.0 if downloads else -5.0 + 2.0 - 2.0
    assert_allclose((found.at_update, found.after_next_phase), (expected, 2.0))


def test_rounds_to_final() -> None:
    assert_allclose(rounds_to_final(record(0.8, later=0.0)), 1)
    assert_allclose(rounds_to_final(record(0.8, later=0.004)), 8)  # 2 steps of 0.4 points away


# --- verdicts


def a_world(**accuracies: float) -> dict[str, CellRecord]:
    """Every cell of every experiment, with the accuracy of the longest matching prefix."""
    world = {}
    for cell in ALL_CELLS:
        short = cell.key.split("/", 1)[1]
        names = [name for name in accuracies if short.replace("-", "_").startswith(name)]
        name = max(names, key=len, default="")
        world[cell.key] = record(
            accuracies.get(name, 0.8),
            converged=8 if cell.protocol == "fl" else 3,
            seconds=1.5 if "50" in short else 1.0,
            downloads=cell.protocol != "fd",
            jump=-0.001 if cell.protocol == "fd" else -0.02,
            devices=cell.changes.get("devices", 10),
            bits={"fl": 401_408, "fd": 3200}.get(cell.protocol, 9480),
        )
    return world


COSTS = (StepCost("air", 0, 0), StepCost("stated", 100, 100))


def privacy(lift: float) -> dict[str, list[dict[str, Any]]]:
    columns = sorted({*paper.INFERRED_COLUMNS, *paper.TABLE_COLUMNS})
    ratios = {
        f"{ratio:g}": {
            "mixup": {"min": float(np.log(ratio))},
            "mix2up": {"min": float(np.log(ratio)) + lift},
        }
        for ratio in columns
    }
    return {"mnist": [{"ratios": ratios}]}


def verdicts(world: dict[str, CellRecord], lift: float = 1.0) -> dict[str, str]:
    evidence = Evidence(world, privacy(lift), COSTS)
    return {claim.name: claim.verdict for claim in judge(evidence)}


def as_the_paper_says() -> dict[str, CellRecord]:
    world = a_world(
        fl=0.70, fd=0.69, mixfld=0.60, mix2fld_10_10=0.84, mix2fld_10_20=0.85, mix2fld_50_50=0.86,
        mix2fld_50_100=0.88, isolated=0.6, devices_50=0.86, devices=0.8,
    )  # fmt: skip
    for split in ("iid", "non-iid"):
        world[f"symmetric-{split}/fl"] = record(0.885, converged=8, bits=401_408)
    world["symmetric-non-iid/devices-50"] = record(0.82)
    calm = record(0.86)
    for run in calm.runs:
        run["devices"] = [0.86]
    world["symmetric-iid/devices-50"] = calm
    return world


def test_a_world_in_which_the_paper_is_right() -> None:
    found = verdicts(as_the_paper_says())
    assert found == dict.fromkeys(CLAIMS, "reproduced") | {"C2": found["C2"]}
    assert found["C2"] == "partly reproduced"  # five times the air time of FD is not 2.5 % more


def test_a_world_in_which_mix2fld_is_worst() -> None:
    world = a_world(fl=0.9, fd=0.9, mixfld=0.9, mix2fld=0.5)
    found = verdicts(world, lift=-1.0)
    assert {found[name] for name in ("C4", "C5")} == {"not reproduced"}
    assert "reproduced" not in {found[name] for name in ("C1", "C2", "C7", "C8", "C10")}


def test_a_difference_within_the_noise_is_none() -> None:
    noisy = record(0.81, noise=0.0)
    for run, shift in zip(noisy.runs, (0.1, -0.1, 0.09, -0.08, 0.0), strict=True):
        run["summary"]["accuracy"]["reference"] += shift
    assert sized(gain(noisy, record(0.8, noise=0.0)), wanted=1.0) == "no"
    assert sized(gain(record(0.81), record(0.8)), wanted=1.0) == "yes"
    assert sized(gain(record(0.81), record(0.8)), wanted=10.0) == "weaker"


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (("yes", "yes"), "reproduced"),
        (("no", "no"), "not reproduced"),
        (("yes", "no"), "partly reproduced"),
        (("weaker",), "partly reproduced"),
    ],
)
def test_a_verdict_follows_from_the_parts(parts: tuple[Any, ...], verdict: str) -> None:
    assert Claim("C0", tuple(Part("", "", "", holds) for holds in parts), "").verdict == verdict


# --- what is committed


def test_the_ledger_is_up_to_date() -> None:
    assert RESULTS.report.read_text(encoding="utf-8") == RESULTS.ledger()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_records_are_complete_and_of_these_experiments(name: str) -> None:
    path = RESULTS.records(name)
    assert json.loads(path.read_text(encoding="utf-8"))["scale"] == "full"
    cells = load_records(path)
    assert {key: cell.changes for key, cell in cells.items()} == {
        cell.key: json.loads(json.dumps(cell.changes)) for cell in EXPERIMENTS[name].cells
    }
    for cell in cells.values():
        assert tuple(run["seed"] for run in cell.runs) == FULL.seeds


def test_every_figure_of_the_ledger_is_there_and_small() -> None:
    text = RESULTS.report.read_text(encoding="utf-8")
    pictures = sorted((RESULTS.path / "figures").glob("*.png"))
    assert pictures
    for picture in pictures:
        assert f"(figures/{picture.name})" in text
        assert picture.stat().st_size < 300_000


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


def test_the_command_plays_records_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = dataclasses.replace(tiny_experiment(tmp_path), name="why")
    monkeypatch.setitem(EXPERIMENTS, "why", tiny)
    main(["reproduce", "why", "--quick", "--out", str(tmp_path / "runs")])
    said = capsys.readouterr().out
    assert "2/2 runs" in said
    assert "Tiny" in said
    assert set(load_records(tmp_path / "runs" / "results" / "records" / "why.json")) == {
        "tiny/fl", "tiny/mix2fld",
    }  # fmt: skip
