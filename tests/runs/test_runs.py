"""Runs on disk: what is written, going on after a stop, and what is refused."""

import json
from pathlib import Path

import pytest
from reliability.faults import Quiet

from mix2fld.base.errors import InputError
from mix2fld.engine.divergence import DivergedError
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.config_file import load_sealed_config
from mix2fld.runs.simulation import run
from stored_runs import check_resumed, contents
from toys import CoinLink, toy_config, toy_dataset


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, name: str) -> None:
    config = toy_config(protocol=name, rounds=3)
    check_resumed(tmp_path, config, 1, 2, link=CoinLink())
    whole = contents(tmp_path / "whole" / config.run_name)
    assert set(whole) == {"config.toml", "rounds.jsonl", "checkpoint.safetensors", "summary.json"}


def test_a_round_written_without_its_checkpoint_is_played_again(tmp_path: Path) -> None:
    config = toy_config(rounds=3)
    run(config, tmp_path / "whole", dataset=toy_dataset())
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", dataset=toy_dataset(), watcher=Quiet(2))
    rounds = tmp_path / "cut" / config.run_name / "rounds.jsonl"
    rounds.write_bytes(rounds.read_bytes() + b'{"round": 3, "half')
    run(config, tmp_path / "cut", dataset=toy_dataset())
    name = config.run_name
    assert contents(tmp_path / "cut" / name) == contents(tmp_path / "whole" / name)


def test_a_finished_run_is_not_played_again(tmp_path: Path) -> None:
    config = toy_config()
    first = run(config, tmp_path, dataset=toy_dataset())
    before = contents(tmp_path / config.run_name)
    again = run(config, tmp_path, dataset=toy_dataset(), watcher=Quiet(1))
    assert again[0].summary == first[0].summary
    assert again[0].rounds == first[0].rounds
    assert contents(tmp_path / config.run_name) == before


def test_summary_has_what_is_promised(tmp_path: Path) -> None:
    config = toy_config(protocol="mix2fld", seed=5, rounds=3)
    run(config, tmp_path, dataset=toy_dataset(), link=CoinLink())
    folder = tmp_path / "mix2fld-s5"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["protocol"] == "mix2fld"
    assert summary["seed"] == 5
    assert summary["rounds"] == 3
    assert set(summary["scores"]) >= {"mean", "std", "min", "max", "reference"}
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert summary["uploads"]["attempted"] == 12
    assert 0 < summary["uploads"]["delivered"] < 12
    assert summary["bits"]["up"] == sum(info["bits"]["up"] for info in rounds)
    seconds = sum(info["slots"]["up"] + info["slots"]["down"] for info in rounds) * 1e-3
    assert summary["seconds"]["communication"] == pytest.approx(seconds)
    assert summary["seconds"]["computing"] == pytest.approx(
        3 * 30 * 1e-4 + 20 * 1e-4 * sum(info["seeds"]["samples"] > 0 for info in rounds)
    )
    assert summary["seeds"]["condition"] == pytest.approx(1 / (1 - 2 * 0.1))
    assert summary["seeds"]["distinct_groups"] > 0
    assert load_sealed_config(folder / "config.toml") == config


def test_another_config_is_refused_and_nothing_lost(tmp_path: Path) -> None:
    config = toy_config()
    run(config, tmp_path, dataset=toy_dataset())
    before = contents(tmp_path / config.run_name)
    with pytest.raises(InputError, match=r"local_steps = 30, not 31.*--overwrite"):
        run(config.replace(local_steps=31), tmp_path, dataset=toy_dataset())
    assert contents(tmp_path / config.run_name) == before
    run(config.replace(local_steps=31), tmp_path, dataset=toy_dataset(), overwrite=True)
    assert load_sealed_config(tmp_path / config.run_name / "config.toml").learning.local_steps == 31


def test_a_foreign_folder_is_refused_even_to_overwrite(tmp_path: Path) -> None:
    config = toy_config()
    precious = tmp_path / config.run_name / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="holds other files"):
            run(config, tmp_path, dataset=toy_dataset(), overwrite=overwrite)
    assert contents(precious.parent) == {"thesis.txt": b"years of work"}


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        run(toy_config(), tmp_path / "file" / "runs", dataset=toy_dataset())


def test_divergence_is_named() -> None:
    with pytest.raises(DivergedError, match=r"learning_rate = 1e\+30.*device.*round 1"):
        run(toy_config(learning_rate=1e30), dataset=toy_dataset())
