"""Devices that come and go, quorums, and joules: in the round, its record and its summary."""

import json
import math

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.engine.energy import Busy, Power
from mix2fld.links import IdealLink, MarkovAvailability, Memoryless, make_link
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset


def test_devices_come_and_go_as_their_chain_says():
    """Share of time, and correlation from round to round: 1 - leave - return."""
    link = MarkovAvailability(IdealLink(), leave=0.1, come_back=0.3)
    devices = 4000
    state = link.start(devices, stream(0, "link"))
    seen = [state["here"]]
    for number in range(1, 40):
        here, state = link.begin_round(state, 1.0, stream(0, "link", number))
        seen.append(here)
    seen = np.array(seen, float)
    # A chain with correlation c has (1 + c) / (1 - c) times the variance of free draws.
    error = math.sqrt(0.75 * 0.25 / seen.size * (1.6 / 0.4))
    assert seen.mean() == pytest.approx(0.75, abs=4.5 * error)
    assert seen[0].mean() == pytest.approx(0.75, abs=4.5 * math.sqrt(0.75 * 0.25 / devices))
    for lag in (1, 2, 5):
        found = np.corrcoef(seen[:-lag].ravel(), seen[lag:].ravel())[0, 1]
        assert found == pytest.approx(0.6**lag, abs=0.02)


def test_availability_changes_nothing_about_the_cell_itself():
    fields = {"link": "cell", "ring_m": (100.0, 900.0), "shadowing_db": 5.0}
    plain = make_link(Config.of(**fields), 10)
    coming = make_link(Config.of(**fields, leave_probability=0.2, return_probability=0.5), 10)
    states = [link.start(10, stream(4, "link")) for link in (plain, coming)]
    states[1] = states[1]["link"]
    np.testing.assert_array_equal(states[0]["distance_m"], states[1]["distance_m"])
    bits = np.full(10, 10**5)
    found = coming.forecast("uplink", bits, coming.start(10, stream(4, "link")))
    expected = plain.forecast("uplink", bits, plain.start(10, stream(4, "link")))
    np.testing.assert_array_equal(found.probability, expected.probability)
    assert coming.slot_seconds == plain.slot_seconds
    assert coming.max_slots == plain.max_slots


def test_only_devices_that_are_available_are_asked():
    config = toy_config(
        protocol="mix2fld", devices=6, local_steps=3, rounds=12, leave_probability=0.5,
        return_probability=0.4, seed=3,
    )  # fmt: skip
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    asked = [len(info["asked"]) for info in result.rounds]
    assert 0 < sum(asked) < 6 * 12
    assert len(set(asked)) > 2
    again = mix2fld.run(config, dataset=toy_dataset())[0]
    assert json.dumps(again.rounds) == json.dumps(result.rounds)


class Drops(Memoryless):
    """Delivers the uploads of some devices, and of others only when they are repeated."""

    slot_seconds, max_slots = 0.001, 10

    def __init__(self, first: set[int], later: set[int]):
        self.heard = [first, later]
        self.calls = 0

    def deliver(self, direction, bits, rng):
        slots = np.where(bits > 0, 3, 0)
        if direction == "downlink":
            return Delivery(np.ones(len(bits), np.bool_), slots)
        heard = self.heard[min(self.calls, 1)]
        self.calls += 1
        delivered = np.array([d in heard or b == 0 for d, b in enumerate(bits)])
        return Delivery(delivered, np.where(delivered, slots, self.max_slots), slots / 3)


def one_round(link, **fields):
    config = toy_config(protocol="mix2fld", devices=4, local_steps=2, **fields)
    simulation = make_simulation(config, toy_dataset(), link=link)
    return simulation.run_round(simulation.start())


def test_a_round_without_its_quorum_takes_nothing():
    state, info = one_round(Drops({0}, {0}), min_uploads=2)
    assert info.quorum == {"needed": 2, "arrived": 1, "repeats": 0, "met": False}
    assert info.uploads == {"attempted": 4, "delivered": 0, "devices": []}
    assert state.server.updates == 0
    assert not state.server.seeds
    assert info.downloads["attempted"] == 0
    assert all(device["seeds_due"] for device in state.devices)  # they are sent again
    enough, info = one_round(Drops({0, 3}, {0}), min_uploads=2)
    assert info.quorum["met"]
    assert enough.server.updates == 1


def test_a_missed_quorum_is_repeated_by_those_who_failed_and_charged():
    state, info = one_round(Drops({0}, {1, 2}), min_uploads=3, missed_quorum="repeat")
    _, alone = one_round(Drops({0}, {1, 2}))
    assert info.quorum == {"needed": 3, "arrived": 3, "repeats": 1, "met": True}
    assert info.uploads == {"attempted": 7, "delivered": 3, "devices": [0, 1, 2]}
    assert info.bits["up"] == alone.bits["up"] * 7 // 4
    assert info.slots["up"] == 10 + 10  # an outage in each
    assert state.server.updates == 1
    assert info.joules["transmit"] == pytest.approx(alone.joules["transmit"] * 7 / 4)


def test_repeats_end():
    state, info = one_round(
        Drops({0}, {0}), min_uploads=3, missed_quorum="repeat", upload_repeats=4
    )
    assert info.quorum == {"needed": 3, "arrived": 1, "repeats": 4, "met": False}
    assert info.uploads["attempted"] == 4 + 4 * 3
    assert state.server.updates == 0


def test_the_summary_counts_missed_quorums():
    config = toy_config(
        protocol="fl", devices=5, local_steps=2, rounds=8, min_uploads=4, link="rayleigh",
        bandwidth_hz=1e5, max_slots=40, uplink_power_dbm=9.0, distance_m=700.0,
    )  # fmt: skip
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    missed = sum(not info["quorum"]["met"] for info in result.rounds)
    assert result.summary["quorum"] == {"missed": missed, "repeats": 0}


def test_a_protocol_without_uploads_needs_no_quorum():
    (result,) = mix2fld.run(
        toy_config(protocol="isolated", devices=4, local_steps=2, min_uploads=3),
        dataset=toy_dataset(),
    )
    assert all(info["quorum"]["met"] for info in result.rounds)


def test_a_quorum_that_no_round_can_reach_is_refused():
    with pytest.raises(InputError, match="min_uploads = 5: must be at most 3, the devices asked"):
        Config.of(devices=10, participants=3, min_uploads=5)
    with pytest.raises(InputError, match=r"return_probability = 0.0: must be greater than 0"):
        Config.of(return_probability=0.0)


def test_joules_by_hand():
    config = Config.of(
        uplink_power_dbm=30.0, amplifier_efficiency=0.5, transmit_circuit_w=0.25, receive_w=0.5,
        idle_w=0.125, computing_w=2.0, battery_wh=1.0,
    )  # fmt: skip
    power = Power.from_config(config)
    busy = Busy(np.array([2.0, 0.0]), np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    spent = power.spent(busy, 10.0)
    assert spent.transmit.tolist() == [2 * (1 / 0.5 + 0.25), 0]
    assert spent.receive.tolist() == [0.5, 0]
    assert spent.computing.tolist() == [8, 0]
    assert spent.idle.tolist() == [3 * 0.125, 10 * 0.125]
    assert spent.total.tolist() == [4.5 + 0.5 + 8 + 0.375, 1.25]
    assert power.rounds_of_battery(36.0) == 100
    assert power.rounds_of_battery(0.0) is None


def test_records_and_summary_add_up_what_devices_spend():
    """From slots, step costs and powers of the config, by plain arithmetic."""
    config = toy_config(
        protocol="fl", devices=3, local_steps=50, rounds=2, link="rayleigh", max_slots=400,
        bandwidth_hz=1e6, device_step_us=200.0, server_step_us=0.0,
    )  # fmt: skip
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    energy = config.energy
    sending = 10 ** ((23 - 30) / 10) / energy.amplifier_efficiency + energy.transmit_circuit_w
    for info in result.rounds:
        assert info["joules"]["computing"] == pytest.approx(3 * 50 * 200e-6 * energy.computing_w)
        assert 0 < info["joules"]["transmit"] <= 3 * info["slots"]["up"] * 1e-3 * sending + 1e-12
        assert (
            0
            < info["joules"]["receive"]
            <= 3 * info["slots"]["down"] * 1e-3 * energy.receive_w * 1.0001
        )
        parts = sum(info["joules"][part] for part in ("transmit", "receive", "computing", "idle"))
        assert sum(info["joules"]["devices"]) == pytest.approx(parts)
    joules, battery = result.summary["joules"], result.summary["battery_rounds"]
    total = sum(sum(info["joules"]["devices"]) for info in result.rounds)
    assert joules["device_round"]["mean"] == pytest.approx(total / 3 / 2)
    assert joules["device_round"]["most"] >= joules["device_round"]["mean"]
    assert battery["mean"] == pytest.approx(energy.battery_wh * 3600 / (total / 6))
    assert battery["least"] <= battery["mean"]
    frame = mix2fld.runs.results.Results([result]).frame("devices")
    assert frame["joules"].sum() == pytest.approx(total)


def test_near_and_far_devices_are_told_apart():
    config = toy_config(
        protocol="fl", devices=6, local_steps=20, rounds=3, link="cell",
        distances_m=(2400, 200, 1600, 400, 3200, 800), max_slots=300,
    )  # fmt: skip
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    frame = mix2fld.runs.results.Results([result]).frame("devices")
    last = frame[frame["round"] == 3].sort_values("distance_m")
    assert result.summary["scores"]["near"] == pytest.approx(last["accuracy"][:3].mean())
    assert result.summary["scores"]["far"] == pytest.approx(last["accuracy"][3:].mean())
    assert last["distance_m"].tolist() == [200, 400, 800, 1600, 2400, 3200]
    uploads = frame.groupby("distance_m")["uploaded"].mean()
    assert uploads.iloc[0] > uploads.iloc[-1]  # the farthest is heard least
    plain = mix2fld.run(config.replace(link="rayleigh"), dataset=toy_dataset())[0]
    assert "far" not in plain.summary["scores"]
