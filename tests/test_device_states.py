"""What devices keep, in memory or in a file: the same run, to the byte."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mix2fld.errors import InputError
from mix2fld.fleet import slot_file
from mix2fld.fleet.device_states import StatesInMemory, StatesOnDisk
from mix2fld.fleet.slot_file import SlotFile
from mix2fld.runs.simulation import make_simulation, run
from toys import CoinLink, toy_config, toy_dataset

MANY = {"devices": 12, "samples_per_device": 20, "participants": 3, "rounds": 3}


def arrays_of(number: int) -> list[Any]:
    rng = np.random.default_rng(number)
    return [
        rng.normal(size=(3, 5)).astype(np.float32),
        rng.integers(9, size=7),
        np.array(number % 2 == 0),
        np.zeros((0, 4), np.float32),
    ]


@pytest.mark.parametrize("name", ["fl", "topk", "fd", "mix2fld"])
@pytest.mark.parametrize("initial", ["common", "independent"])
def test_a_run_on_disk_is_the_run_in_memory(tmp_path: Path, name: str, initial: str) -> None:
    for where in ("memory", "disk"):
        config = toy_config(protocols=name, device_states=where, initial_weights=initial, **MANY)
        run(config, tmp_path / where, dataset=toy_dataset(), link=CoinLink())
    for file in ("rounds.jsonl", "checkpoint.safetensors"):
        one, other = ((tmp_path / at / f"{name}-s0" / file) for at in ("memory", "disk"))
        assert one.read_bytes() == other.read_bytes()


def test_weights_of_a_device_are_mapped_and_those_of_all_are_not() -> None:
    config = toy_config(protocols="fd", device_states="disk", **MANY)
    simulation = make_simulation(config, toy_dataset())
    first = simulation.start()
    state, info = simulation.run_round(first)
    asked = set(info.asked)
    assert len({id(state.devices[d]) for d in set(range(12)) - asked}) <= 2
    for device, own in enumerate(state.devices):
        if device in asked:
            assert not any(weights.flags.writeable for weights in own["weights"])
        else:
            assert own["weights"] is first.devices[device]["weights"]
    assert simulation.fleet._states._slots.size > 0


def test_older_states_stay_what_they_are() -> None:
    config = toy_config(protocols="fd", device_states="disk", **{**MANY, "participants": "all"})
    simulation = make_simulation(config, toy_dataset())
    state, _ = simulation.run_round(simulation.start())
    then = [[weights.copy() for weights in own["weights"]] for own in state.devices]
    later = state
    for _ in range(3):
        later, _ = simulation.run_round(later)
    for own, kept in zip(state.devices, then, strict=True):
        for now, before in zip(own["weights"], kept, strict=True):
            np.testing.assert_array_equal(now, before)


def test_stored_arrays_are_equal_and_slots_are_used_again() -> None:
    slots = SlotFile()
    held = {number: slots.store(arrays_of(number)) for number in range(50)}
    grown = slots._end
    for number in range(0, 50, 2):
        del held[number]
    gc.collect()
    for number in range(50, 75):
        held[number] = slots.store(arrays_of(number))
    assert slots._end == grown
    for number, arrays in held.items():
        slots.forget_pages()
        for found, wanted in zip(arrays, arrays_of(number), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_a_file_of_several_extents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_file, "EXTENT", 1 << 16)
    slots = SlotFile()
    arrays = [np.full(size, size, np.float32) for size in (10, 9_000, 40_000, 3, 16_000)]
    stored = [slots.store([array])[0] for array in arrays]
    assert slots.size % (1 << 16) == 0
    for found, wanted in zip(stored, arrays, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_shared_or_unchanged_is_not_written() -> None:
    states, shared = StatesOnDisk(), np.ones(500, np.float32)
    before = [{"weights": np.zeros(400, np.float32), "teacher": shared}] * 3
    own = np.arange(400, dtype=np.float32)
    after = states.replaced(before, {0: {"weights": own, "teacher": shared}})
    assert after[0]["teacher"] is shared
    np.testing.assert_array_equal(after[0]["weights"], own)
    again = states.replaced(after, {0: dict(after[0]), 1: {"weights": own, "teacher": own}})
    assert again[0]["weights"] is after[0]["weights"]
    assert again[1]["weights"] is own
    assert again[2] is before[2]


def test_states_of_the_same_entries_become_one() -> None:
    one, other = np.zeros(3), np.ones(3)
    after = StatesInMemory().replaced(
        [{}] * 4, {0: {"a": one}, 1: {"a": one}, 2: {"a": other}, 3: {"a": one, "b": one}}
    )
    assert after[0] is after[1]
    assert len({id(state) for state in after}) == 3


def test_a_full_disk_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(slot_file.os, "ftruncate", full)
    with pytest.raises(InputError, match=r"device_states = disk: .*No space left.*TMPDIR"):
        SlotFile().store([np.zeros(3)])


def test_a_wrong_place_is_refused() -> None:
    with pytest.raises(InputError, match="device_states"):
        toy_config(device_states="cloud")
