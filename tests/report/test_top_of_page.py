"""What the report says before and above its charts: warnings, conclusion, states, key results."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.engine.divergence import DivergedError
from mix2fld.report.curves import HOLD, reference_points, shapes
from mix2fld.report.headline import best_of, tiles
from mix2fld.report.html import report_page
from mix2fld.report.page_data import page_data
from mix2fld.report.plans import plans_of, what_if
from mix2fld.report.run_view import standing_of
from mix2fld.report.series import group, in_words
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import FoundRuns, LoadedRun, read_run, read_runs, require_runs
from mix2fld.runs.simulation import run
from mix2fld.tasks.metric import ACCURACY
from stored_runs import Replay, play
from toys import DeadLink, save_dataset, toy_config, toy_dataset, toy_grid


def stored(folder: Path, **fields: object) -> Path:
    """Runs over the link of their config."""
    folder.mkdir(parents=True, exist_ok=True)
    dataset = save_dataset(folder / "toy.npz", toy_dataset())
    run(toy_grid(**{"dataset": str(dataset), "rounds": 2, **fields}), folder / "runs")
    return folder / "runs"


def unfinished(source: Path, target: Path, rounds: int) -> Path:
    replay = Replay(source, target)
    replay.begin()
    for number in range(1, rounds + 1):
        replay.append(number)
    return target


def test_transfers_that_never_arrive_are_said_with_their_consequence(tmp_path: Path) -> None:
    folder = stored(tmp_path, protocols=("isolated", "fl", "fl8"), max_slots=1, link="rayleigh")
    data = page_data(require_runs([folder]))
    (finding,) = [one for one in data["findings"] if one["title"].startswith("Transfers")]
    problems = [
        plan.problem
        for loaded in require_runs([folder]).runs
        for plan in plans_of(loaded)
        if plan.problem
    ]
    assert problems
    assert set(problems) <= set(finding["lines"])
    assert (
        "The devices of FL and FL 8-bit therefore learn alone, with the same results"
        in (finding["lines"])
    )
    said = data["views"]["finished"]["conclusion"]
    assert said.startswith("FL and FL 8-bit need more than the 1 slots allowed")
    assert "no protocol is more accurate than devices that learn alone (" in said
    assert "yet" not in json.dumps([data["findings"], data["views"]])


def test_a_protocol_whose_uploads_never_arrive_is_not_the_best(tmp_path: Path) -> None:
    folder = stored(tmp_path, protocols=("fl", "fd"), max_slots=2, link="rayleigh")
    data = page_data(require_runs([folder]))
    view = data["views"]["finished"]
    fl, fd = (one["summary"] for one in view["series"])
    assert (fl["delivered"], fd["delivered"] > 0) == (0, True)
    assert view["conclusion"].startswith("FL needs more than the 2 slots allowed")
    assert "over FD" not in view["conclusion"]
    assert "devices that learn alone" in view["conclusion"]
    assert view["settings"][0]["tiles"][0]["answer"] == "FD"
    rows = {0: {**fl, "score": fd["score"] + 0.1}, 1: fd}
    assert best_of(rows)["score"] == [1]
    assert best_of(rows)["close"] == []
    assert tiles({"FL": rows[0], "FD": fd})[0]["answer"] == "FD"


def test_a_suspicious_device_is_named_once_with_its_rounds(runs: Path) -> None:
    found = require_runs([runs / "fl-s0"])
    (loaded,) = found.runs
    for info, times in zip(loaded.rounds, (4.5, 9.1), strict=False):
        info["suspects"] = [{"device": 1, "upload": "update", "times": times}]
    (finding,) = page_data(found)["findings"]
    assert finding["lines"] == [
        "FL, seed 0, rounds 1 and 2: device 1 uploaded an update 9.1 times as far from the median "
        "as is typical"
    ]


def test_uploads_that_were_lost_are_counted_where_the_link_is_not_known(tmp_path: Path) -> None:
    dataset = save_dataset(tmp_path / "toy.npz", toy_dataset())
    config = toy_config(dataset=str(dataset), protocol="fl", rounds=2)
    run(config, tmp_path / "runs", link=DeadLink())
    data = page_data(require_runs([tmp_path / "runs"]))
    assert data["findings"][0]["lines"] == [
        "FL: none of 8 uploads arrived",
        "The devices of FL therefore learn alone",
    ]
    assert data["settings"][0]["what_if"] is None


def test_a_run_that_diverges_is_failed_and_says_why(tmp_path: Path) -> None:
    dataset = save_dataset(tmp_path / "toy.npz", toy_dataset())
    config = toy_grid(dataset=str(dataset), protocols=("fl", "fd"), learning_rate=1e6)
    with pytest.raises(DivergedError, match="diverged"):
        run(config, tmp_path / "runs")
    found = read_runs([tmp_path / "runs"])
    states = {loaded.protocol: standing_of(loaded) for loaded in found.runs}
    assert states["fl"].state == "failed"
    assert "diverged" in (states["fl"].reason or "")
    assert states["fd"].state == "not started"
    data = page_data(found)
    assert "diverged" in data["findings"][0]["lines"][0]
    assert [one["state"] for one in data["states"]] == ["not started", "failed"]
    with pytest.raises(DivergedError, match="diverged"):  # resumed, it fails again
        run(config, tmp_path / "runs")
    fixed = config.replace(learning_rate=0.01, protocols="fl")
    run(fixed, tmp_path / "runs", overwrite=True)
    loaded = read_run(tmp_path / "runs" / "fl-s0")
    assert loaded is not None
    assert standing_of(loaded).state == "finished"
    assert not RunFiles(loaded.folder).failure.exists()


def test_the_state_of_a_run_follows_the_process_that_writes_it(runs: Path, tmp_path: Path) -> None:
    folder = unfinished(runs / "fl-s0", tmp_path / "fl-s0", 2)
    loaded = read_run(folder)
    assert loaded is not None
    assert standing_of(loaded).state == "stopped"
    code = (
        "import sys; from pathlib import Path; from mix2fld.base.locks import FolderLock; "
        "lock = FolderLock(Path(sys.argv[1])); print(lock.take(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline().strip() == b"True"
        assert standing_of(loaded).state == "running"
        writer.kill()
    assert (folder / ".lock").exists()  # a killed process leaves it behind
    assert standing_of(loaded).state == "stopped"
    assert (standing_of(loaded).updated or "").endswith("+00:00")


def test_unfinished_runs_are_in_no_mean_and_no_ranking_unless_asked(
    runs: Path, tmp_path: Path
) -> None:
    for name in ("isolated-s0", "fl-s0"):
        (tmp_path / name).symlink_to(runs / name)
    unfinished(runs / "fl-s1", tmp_path / "fl-s1", 1)
    unfinished(runs / "mix2fld-s0", tmp_path / "mix2fld-s0", 2)
    data = page_data(read_runs(sorted(tmp_path.iterdir())))
    finished, everything = data["views"]["finished"], data["views"]["all"]
    rows = {one["protocol"]: one for one in finished["series"]}
    assert rows["fl"]["summary"]["runs"] == 1
    assert not rows["mix2fld"]["ranked"]
    assert rows["mix2fld"]["state"] == "stopped"
    ranked = [number for number, one in enumerate(finished["series"]) if one["ranked"]]
    for winners in finished["settings"][0]["best"].values():
        assert set(winners) <= set(ranked)
    assert "Mix2FLD" not in json.dumps(finished["settings"][0]["tiles"])
    assert {one["protocol"]: one["summary"]["runs"] for one in everything["series"]} == {
        "isolated": 1,
        "fl": 2,
        "mix2fld": 1,
    }
    assert all(one["ranked"] for one in everything["series"])


def test_planned_runs_are_counted(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "fl-s0").symlink_to(runs / "fl-s0")
    unfinished(runs / "fd-s0", tmp_path / "fd-s0", 0)
    found = require_runs([tmp_path / "fl-s0", tmp_path / "fd-s0"])
    assert [len(found.runs), len(found.planned)] == [1, 1]
    assert [one["state"] for one in page_data(found)["states"]] == ["finished", "not started"]


def row(accuracy: float, attempted: int, delivered: int, bits: float) -> dict[str, object]:
    whose = {"spread_over": "devices", "runs": 1, "measured": 1, "devices": 1, "spread": 0.0}
    counts = {"attempted": attempted, "delivered": delivered, "bits_up": bits}
    return {**whose, **counts, "score": accuracy, "metric": asdict(ACCURACY)}


def test_tiles_name_every_protocol_and_pool_none() -> None:
    rows = {
        "FL": row(0.5, 100, 0, 1e6),
        "FLD": row(0.5, 100, 0, 1e3),
        "FD": row(0.6, 100, 50, 2e3),
        "isolated": row(0.5, 0, 0, 0),
    }
    accurate, cheapest, delivery = tiles(rows)
    assert accurate["answer"] == "FD"
    assert cheapest["answer"] == "FD"  # FLD sends less, but nothing of it arrives
    assert "FL uses 500 times as much" in cheapest["remark"]
    assert delivery["answer"] == "0.0 % to 50.0 %"
    assert delivery["remark"] == "0.0 % of FL, FLD; 50.0 % of FD"


def test_series_that_a_setting_does_not_change_are_one(tmp_path: Path) -> None:
    dataset = save_dataset(tmp_path / "toy.npz", toy_dataset())
    for power in (20.0, 40.0):
        config = toy_grid(
            dataset=str(dataset), protocols=("isolated", "fl"), rounds=2, uplink_power_dbm=power,
            link="rayleigh",
        )  # fmt: skip
        run(config, tmp_path / f"{power:g}")
    settings, series = group(require_runs([tmp_path]).runs)
    assert [one.label for one in settings] == ["uplink power 20 dBm", "uplink power 40 dBm"]
    merged = {one.protocol: one.settings for one in series if len(one.settings) > 1}
    assert merged == {"isolated": (0, 1)} or set(merged) == {"isolated", "fl"}
    assert next(one for one in series if one.protocol == "isolated").label == "isolated"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("uplink_power_dbm", 40.0, "uplink power 40 dBm"),
        ("devices", 20, "devices 20"),
        ("slot_ms", 1.0, "slot 1 ms"),
        ("reuse_pairs", False, "reuse pairs off"),
        ("mixing_ratio", (0.1, 0.2), "mixing ratio 0.1 0.2"),
        ("partition", "iid", "partition iid"),
    ],
)
def test_settings_are_named_as_a_reader_would(name: str, value: object, words: str) -> None:
    assert in_words(name, value) == words


def test_the_reference_device_keeps_its_accuracy_while_it_waits(runs: Path) -> None:
    loaded = [read_run(runs / f"mix2fld-s{seed}") for seed in (0, 1)]
    pair = [one for one in loaded if one is not None]
    for one in pair:
        points = reference_points(one.rounds, one.config.learning.local_steps)
        clock = 0.0
        for info in one.rounds:
            clock += sum(info["seconds"].values())
            own = [point for point in points if point.key[0] == info["round"]]
            held = [point for point in own if point.key[2] == HOLD]
            assert [point.at["seconds"] for point in held] == pytest.approx([clock])
            before = own[own.index(held[0]) - 1]
            assert held[0].score == before.score
    (within, _) = shapes(pair, "reference")
    ends = np.flatnonzero(~within.measured)
    assert len(ends) == len(pair[0].rounds)
    np.testing.assert_allclose(within.mean[ends], within.mean[ends - 1])


def test_times_of_devices_add_up_to_the_round(runs: Path) -> None:
    loaded = read_run(runs / "mix2fld-s0")
    assert loaded is not None
    for info in loaded.rounds:
        timing = info["timing"]
        assert max(timing["computing"]) == pytest.approx(info["slowest"]["seconds"])
        on_air = [max(filter(None, timing[way]), default=0.0) for way in ("up", "down")]
        assert sum(on_air) == pytest.approx(info["seconds"]["communication"])


def test_sizes_of_the_sliders_are_those_of_the_plan() -> None:
    names = ("fl", "fl8", "fd", "mix2fld", "murmur-mix", "cfd", "statistics")
    for samples in (10, 50, 80):
        for name in names:
            single = Config.of(protocol=name, seed_samples=samples, link="rayleigh")
            (found,) = group([LoadedRun(Path("nowhere"), single, [], False)])[1]
            known = what_if(Grid.of_run(single), [found])
            assert known is not None
            for transfer in known["protocols"][0]["transfers"]:
                if "per_seed" in transfer:
                    size = transfer["fixed"] + samples * transfer["per_seed"]
                    assert size == transfer["bits"]
            plans = plans_of(LoadedRun(Path("nowhere"), single, [], False))
            bits = {plan.budget.bits for plan in plans}
            assert {one["bits"] for one in known["protocols"][0]["transfers"]} <= bits


def test_a_report_of_eight_runs_is_below_a_megabyte(tmp_path: Path) -> None:
    protocols = ("isolated", "fl", "fl8", "fd", "fld", "mixfld", "mix2fld", "murmur")
    play(tmp_path, protocols=protocols, rounds=3)
    found = require_runs([tmp_path / "runs"])
    longer = FoundRuns()
    for loaded in found.runs:  # a hundred rounds of each
        rounds = [{**loaded.rounds[n % 3], "round": n + 1} for n in range(100)]
        config = loaded.config.replace(rounds=100)
        longer.runs.append(
            LoadedRun(loaded.folder, config, rounds, True, (), {**loaded.summary, "rounds": 100})
        )
    for some in (found, longer):
        page = report_page(page_data(some))
        assert len(page.encode()) < 1_000_000
        assert "weights8" not in page


def test_the_page_says_when_and_where_it_was_made(runs: Path) -> None:
    made = page_data(require_runs([runs / "fl-s0"]))["made"]
    assert made["date"].endswith(" UTC")
    assert "Python" in made["machine"]
    assert os.uname().nodename not in made["machine"]
