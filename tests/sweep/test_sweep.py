"""Sweeps: their plans, the one loop that runs them, worker processes, and the command."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reliability.faults import Quiet
from rich.console import Console

from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.cli.progress import running_table
from mix2fld.cli.sweep import missing_runs
from mix2fld.cli.sweep_flags import take_axes
from mix2fld.config.grid import Grid
from mix2fld.report.page_data import page_data
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.reader import require_runs
from mix2fld.runs.simulation import run
from mix2fld.sweep.jobs import Job, JobResult
from mix2fld.sweep.places import ThisProcess, WorkerProcesses
from mix2fld.sweep.plan import SweepPlan, expand, make_plan
from mix2fld.sweep.plan_file import claim_folder, read_plan
from mix2fld.sweep.schedule import Board, Event, SweepProgress, Track, run_jobs
from mix2fld.sweep.search import Search, SearchResult, read_range, run_search
from stored_runs import contents
from toys import save_dataset, toy_config, toy_dataset, toy_grid

SMALL = {"rounds": 2, "link": "ideal"}


def small_grid(folder: Path, **fields: object) -> Grid:
    file = folder / "toy.npz"
    if not file.exists():
        save_dataset(file, toy_dataset())
    return toy_grid(dataset=str(file), **{**SMALL, **fields})


def small_flags(folder: Path) -> list[str]:
    """The same as flags: a config file, from which the command reads it."""
    from mix2fld.runs.config_file import dump_config

    path = folder / "small.toml"
    path.write_text(dump_config(small_grid(folder)))
    return ["--config", str(path)]


# --- plans


def test_axes_are_crossed_and_zipped_fields_advance_together() -> None:
    base = Grid.of(protocols=("fl", "fd"), seed=(0, 1, 2))
    varied = {"devices": [4, 8], "samples_per_device": [50, 25], "mixing_ratio": [0.1, 0.2, 0.3]}
    plan = make_plan(base, varied, [("devices", "samples_per_device")])
    settings = plan.settings()
    assert len(plan) == len(plan.jobs(Path("out"))) == 2 * 3 * 2 * 3
    assert list(settings)[:2] == [
        "devices=4,samples_per_device=50,mixing_ratio=0.1",
        "devices=4,samples_per_device=50,mixing_ratio=0.2",
    ]
    pairs = {(c.data.devices, c.data.samples_per_device) for c in settings.values()}
    assert pairs == {(4, 50), (8, 25)}
    folders = {job.folder for job in plan.jobs(Path("out"))}
    assert len(folders) == len(plan)
    assert Path("out/devices=8,samples_per_device=25,mixing_ratio=0.3/fd-s2") in folders


@given(st.integers(-50, 50), st.integers(0, 40), st.integers(1, 7))
def test_a_range_is_what_range_gives(first: int, more: int, step: int) -> None:
    assert expand([f"{first}..{first + more}..{step}"]) == list(
        range(first, first + more + 1, step)
    )


def test_values_that_are_valid_only_together_make_a_plan() -> None:
    varied = {"devices": [4, 20], "participants": [2, 15]}
    plan = make_plan(Grid.of(protocols="fl"), varied, [("devices", "participants")])
    assert [c.participants for c in plan.settings().values()] == [2, 15]
    with pytest.raises(InputError, match="participants = 15: must be at most devices = 4"):
        make_plan(Grid.of(protocols="fl"), varied).settings()


@pytest.mark.parametrize(
    ("varied", "zipped", "words"),
    [
        ({"devises": [1]}, (), "devises: no such field; did you mean 'devices'"),
        ({"data_folder": ["a", "b"]}, (), "data_folder: cannot be swept"),
        ({"seed": [0, 1]}, (), "seed: cannot be swept"),
        ({"devices": []}, (), "devices: no values, so that there is nothing to run"),
        ({"devices": ["9..3"]}, (), "9..3: an empty range"),
        ({"devices": ["1..99999999"]}, (), "a range of 99,999,999 values"),
        ({"devices": [4, 4]}, (), "devices = 4: given twice"),
        ({"devices": [4, 8], "rounds": [1]}, [("devices", "rounds")], "zip: devices has 2, rounds"),
        ({"devices": [4, 8]}, [("devices", "rounds")], "zip = rounds: no values are given"),
    ],
)
def test_plans_that_make_no_sense_are_one_message(varied, zipped, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make_plan(Grid.of(protocols="fl"), varied, zipped)


def test_a_value_that_no_config_takes_is_named() -> None:
    with pytest.raises(InputError, match=r"mixing_ratio = 0\.7: must be above 0 and below 0\.5"):
        make_plan(Grid.of(protocols="mix2fld"), {"mixing_ratio": [0.1, 0.7]}).settings()


def test_a_million_runs_are_asked_back() -> None:
    plan = make_plan(Grid.of(protocols="fl", seed=tuple(range(1000))), {"rounds": ["1..1000"]})
    with pytest.raises(InputError, match=r"1,000,000 runs: more than max_runs = 1,000; .* 1000000"):
        plan.check_size()
    plan.check_size(10**6)


def test_flags_with_several_values_are_axes() -> None:
    words = "--mixing-ratio 0.1 0.2,0.3 --seed 0..2 7 --protocols fl,fd --devices 4 --dry-run"
    rest, own = take_axes(words.split())
    assert own["varied"] == {"mixing_ratio": ["0.1", ["0.2", "0.3"]]}
    fixed = "--seed 0 1 2 7 --protocols fl fd --devices 4 --dry-run"
    assert " ".join(rest) == fixed
    several = "--protocols fl,murmur:bits=60,step_limit=1 fd"
    assert take_axes(several.split())[0] == several.replace("fl,", "fl ").split()


@pytest.mark.parametrize("flag", ["--columns", "--ignore-columns", "--one-hot-columns"])
def test_columns_of_a_table_are_one_list_and_lists_are_an_axis(flag: str) -> None:
    name = flag.removeprefix("--").replace("-", "_")
    words = [flag, "vibration", "celsius", "--devices", "3", "4"]
    rest, own = take_axes(words)
    assert rest == words[:3]
    assert own["varied"] == {"devices": ["3", "4"]}
    _, own = take_axes([flag, "vibration,celsius", "vibration"])
    assert own["varied"] == {name: [["vibration", "celsius"], ["vibration"]]}
    (axis,) = make_plan(Grid(), own["varied"]).axes
    assert axis == {name: (("vibration", "celsius"), ("vibration",))}


def test_a_plan_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'protocols = ["fl8", "mix2fld"]\nseed = "0..4"\n[settings]\nrounds = 3\n'
        "[cross]\nmixing_ratio = [0.1, [0.2, 0.3]]\n"
        "[[zip]]\ndevices = [4, 8]\nsamples_per_device = [50, 25]\n"
    )
    base, varied, zipped = read_plan(path, Grid())
    plan = make_plan(base, varied, zipped)
    assert len(plan) == 2 * 5 * 2 * 2
    assert plan.base.rounds == 3
    assert plan.axes[1]["mixing_ratio"] == ((0.1,), (0.2, 0.3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("corss = 1", "corss: no such entry; did you mean 'cross'"),
        ("cross = 1", "cross: must be a table"),
        ("zip = 3", "zip: must be tables"),
        ("[settings]\ndevises = 3", "devises: no such field"),
        ("[cross]\ndevices=[1]\n[[zip]]\ndevices=[2]", "devices: is on two axes"),
        ("= 3", "not a TOML file"),
    ],
)
def test_a_plan_file_with_a_mistake_names_it(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"plan = .*{words}"):
        read_plan(path, Grid())


def test_a_folder_belongs_to_one_sweep_which_may_grow(tmp_path: Path) -> None:
    def plan(ratios: list[float], **fields: object) -> SweepPlan:
        return make_plan(Grid.of(**{"protocols": "mix2fld", **fields}), {"mixing_ratio": ratios})

    claim_folder(plan([0.1, 0.2]), tmp_path / "out")
    claim_folder(plan([0.1, 0.2, 0.3], seed=(0, 1)), tmp_path / "out")
    for other, words in (
        (plan([0.1, 0.2], seed=(0, 1)), "mixing_ratio = "),
        (plan([0.1, 0.2, 0.3]), "seed = 0,1, not 0"),
        (plan([0.1, 0.2, 0.3], seed=(0, 1), rounds=3), "rounds = 10, not 3"),
        (
            make_plan(Grid.of(protocols="mix2fld"), {"devices": [1, 2]}),
            "axes = mixing_ratio, not",
        ),
    ):
        with pytest.raises(InputError, match=f"holds another sweep, with {words}"):
            claim_folder(other, tmp_path / "out")
    damaged = tmp_path / "out" / "sweep.toml"
    for text in ("", "= 3", damaged.read_text().replace("format = 2", "format = 9")):
        damaged.write_text(text)
        with pytest.raises(InputError, match=r"sweep\.toml: is not the plan of a sweep"):
            claim_folder(plan([0.1, 0.2, 0.3], seed=(0, 1)), tmp_path / "out")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files and no sweep\.toml"):
        claim_folder(plan([0.1]), tmp_path / "others")


# --- the loop


class Scripted:
    """A place that does what a script says: how often each job fails."""

    note = "a note"

    def __init__(self, failures: dict[str, int]) -> None:
        self.failures, self.begun = failures, list[str]()
        self._events: list[Event] = []

    def slots(self) -> int:
        return 2

    def cores(self) -> int:
        return 2

    def begin(self, job: Job) -> None:
        self.begun.append(job.name)
        left = self.failures.get(job.name, 0)
        self.failures[job.name] = left - 1
        done = JobResult("lost its node" if left > 0 else None, (self.note,))
        self._events += [Event(job, "there"), Event(job, done=done)]

    def events(self, seconds: float, tick: Callable[[], None]) -> list[Event]:
        found, self._events = self._events, []
        return found

    def stop(self) -> None:
        """Nothing outlives a call."""


def test_what_fails_is_tried_again_and_then_reported_while_others_go_on(tmp_path: Path) -> None:
    jobs = make_plan(small_grid(tmp_path, seed=(0, 1, 2, 3)), {}).jobs(tmp_path / "out")
    place = Scripted({"fl-s1": 1, "fl-s2": 9})
    progress = run_jobs(jobs, place, retries=2)
    assert [track.job.name for track in progress.of("failed")] == ["fl-s2"]
    assert progress.of("failed")[0].reason == "lost its node"
    assert len(progress.of("finished")) == 3
    assert sorted(place.begun) == ["fl-s0", "fl-s1", "fl-s1", *["fl-s2"] * 3, "fl-s3"]


class Rounds(Board):
    """Counts rounds; does something after some of them."""

    def __init__(self, then: Callable[[SweepProgress], None] = lambda _: None) -> None:
        self.rounds, self.then, self.notes = 0, then, list[str]()

    def show(self, progress: SweepProgress) -> None:
        self.rounds = sum(track.rounds - track.done_before for track in progress.tracks)
        self.then(progress)

    def note(self, line: str) -> None:
        self.notes.append(line)


def test_processes_have_the_bytes_of_this_process_also_if_one_is_killed(tmp_path: Path) -> None:
    config = small_grid(tmp_path, protocols=("fl", "mix2fld"), rounds=40)
    plan = make_plan(config, {"devices": [2, 3]})
    run_jobs(plan.jobs(tmp_path / "here"), ThisProcess())
    place, killed = WorkerProcesses(2), list[int]()

    def kill(progress: SweepProgress) -> None:
        if not killed and any(track.rounds for track in progress.of("running")):
            killed.append(place._running[0]._process.pid)
            os.kill(killed[0], signal.SIGKILL)

    board = Rounds(kill)
    try:
        progress = run_jobs(plan.jobs(tmp_path / "there"), place, board=board)
    finally:
        place.stop()
    assert len(progress.of("finished")) == 4
    assert killed
    assert any("exit code -9" in note and "tried again" in note for note in board.notes)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_run_that_diverges_leaves_the_others_alone(tmp_path: Path) -> None:
    plan = make_plan(small_grid(tmp_path), {"learning_rate": [0.05, 1e6]})
    progress = run_jobs(plan.jobs(tmp_path / "out"), ThisProcess(), retries=1)
    (bad,) = progress.of("failed")
    assert bad.tries == 2
    assert "the weights of device" in bad.reason
    assert [track.job.config.learning.learning_rate for track in progress.of("finished")] == [0.05]
    page = page_data(require_runs([tmp_path / "out"]))
    (failures,) = (one for one in page["findings"] if one["title"] == "Runs that failed")
    assert failures["lines"][0].startswith("FL, seed 0 in learning_rate=1000000.0, after 0 of 2")
    assert {one["place"] for one in page["states"]} == {
        "learning_rate=0.05",
        "learning_rate=1000000.0",
    }


def test_a_stopped_sweep_resumes_and_a_damaged_run_is_repaired(tmp_path: Path) -> None:
    jobs = make_plan(small_grid(tmp_path, seed=(0, 1)), {}).jobs(tmp_path / "out")
    run_jobs(jobs, ThisProcess())
    whole = contents(tmp_path / "out")
    damaged = jobs[0].folder / "rounds.jsonl"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    board = Rounds()
    run_jobs(jobs, ThisProcess(), board=board)
    assert RunFolder(jobs[0].folder).finished() is not None
    now = {name: data for name, data in contents(tmp_path / "out").items() if "damaged" not in name}
    assert now == whole
    untouched = Rounds()
    run_jobs(jobs, ThisProcess(), board=untouched)
    assert untouched.rounds == 0


# --- the search


def searched(base: Grid, out: Path, trials: int, at_once: int, **fields: object) -> SearchResult:
    ranges = (read_range("learning_rate=0.001:0.2:log", base), read_range("rounds=1:3", base))
    search = Search(base, ranges, ("accuracy", "bits"), trials, at_once)
    board = fields.get("board")
    return run_search(search, out, lambda jobs: run_jobs(jobs, ThisProcess(), board=board))


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_search_that_is_stopped_tries_what_it_would_have_tried(
    tmp_path: Path, at_once: int
) -> None:
    base = small_grid(tmp_path)
    whole = searched(base, tmp_path / "whole", 4, at_once)

    def stop(progress: SweepProgress) -> None:
        if "trial-0002" in str(progress.tracks[0].job.folder):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(base, tmp_path / "cut", 4, at_once, board=Rounds(stop))
    searched(base, tmp_path / "cut", 3, at_once)
    assert searched(base, tmp_path / "cut", 4, at_once) == whole
    runs = [p.relative_to(tmp_path / "whole") for p in (tmp_path / "whole").rglob("*.jsonl")]
    assert len(runs) == 4
    for found in runs:
        assert (tmp_path / "cut" / found).read_bytes() == (tmp_path / "whole" / found).read_bytes()
    for best in whole.best.values():
        assert 0 < best["accuracy"] <= 1
        beaten = [
            o
            for o in whole.best.values()
            if o["accuracy"] > best["accuracy"] and o["bits"] < best["bits"]
        ]
        assert not beaten
    with pytest.raises(InputError, match="holds another search"):
        searched(base.replace(devices=3), tmp_path / "cut", 4, at_once)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning_rat=1:2", "no such field; did you mean 'learning_rate'"),
        ("learning_rate=2:1", "with LOW below HIGH"),
        ("learning_rate=0:1:log", "above 0 for log"),
        ("learning_rate=0.1", "must be FIELD=LOW:HIGH"),
        ("learning_rate=-1:1", "learning_rate = -1.0"),
        ("partition=1:2", "partition = .* has no range of numbers"),
    ],
)
def test_a_range_with_a_mistake_is_one_message(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_range(text, Grid())


# --- the command


def test_the_command_runs_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    sweep = ["sweep", *small_flags(tmp_path), "--out", str(out), "--workers", "1", "--json"]
    main([*sweep, "--devices", "2", "3", "--seed", "0..1"])
    said = json.loads(capsys.readouterr().out)
    assert sorted(said["finished"]) == [
        f"devices={devices}/fl-s{seed}" for devices in (2, 3) for seed in (0, 1)
    ]
    assert said["missing"] == {}
    before = {path: path.stat().st_mtime_ns for path in out.rglob("summary.json")}
    started = time.monotonic()
    main([*sweep, "--devices", "2", "3", "--seed", "0..1"])
    assert {path: path.stat().st_mtime_ns for path in out.rglob("summary.json")} == before
    assert time.monotonic() - started < 60
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([*sweep, "--devices", "2", "3", "--seed", "0..1", "--learning-rate", "0.05"])
    assert stopped.value.code == 2
    assert "holds another sweep, with learning_rate = " in capsys.readouterr().err


def test_columns_are_an_axis_where_all_of_a_table_would_be_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"at {n},{n % 2 * 5 + n / 100},{n % 3},{n % 2}" for n in range(80)]
    (tmp_path / "own.csv").write_text("\n".join(["clock,a,b,label", *rows]) + "\n")
    flags = ["--dataset", str(tmp_path / "own.csv"), "--model", "linear", "--link", "ideal"]
    flags += ["--devices", "2", "--samples-per-device", "20", "--partition", "iid", "--rounds", "1"]
    flags += ["--protocols", "fl", "--local-steps", "5", "--workers", "1"]
    main(["sweep", *flags, "--columns", "a,b", "a", "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "2 finished of 2 runs" in " ".join(said.split())


def test_missing_runs_have_their_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ["sweep", *small_flags(tmp_path), "--out", str(tmp_path / "out"), "--workers", "1"]
    with pytest.raises(SystemExit) as stopped:
        main([*sweep, "--learning-rate", "0.05", "1e6", "--retries", "0"])
    assert stopped.value.code == 3
    shown = capsys.readouterr()
    assert "1 finished, 1 failed of 2 runs" in shown.out
    assert "missing: learning_rate=1000000.0/fl-s0: learning_rate = 1e+06" in shown.err
    failed = [line for line in shown.out.splitlines() if "failed: learning_rate" in line]
    assert len(failed) == 1  # said once


def test_missing_runs_are_named_by_their_reason(tmp_path: Path) -> None:
    jobs = make_plan(small_grid(tmp_path, seed=tuple(range(11))), {}).jobs(tmp_path / "out")
    tracks = [Track(job, "failed", reason="lost") for job in jobs]
    tracks[3].reason = "diverged"
    lost, diverged = missing_runs(tracks)
    assert lost == ("missing: fl-s0 fl-s1 fl-s2 fl-s4 fl-s5 fl-s6 fl-s7 fl-s8 and 2 more: lost")
    assert diverged == "missing: fl-s3: diverged"


def test_the_table_fits_and_keeps_the_ends_of_names(tmp_path: Path) -> None:
    jobs = make_plan(small_grid(tmp_path), {"devices": [2], "test_samples": [10]}).jobs(tmp_path)
    progress = SweepProgress([Track(job, "running", where="worker 0", tries=1) for job in jobs])
    console = Console(width=40, file=StringIO())
    console.print(running_table(progress, console.width))
    headings, row = console.file.getvalue().splitlines()
    assert headings.split() == ["running", "where", "round", "try"]
    assert re.fullmatch(r"…\S*=10/fl-s0 worker 0 0/2 +2 *", row)


def test_notes_name_a_run_once(tmp_path: Path) -> None:
    (job,) = make_plan(small_grid(tmp_path), {"devices": [2]}).jobs(tmp_path / "out")
    place, board = Scripted({}), Rounds()
    place.note = f"{job.folder}: rounds.jsonl cannot be read"
    run_jobs([job], place, board=board)
    assert board.notes == ["devices=2/fl-s0: rounds.jsonl cannot be read"]


def test_what_advances_together_is_described_together() -> None:
    varied = {"devices": [5, 10], "samples_per_device": [50, 25]}
    plan = make_plan(Grid(), varied, [tuple(varied)])
    assert plan.describe()["devices + samples_per_device"] == ["5 + 50", "10 + 25"]


def test_a_search_without_a_single_result_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out"), "--workers", "1", "--retries", "0", "--json"]
    ranges = ["--search", "optuna", "--range", "learning_rate=1e6:1e7", "--trials", "2"]
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", *small_flags(tmp_path), *ranges, *out])
    assert stopped.value.code == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["best"], said["failed"]) == ({}, [0, 1])


def test_a_dry_run_measures_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*small_flags(tmp_path), "--out", str(tmp_path / "out"), "--dry-run", "--json"]
    main(["sweep", *flags, "--devices", "2", "3", "--seed", "0..4"])
    said = json.loads(capsys.readouterr().out)
    config = small_grid(tmp_path)
    steps = 5 * (2 + 3) * config.rounds * config.learning.local_steps
    assert (said["runs"], said["steps"]) == (10, steps)
    assert said["seconds"] > 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--devices 2 3 --workers 0", "workers = 0: must be 1 or more"),
        ("--devices 2 3 --retries -1", "retries = -1: must be 0 or more"),
        ("--devices 1..2000", "8,000 runs: more than max_runs"),
        ("--data-folder a b", "data_folder: cannot be swept"),
        ("--devices 2 3 --zip devices rounds", "zip = rounds: no values"),
        ("--plan nowhere.toml", "plan = nowhere.toml: cannot be read"),
        ("--protocols nope --devices 2 3", "neither a known protocol"),
        (
            "--range learning_rate=0.1:1",
            "range = learning_rate=0.1:1: applies to a search only; add",
        ),
        ("--search optuna --devices 2 3", "devices: has several values, but a search has no axes"),
        (
            "--search optuna --range rounds=1:3 --dry-run",
            "dry_run: a search has no fixed list of runs",
        ),
        ("--seed 0..1000000", "0..1000000: a range of 1,000,001 values; must be at most"),
        ("--search optuna --range rounds=1:3 --objective luck", "luck: no such objective"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", *flags.split(), "--out", "out"])
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_time_left_of_a_resumed_job_counts_only_what_was_computed_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(Path("fl-s0"), toy_config(protocol="fl", rounds=10), "fl-s0")
    track = Track(job, "running", done_before=6, rounds=8)
    progress = SweepProgress([track], started=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 140.0)
    assert progress.seconds_left() == pytest.approx(40.0)  # two rounds in 40 s, two are left
    track.rounds = 6
    assert progress.seconds_left() is None


def test_rounds_that_a_job_is_resumed_after_say_nothing_of_the_pace(tmp_path: Path) -> None:
    (job,) = make_plan(small_grid(tmp_path, rounds=3), {}).jobs(tmp_path / "out")

    with pytest.raises(KeyboardInterrupt):
        run(job.config, tmp_path / "out", watcher=Quiet(1))
    left: list[float | None] = []
    board = Rounds(lambda progress: left.append(progress.seconds_left()))
    (track,) = run_jobs([job], Scripted({}), board=board).tracks
    assert (track.done_before, track.rounds) == (1, 1)
    assert left
    assert set(left) == {None}
