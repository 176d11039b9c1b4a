"""Run folders of format 2, kept in ``tests/records``: read and resumed, and damage is found."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reliability.faults import Quiet

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.base.trees import difference, flatten
from mix2fld.cli import main
from mix2fld.config.settings import Config
from mix2fld.engine.state import RunState
from mix2fld.runs.checkpoint import dump_checkpoint, load_checkpoint
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.reader import read_run, read_runs
from mix2fld.runs.records import FORMAT
from mix2fld.runs.simulation import make_simulation, resume_run, run
from places import TESTS
from stored_runs import as_kept
from toys import toy_dataset

KEPT = TESTS / "records" / "format2"
STOPPED = {"early": 2, "late": 3}
NEW_IN_SUMMARY = {"devices", "privacy", "training", "quorum", "joules", "battery_rounds"}
PROTOCOLS = ("fl", "mix2fld")


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs by this version, from the start."""
    out = tmp_path_factory.mktemp("today")
    for protocol in PROTOCOLS:
        run(config_of(protocol), out, dataset=toy_dataset(), watcher=Quiet())
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(KEPT, tmp_path / "kept"))


def config_of(protocol: str) -> Config:
    return RunFolder(KEPT / "finished" / f"{protocol}-s0").config()


def rounds_in(folder: Path) -> list[dict]:
    found = read_run(folder)
    assert found is not None
    assert found.notes == ()
    return as_kept(found.rounds)


def test_the_kept_runs_are_of_format_2() -> None:
    for file in KEPT.glob("*/*/rounds.jsonl"):
        line = json.loads(file.read_text().splitlines()[0])
        assert line["format"] == 2
        assert all(type(came) is bool for came in line["uploads"]["devices"])
    for file in KEPT.rglob("checkpoint*"):
        assert rb"{\"format\": 2" in file.read_bytes()[:200]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_finished_runs_are_read(protocol: str, today: Path) -> None:
    name = f"{protocol}-s0"
    assert rounds_in(KEPT / "finished" / name) == rounds_in(today / name)
    found, new = (RunFolder(path / name).finished() for path in (KEPT / "finished", today))
    assert found is not None
    assert new is not None
    assert as_kept(found.rounds) == as_kept(new.rounds)
    known = {k: v for k, v in new.summary.items() if k not in NEW_IN_SUMMARY}
    assert {**found.summary, "format": FORMAT} == known
    assert found.rounds[0]["asked"] == [0, 1, 2, 3]
    assert found.rounds[0]["uploads"] == {"attempted": 4, "delivered": 1, "devices": [2]}


@pytest.mark.parametrize("stopped", STOPPED)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stopped_runs_are_resumed(folder: Path, today: Path, protocol: str, stopped: str) -> None:
    name = f"{protocol}-s0"
    path, quiet = folder / stopped / name, Quiet()
    assert rounds_in(path) == rounds_in(today / name)[: STOPPED[stopped]]
    result = resume_run(path, toy_dataset(), quiet)
    assert quiet.notes == []
    assert as_kept(result.rounds) == rounds_in(path) == rounds_in(today / name)
    new = RunFolder(today / name).finished()
    assert new is not None
    kept, whole = (
        {k: v for k, v in summary.items() if k not in {"checksum", *NEW_IN_SUMMARY}}
        for summary in (result.summary, new.summary)
    )
    assert kept == whole
    written = (path / "rounds.jsonl").read_bytes().splitlines()
    before = (KEPT / stopped / name / "rounds.jsonl").read_bytes().splitlines()
    assert written[: STOPPED[stopped]] == before
    checkpoint = path / "checkpoint.safetensors"
    like = make_simulation(result.config, toy_dataset()).start()
    assert_same_state(checkpoint, today / name / checkpoint.name, like)
    again = Quiet()
    resume_run(path, toy_dataset(), again)
    assert again.notes == []


def assert_same_state(one: Path, other: Path, like: RunState) -> None:
    trees = [load_checkpoint(path, like).tree for path in (one, other)]
    for tree in trees:
        del tree["roster"]  # format 2 does not say whose upload was delivered when
    assert difference(*trees) is None
    # Devices one by one: those of an old file do not share what they have in common.
    parts = [[*tree.pop("devices"), tree] for tree in trees]
    for one_part, other_part in zip(*parts, strict=True):
        mine, theirs = flatten(one_part)[1], flatten(other_part)[1]
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            np.testing.assert_array_equal(tensor, theirs[name], err_msg=name)


def test_a_deployment_that_kept_nothing_of_its_devices_is_resumed(tmp_path: Path) -> None:
    start = make_simulation(config_of("fl"), toy_dataset()).start()
    like = replace(start, devices=np.zeros(len(start.devices), np.bool_))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(dump_checkpoint(replace(start, devices=[]), "", {}))
    np.testing.assert_array_equal(load_checkpoint(path, like).state(like).devices, like.devices)


def test_reports_and_frames_show_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = read_runs([KEPT])
    assert found.notes == []
    assert [run.finished for run in found.runs].count(True) == 2
    assert sorted(len(run.rounds) for run in found.runs) == [2, 2, 2, 3, 3, 4, 4]
    devices = mix2fld.load_runs(KEPT / "finished", rows="devices")
    assert devices["asked"].all()
    assert devices["uploaded"].sum() == 2 * 7
    page = tmp_path / "page.html"
    main(["report", str(KEPT / "finished"), "--out", str(page)])
    assert "Mix2FLD" in page.read_text()
    assert "damaged" not in capsys.readouterr().err


@pytest.mark.parametrize("file", ["rounds.jsonl", "checkpoint.safetensors", "config.toml"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_damage_is_found(folder: Path, today: Path, protocol: str, file: str) -> None:
    """However a byte changes, what is read is true, and what is resumed ends as it should."""
    name = f"{protocol}-s0"
    path, true = folder / "late" / name / file, rounds_in(today / name)
    sound, rng, told = path.read_bytes(), np.random.default_rng(0), 0
    like = make_simulation(config_of(protocol), toy_dataset()).start()
    for _ in range(60):
        changed = bytearray(sound)
        changed[int(rng.integers(len(sound)))] ^= 1 << int(rng.integers(8))
        shutil.rmtree(folder / "late" / name)
        shutil.copytree(KEPT / "late" / name, folder / "late" / name)
        path.write_bytes(changed)
        notes: list[str] = []
        try:
            found = read_run(path.parent)
            assert found is not None
            assert found.rounds == true[: len(found.rounds)]
            state, rounds = RunFolder(path.parent, notes.append).resume(like)
        except InputError:
            told += 1
            continue
        assert rounds == true[: state.round_number]
        told += bool(notes)
    assert told == 60
    if file != "config.toml":
        resume_run(path.parent, toy_dataset(), Quiet())
        assert rounds_in(path.parent) == true


def test_a_checkpoint_cannot_pass_for_an_older_one(folder: Path, today: Path) -> None:
    path = folder / "late" / "mix2fld-s0" / "checkpoint.safetensors"
    sound = path.read_bytes()
    for changed in (
        sound.replace(rb"{\"format\": 2", rb"{\"format\": 1"),
        sound.replace(rb"\"sha256\"", rb"\"sha257\""),
        sound.replace(rb"\"made_with\"", rb"\"make_with\""),
    ):
        assert changed != sound
        path.write_bytes(changed)
        quiet = Quiet()
        resume_run(path.parent, toy_dataset(), quiet)
        (note,) = quiet.notes
        assert "checkpoint.safetensors" in note
        assert rounds_in(path.parent) == rounds_in(today / "mix2fld-s0")
        shutil.rmtree(path.parent)
        shutil.copytree(KEPT / "late" / "mix2fld-s0", path.parent)
