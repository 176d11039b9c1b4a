"""What devices keep, in memory or in files of the run: the same run, to the last digit."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reliability.faults import Quiet

from mix2fld.base.errors import InputError, ResourceError
from mix2fld.engine.fleets.device_states import StatesInMemory
from mix2fld.runs import state_files
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.runs.state_files import StatesInFiles
from mix2fld.types import State
from stored_runs import check_resumed, contents
from toys import CoinLink, examples, toy_config, toy_dataset

MANY = {"devices": 12, "samples_per_device": 20, "participants": 3, "rounds": 3}


@pytest.mark.parametrize(
    ("name", "initial"), [("fl", "common"), ("topk", "common"), ("fd", "independent")]
)
def test_a_run_on_disk_has_the_rounds_of_one_in_memory(
    tmp_path: Path, name: str, initial: str
) -> None:
    for where in ("memory", "disk"):
        config = toy_config(protocol=name, device_states=where, initial_weights=initial, **MANY)
        run(config, tmp_path / where, dataset=toy_dataset(), link=CoinLink())
    one, other = (contents(tmp_path / at / f"{name}-s0") for at in ("memory", "disk"))
    assert one["rounds.jsonl"] == other["rounds.jsonl"]
    assert len(other) > len(one)


@pytest.mark.parametrize(("name", "files"), [("fd", 2), ("murmur-mix", 2), ("topk", 64)])
def test_a_run_that_was_stopped_ends_with_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: int
) -> None:
    monkeypatch.setattr(state_files, "FILES", files)
    config = toy_config(protocol=name, device_states="disk", **{**MANY, "rounds": 6})
    check_resumed(tmp_path, config, 1, 4, link=CoinLink())


def test_a_round_writes_only_what_changed(tmp_path: Path) -> None:
    many = {**MANY, "devices": 40, "samples_per_device": 5, "participants": 2, "rounds": 8}
    config = toy_config(protocol="fd", device_states="disk", **many)
    run(config, tmp_path, dataset=toy_dataset())
    sizes = {path: path.stat().st_size for path in RunFiles(tmp_path / "fd-s0").all_states()}
    weights = sum(
        w.nbytes
        for w in make_simulation(config, toy_dataset()).scenario.learning.initial_weights(0)
    )
    assert 3 <= len(sizes) <= 8
    assert max(sizes.values()) < 5 * weights + 5000


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_file_of_states_costs_one_round(tmp_path: Path, damage: str) -> None:
    config = toy_config(protocol="fd", device_states="disk", **{**MANY, "rounds": 5})
    given = {"dataset": toy_dataset(), "link": CoinLink()}
    run(config, tmp_path / "once", **given)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "hurt", watcher=Quiet(3), **given)
    newest = RunFiles(tmp_path / "hurt" / "fd-s0").all_states()[-1]
    if damage == "changed":
        newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    else:
        newest.unlink()
    watcher = Quiet()
    run(config, tmp_path / "hurt", watcher=watcher, **given)
    (note,) = watcher.notes
    assert f"needs {newest.name}, which is damaged or missing" in note
    assert "resumes after round 2" in note
    found, wanted = (contents(tmp_path / at / "fd-s0") for at in ("hurt", "once"))
    assert {name: data for name, data in found.items() if not name.endswith(".damaged")} == wanted


def test_states_of_a_checkpoint_that_had_them_all_are_taken_over(tmp_path: Path) -> None:
    keeper = StatesInFiles(tmp_path)
    start = keeper.start(3, lambda device: {"a": np.full(30, device)}, alike=False)
    old = [{"a": np.full(30, 10 * device)} for device in range(3)]
    found = keeper.restored(old)
    assert found.keys() == start.keys()
    for device, state in keeper.read(found, range(3)).items():
        np.testing.assert_array_equal(state["a"], np.full(30, 10 * device))


@examples(30)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=12), st.integers(1, 4))
def test_files_read_as_memory_does(rounds: list[list[int]], files: int) -> None:
    """Any devices changed in any rounds, with few files, so that states move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_files, "FILES", files)
        keepers: list[Any] = [StatesInMemory(), StatesInFiles()]
        states = [k.start(10, lambda d: {"w": np.full(20, d)}, alike=False) for k in keepers]
        for number, changed in enumerate(rounds):
            shared = np.full(100, -number)
            after: dict[int, State] = {d: after_round(number, d, shared) for d in changed}
            states = [k.replaced(s, after) for k, s in zip(keepers, states, strict=True)]
        wanted, found = (k.read(s, range(10)) for k, s in zip(keepers, states, strict=True))
        for device in range(10):
            assert wanted[device].keys() == found[device].keys()
            for name, array in wanted[device].items():
                np.testing.assert_array_equal(found[device][name], array)
        numbers = {number for number in states[1]["file"].tolist() if number >= 0}
        assert len(numbers) <= files
        folder = keepers[1]._files.folder
        del keepers
        gc.collect()
        assert not folder.exists()


def after_round(number: int, device: int, shared: Any) -> State:
    """Three forms of states, with and without something of a device's own."""
    if device % 3 == 0:
        return {"w": shared}
    own = np.full(50 + device % 2, 100 * number + device, np.float32)
    return {"w": own, "teacher": shared, "flag": np.array(device > 4), "none": np.zeros((0, 3))}


def test_states_of_the_same_entries_become_one() -> None:
    one, other = np.zeros(30), np.ones(30)
    changed = {0: {"a": one}, 1: {"a": one}, 2: {"a": other}, 3: {"a": one, "b": one}}
    after = StatesInMemory().replaced([{}] * 4, changed)
    assert after[0] is after[1]
    assert len({id(state) for state in after}) == 3
    keeper = StatesInFiles()
    found = keeper.replaced(keeper.start(4, lambda _: {}, alike=True), changed)
    assert len(set(found["row"].tolist())) == 3


def test_a_full_disk_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_files, "write_atomic", full)
    config = toy_config(protocol="fd", device_states="disk", **MANY)
    with pytest.raises(ResourceError, match=r"out = .*No space left.*the same command resumes"):
        run(config, tmp_path, dataset=toy_dataset())


def test_a_wrong_place_is_refused() -> None:
    with pytest.raises(InputError, match="device_states"):
        toy_config(device_states="cloud")
