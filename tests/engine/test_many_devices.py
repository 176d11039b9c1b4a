"""Many devices of which few take part, and devices that differ."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.config.settings import AUTO_EVALUATED, Config
from mix2fld.engine.clock import device_step_us
from mix2fld.engine.device_turn import receive
from mix2fld.engine.fleets import local
from mix2fld.engine.scenario import evaluated_devices, reference_device
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.page_data import page_data
from mix2fld.report.tables import results_table
from mix2fld.runs.reader import frame_of, read_run, read_runs
from mix2fld.runs.simulation import Simulation, run
from mix2fld.runs.summary import metrics_of, seconds_by_part
from toys import CoinLink, representatives, simulation_of, toy_config, toy_dataset

every_family = pytest.mark.parametrize("name", representatives(PROTOCOLS))
MANY = {"devices": 12, "samples_per_device": 20, "participants": 3, "rounds": 3}
simulate = partial(simulation_of, over=CoinLink(), **MANY)


def rounds_of(simulation: Simulation, count: int = 3) -> tuple[list[Any], list[Any]]:
    state, states, infos = simulation.start(), [], []
    for _ in range(count):
        state, info = simulation.run_round(state)
        states.append(state)
        infos.append(info)
    return states, infos


@cache
def all_measured(name: str) -> tuple[list[Any], list[Any]]:
    return rounds_of(simulate(name, evaluated_devices="all"))


@every_family
def test_only_evaluated_devices_are_measured(name: str) -> None:
    simulation = simulate(name, evaluated_devices=4)
    _, infos = rounds_of(simulation)
    evaluated = list(evaluated_devices(simulation.scenario.config))
    everyone = all_measured(name)[1]
    for info, of_all in zip(infos, everyone, strict=True):
        assert info.scores["measured"] == evaluated
        assert info.scores["devices"] == [of_all.scores["devices"][d] for d in evaluated]
        assert info.scores["reference"] == of_all.scores["reference"]
        assert info.curve == of_all.curve


@every_family
def test_measuring_changes_nothing(name: str) -> None:
    (few, _), (all_of_them, _) = rounds_of(simulate(name, evaluated_devices=1)), all_measured(name)
    for one, other in zip(few[-1].devices, all_of_them[-1].devices, strict=True):
        for a, b in zip(one["weights"], other["weights"], strict=True):
            np.testing.assert_array_equal(a, b)


@every_family
def test_the_last_round_measured_alone_is_measured_the_same(name: str) -> None:
    (last, of_last), (every, of_every) = (
        rounds_of(simulate(name, participants="all", evaluated_rounds=which))
        for which in ("last", "all")
    )
    assert of_last[-1] == of_every[-1]
    reference = reference_device(toy_config(protocol=name, **MANY))
    for info, of_all in zip(of_last[:-1], of_every[:-1], strict=True):
        known = {d: value for d, value in enumerate(info.scores["devices"]) if value is not None}
        assert known == {reference: of_all.scores["devices"][reference]}
        assert info.curve == of_all.curve
    for a, b in zip(last[-1].devices, every[-1].devices, strict=True):
        np.testing.assert_array_equal(
            np.concatenate([w.ravel() for w in a["weights"]]),
            np.concatenate([w.ravel() for w in b["weights"]]),
        )


@pytest.mark.parametrize("fields", [{"participants": 3}, {"stop_when_converged": True}])
def test_a_last_round_that_is_not_known_in_advance_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"evaluated_rounds = last: must be all with"):
        Config.of(evaluated_rounds="last", **fields)


def test_no_other_model_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = simulate("fl", evaluated_devices=2, curve_points=1)
    state, _ = simulation.run_round(simulation.start())
    tests, tested = simulation.fleet._tests, []
    real = tests.scores
    monkeypatch.setattr(tests, "scores", lambda models: tested.append(len(models)) or real(models))
    evaluated = set(evaluated_devices(simulation.scenario.config))
    for _ in range(4):
        state, info = simulation.run_round(state)
        assert tested[-1] == len(evaluated & set(info.asked)) + (state.server.weights is not None)


@pytest.mark.parametrize(
    ("value", "devices", "count"),
    [("auto", 10, 10), ("auto", 101, AUTO_EVALUATED), ("all", 101, 101), (7, 101, 7), ("7", 10, 7)],
)
def test_how_many_are_evaluated(value: Any, devices: int, count: int) -> None:
    config = Config.of(evaluated_devices=value, devices=devices)
    drawn = evaluated_devices(config)
    assert len(set(drawn)) == count == config.devices_evaluated
    assert list(drawn) == sorted(drawn)
    assert set(drawn) <= set(range(devices))
    assert reference_device(config) in drawn


def test_the_evaluated_devices_are_drawn_uniformly() -> None:
    configs = (Config.of(devices=20, evaluated_devices=5, seed=seed) for seed in range(400))
    often = np.bincount([d for config in configs for d in evaluated_devices(config)], minlength=20)
    assert often.sum() == 400 * 5
    deviation = np.sqrt(400 * 0.25 * 0.75)
    assert np.abs(often - 100).max() < 4.5 * deviation


@pytest.mark.parametrize("value", [0, -1, True, 0.5, "some", "", None])
def test_a_bad_number_of_evaluated_devices_is_named(value: Any) -> None:
    with pytest.raises(InputError, match=r"evaluated_devices = .*: must be all, a number"):
        Config.of(evaluated_devices=value)


def test_records_summaries_and_tables_say_how_many_were_measured(tmp_path: Path) -> None:
    config = toy_config(protocol="fl", evaluated_devices=4, **MANY)
    (result,) = run(config, tmp_path, dataset=toy_dataset())
    drawn = result.rounds[-1]["scores"]["devices"]
    accuracies = [accuracy for accuracy in drawn if accuracy is not None]  # of those that trained
    assert (len(drawn), len(accuracies)) == (4, 3)
    assert result.summary["devices"] == {"all": 12, "measured": 3}
    assert result.summary["scores"]["mean"] == np.mean(accuracies)
    assert metrics_of(result.rounds)[-1]["accuracy/std"] == np.std(accuracies)
    row = over_seeds([result.summary])
    assert (row["measured"], row["devices"]) == (3, 12)
    assert spread_words([row]) == "std over the measured devices of the run"
    assert "3 of 12" in str(results_table([result]).columns[1].header)
    data = page_data(read_runs([tmp_path]))
    assert data["views"]["finished"]["series"][0]["summary"]["measured"] == 3
    (shown,) = data["runs"].values()
    assert shown["devices"] == result.rounds[-1]["scores"]["measured"]
    assert [len(row) for row in shown["scores"]] == [4] * 3
    assert [len(letters) for letters in shown["up"]] == [4] * 3


def test_a_frame_has_the_devices_that_were_asked_or_measured(tmp_path: Path) -> None:
    config = toy_config(protocol="fl", evaluated_devices=4, **MANY)
    run(config, tmp_path, dataset=toy_dataset())
    there = read_run(tmp_path / "fl-s0")
    assert there is not None
    frame = frame_of([there], "devices")
    trained: set[int] = set()
    for info in there.rounds:
        trained |= {*info["asked"]}
        of_round = frame[frame["round"] == info["round"]]
        measured = info["scores"]["measured"]
        assert list(of_round["device"]) == sorted({*info["asked"], *measured})
        assert list(of_round["device"][of_round["accuracy"].notna()]) == [
            device for device in measured if device in trained
        ]


def test_a_list_of_equal_speeds_is_one_speed() -> None:
    one, listed = (
        run(toy_config(protocol="mix2fld", device_step_us=us), dataset=toy_dataset())[0].rounds
        for us in (70.1, [70.1] * 4)
    )
    assert one == listed


def test_the_slowest_participant_is_waited_for_and_named() -> None:
    costs = tuple(float(us) for us in range(100, 1300, 100))
    simulation = simulate("fl", device_step_us=costs, evaluated_devices="all")
    before = 0.0
    for state, info in zip(*rounds_of(simulation), strict=True):
        slowest = max(info.asked)
        steps = simulation.scenario.config.learning.local_steps
        assert info.slowest == {"device": slowest, "seconds": steps * costs[slowest] * 1e-6}
        assert state.clock.computing == before + info.slowest["seconds"]
        (part,) = seconds_by_part([info.__dict__])
        assert part["device"] == info.slowest["seconds"]
        last = [point for point in info.curve if point["event"] == "local"][-1]
        reference = simulation.scenario.reference
        whose = costs[reference if reference in info.asked else slowest]
        assert last["computing"] - before == pytest.approx(steps * whose * 1e-6)
        before = state.clock.computing


def test_speeds_are_log_normal_and_drawn_once() -> None:
    config = Config.of(devices=4000, device_step_us=50, device_step_spread=0.7, seed=3)
    speeds = device_step_us(config)
    np.testing.assert_array_equal(speeds, device_step_us(config.replace(protocol="fd")))
    assert not np.array_equal(speeds, device_step_us(config.replace(seed=4)))
    z = np.log(speeds / 50) / 0.7
    assert abs(z.mean()) < 4.5 / np.sqrt(4000)
    assert abs(z.std() - 1) < 4.5 / np.sqrt(2 * 4000)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((1.0, 2.0), "device_step_us: 2 values; must be one, or one for each of devices = 10"),
        ((), "device_step_us = .*: must be 0 or more microseconds"),
        (-1.0, "device_step_us = -1.0: must be 0 or more microseconds"),
        ([1.0] * 9 + ["fast"], "device_step_us = .*: must be 0 or more microseconds"),
        (float("inf"), "device_step_us = inf: must be"),
    ],
)
def test_bad_speeds_are_named(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Config.of(device_step_us=value)


def test_records_of_many_devices_stay_small(tmp_path: Path) -> None:
    """A line grows with who takes part and who is measured, not with all devices."""
    sizes = []
    for devices in (40, 400):
        fields = {"devices": devices, "evaluated_devices": 5, "reuse_samples": True}
        config = toy_config(protocol="mix2fld", **{**MANY, **fields})
        run(config, tmp_path / str(devices), dataset=toy_dataset())
        lines = (tmp_path / str(devices) / "mix2fld-s0" / "rounds.jsonl").read_text().splitlines()
        assert all(len(json.loads(line)["scores"]["devices"]) == 5 for line in lines)
        sizes.append(max(map(len, lines)))
    assert sizes[1] < sizes[0] + 100


@pytest.mark.parametrize("name", ["murmur", "sign", "fl"])
def test_what_devices_of_one_state_receive_is_made_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All devices that rest listen to the steps of a compressed update."""
    made = []

    def counted(wire: Any, state: Any, received: Any) -> Any:
        made.append(state)
        return receive(wire, state, received)

    monkeypatch.setattr(local, "receive", counted)
    simulation = simulation_of(name, link="ideal", **MANY)
    state = simulation.start()
    for number in range(1, 4):
        before = {id(own) for own in state.devices}
        made.clear()
        state, info = simulation.run_round(state)
        listened = info.downloads["delivered"]
        assert len(made) <= len(before) + MANY["participants"], number
        assert number > 1 or name != "murmur" or listened == MANY["devices"]
