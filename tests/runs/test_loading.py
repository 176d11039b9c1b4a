"""Runs are read while others write them, and come out as frames."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.runs.reader import read_run, read_runs, require_runs
from mix2fld.runs.summary import PARTS, metrics_of, run_metrics, seconds_by_part
from places import TESTS
from stored_runs import Replay


def test_a_run_is_read_at_every_stage(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fl-s0"
    replay = Replay(runs / "fl-s0", folder)
    assert read_runs([tmp_path]).runs == []
    replay.begin()
    stages = []
    for act in (
        lambda: None,
        lambda: replay.append(1),
        lambda: replay.append_half(2),
        lambda: replay.append_other_half(2),
        lambda: replay.append(3),
        replay.finish,
    ):
        act()
        found = read_runs([tmp_path])
        (run,) = found.runs
        stages.append((len(run.rounds), run.finished))
        assert found.notes == []
    assert stages == [(0, False), (1, False), (1, False), (2, False), (3, False), (3, True)]
    shutil.rmtree(folder)
    assert read_runs([tmp_path]).runs == []
    assert read_run(folder) is None


def test_a_damaged_line_is_named_and_what_is_before_it_kept(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fl-s0"
    shutil.copytree(runs / "fl-s0", folder)
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    forged = lines[1].replace('"global": 0.', '"global": 0.9', 1)
    assert forged != lines[1]
    for damage in ("\x00\x00\n", "[]\n", '{"round": 2}\n', forged):
        (folder / "rounds.jsonl").write_text(lines[0] + damage + lines[2])
        found = read_runs([tmp_path])
        assert [info["round"] for info in found.runs[0].rounds] == [1]
        assert not found.runs[0].finished
        assert f"{folder}: rounds.jsonl line 2 " in found.notes[0]
        assert f"mix2fld resume {folder} repairs it" in found.notes[0]


@pytest.mark.parametrize("kept", [0, 2])
def test_a_finished_run_with_fewer_rounds_is_no_silent_result(
    runs: Path, tmp_path: Path, kept: int
) -> None:
    folder = tmp_path / "fl-s0"
    shutil.copytree(runs / "fl-s0", folder)
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_text("".join(lines[:kept]))
    found = read_runs([tmp_path])
    assert not found.runs[0].finished
    assert "summary.json its checksum does not match" in found.notes[0]
    shutil.copytree(runs / "fd-s0", tmp_path / "fd-s0")
    with pytest.warns(UserWarning, match="mix2fld resume .* repairs it"):
        mix2fld.load_runs(tmp_path)


def test_records_that_cannot_be_read_are_a_note(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fl-s0"
    shutil.copytree(runs / "fl-s0", folder)
    (folder / "rounds.jsonl").unlink()
    (folder / "rounds.jsonl").mkdir()
    found = read_runs([tmp_path])
    assert not found.runs
    assert f"{folder}/rounds.jsonl: cannot be read (not a file)" in found.notes[0]


def test_foreign_files_are_passed_over(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "fl-s0", tmp_path / "fl-s0")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text("[tool]\nname = 1\n")
    found = require_runs([tmp_path])
    assert [run.protocol for run in found.runs] == ["fl"]
    assert "other" in found.notes[0]


@pytest.mark.parametrize(("name", "words"), [("nowhere", "no such folder"), ("", "holds no run")])
def test_nothing_to_show_is_said(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        require_runs([tmp_path / name])


def test_a_frame_has_a_row_for_each_round(runs: Path) -> None:
    frame = mix2fld.load_runs(runs)
    assert len(frame) == 4 * 2 * 3
    for (protocol, seed), rounds in frame.groupby(["protocol", "seed"]):
        summary = json.loads((runs / f"{protocol}-s{seed}" / "summary.json").read_text())
        assert rounds["accuracy/mean"].iloc[-1] == pytest.approx(summary["scores"]["mean"])
        assert rounds["so_far/bits_up"].iloc[-1] == summary["bits"]["up"]
        assert rounds["uploads/delivered"].sum() == summary["uploads"]["delivered"]
        seconds = sum(summary["seconds"].values())
        assert rounds["so_far/seconds"].iloc[-1] == pytest.approx(seconds)
    assert set(frame["local_steps"]) == {6}
    assert "tolerance" not in frame


def test_frames_of_runs_and_of_devices(runs: Path) -> None:
    assert len(mix2fld.load_runs(runs, rows="runs")) == 8
    devices = mix2fld.load_runs(runs / "fl-s0", rows="devices")
    assert len(devices) == 3 * 4
    last = json.loads((runs / "fl-s0" / "rounds.jsonl").read_text().splitlines()[-1])
    assert devices["accuracy"].tolist()[-4:] == last["scores"]["devices"]
    for column, listed in (
        ("asked", last["asked"]),
        ("uploaded", last["uploads"]["devices"]),
        ("downloaded", last["downloads"]["devices"]),
    ):
        expected = [device in listed for device in range(4)]
        assert devices[column].tolist()[-4:] == expected


def test_runs_of_an_older_version_are_rows_without_what_they_do_not_say() -> None:
    old = TESTS / "records" / "format2"
    frame = mix2fld.load_runs(old, rows="runs")
    assert len(frame) == len(require_runs([old]).runs) > 1
    assert (frame["bits/up"] > 0).all()
    silent = frame["folder"].str.contains("finished")  # the others are summed up now
    assert frame["training/learning_rate"].isna().tolist() == silent.tolist()
    assert silent.any()


def test_a_frame_of_runs_has_the_repeats_of_all_rounds(runs: Path) -> None:
    rounds = read_run(runs / "fl-s0").rounds
    told = [
        {**info, "quorum": {"met": met, "repeats": repeats}}
        for info, met, repeats in zip(rounds, (False, True, True), (3, 1, 0), strict=True)
    ]
    found = run_metrics(told)
    assert found["quorum/repeats"] == 4
    assert found["quorum/met"] == 0


def test_a_frame_of_runs_has_the_totals_of_the_summary(runs: Path) -> None:
    summary = json.loads((runs / "fl-s0" / "summary.json").read_text())
    row = mix2fld.load_runs(runs / "fl-s0", rows="runs").iloc[0]
    for group in ("bits", "uploads", "downloads"):
        for name, total in summary[group].items():
            assert row[f"{group}/{name}"] == total > 0
    for group in ("seconds", "joules"):
        for name, total in summary[group].items():
            if name != "device_round":
                assert row[f"{group}/{name}"] == pytest.approx(total)
    of_device, rounds = summary["joules"]["device_round"], summary["rounds"]
    assert row["joules/device_mean"] == pytest.approx(of_device["mean"] * rounds)
    assert row["joules/device_most"] == pytest.approx(of_device["most"] * rounds)
    assert row["accuracy/mean"] == summary["scores"]["mean"]


def test_time_is_split_by_where_it_went(runs: Path) -> None:
    run = read_run(runs / "mix2fld-s0")
    assert run is not None
    for info, parts in zip(run.rounds, seconds_by_part(run.rounds), strict=True):
        assert parts["uplink"] == pytest.approx(info["slots"]["up"] * 1e-3)
        assert parts["downlink"] == pytest.approx(info["slots"]["down"] * 1e-3)
        assert parts["device"] == pytest.approx(6 * 100e-6)
        converted = info["seeds"]["samples"] > 0 and info["uploads"]["delivered"] > 0
        assert parts["server"] == pytest.approx(20 * 100e-6 * converted)
        assert sum(parts.values()) == pytest.approx(sum(info["seconds"].values()))
        assert set(parts) == set(PARTS)


def test_metrics_leave_out_what_a_round_does_not_have(runs: Path) -> None:
    run = read_run(runs / "isolated-s0")
    assert run is not None
    assert all("accuracy/server" not in row for row in metrics_of(run.rounds))
    assert all(np.isfinite(list(row.values())).all() for row in metrics_of(run.rounds))


def test_a_damaged_run_is_named_in_an_export(runs: Path, tmp_path: Path, capsys) -> None:
    folder = tmp_path / "fl-s0"
    shutil.copytree(runs / "fl-s0", folder)
    (folder / "rounds.jsonl").write_bytes((folder / "rounds.jsonl").read_bytes()[:-5])
    main(["export", str(tmp_path), "--rows", "runs"])
    assert "repairs it" in capsys.readouterr().err
