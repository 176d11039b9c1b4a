"""Policies of time: who is waited for, who shares the link, and what a kill leaves of it."""

from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.engine.flights import Airtime, Flight
from mix2fld.engine.policies import POLICIES
from mix2fld.links import Memoryless, make_link
from mix2fld.protocols.parts import Turn
from mix2fld.protocols.table import PROTOCOLS, single_runs
from mix2fld.runs.link_plan import plan_link
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import Delivery
from stored_runs import check_resumed
from toys import representatives, toy_config, toy_dataset

STEP_US = (1e5, 2e5, 3e5, 9e5)
"""Of four devices: with ten steps a second, two, three and nine."""
SPEEDS = {"devices": 4, "local_steps": 10, "device_step_us": STEP_US, "server_step_us": 0}


class Shared(Memoryless):
    """1,000 bits in a second, shared evenly by those who transmit; a multicast takes no time."""

    slot_seconds, max_slots = 0.001, 100_000

    def deliver(self, direction, bits, rng):
        senders = np.count_nonzero(bits) if direction == "uplink" else 0
        slots = np.minimum(bits * senders, self.max_slots)
        return Delivery(bits * senders <= self.max_slots, slots.astype(np.int64))


def flights_over(link, begins, bits, **fields):
    """Devices that have computed after so many seconds, and then transmit so many bits."""
    config = toy_config(protocol="fl", devices=len(begins), local_steps=2, wait="quorum:1")
    scenario = make_simulation(config, toy_dataset(), link=link).scenario
    own = {
        device: Flight(1, float(at), None, size, size)
        for device, (at, size) in enumerate(zip(begins, bits, strict=True))
    }
    return Airtime(scenario, own, 1, **{"link": {}, "at_once": False, "began": 0.0, **fields})


def test_the_link_is_shared_by_those_who_transmit_then():
    """By hand: one alone for a second, both for two, then the second has what is left."""
    air = flights_over(Shared(), (0, 1), (2000, 1500))
    air.until(lambda: not air.flights)
    assert list(air.ended) == [0, 1]
    assert all(flight.arrived for flight in air.ended.values())
    assert air.spans[0] == pytest.approx([0, 3])  # 1,000 bits alone, 1,000 at half the rate
    assert air.spans[1] == pytest.approx([1, 3.5])  # 1,000 at half the rate, 500 alone
    assert air.quiet_seconds == 0
    assert air.aired_slots == pytest.approx(3500)
    assert air.transfer({0, 1}).bits.tolist() == [2000, 1500]


def test_with_wait_all_everybody_transmits_at_once_and_keeps_its_share():
    air = flights_over(Shared(), (0, 1), (2000, 1500), at_once=True)
    air.until(lambda: not air.flights)
    assert air.spans == {0: [1, 5], 1: [1, 4]}
    assert air.quiet_seconds == 1


def test_a_message_is_lost_after_t_max_however_often_others_come_and_go():
    link = Shared()
    link.max_slots = 2600
    air = flights_over(link, (0, 1), (2000, 1200))
    air.until(lambda: not air.flights)
    assert not air.ended[0].arrived
    assert air.spans[0] == pytest.approx([0, 2.6])
    assert air.ended[1].arrived  # 800 bits at half the rate, 400 alone
    assert air.spans[1] == pytest.approx([1, 3])
    assert air.transfer({1}).bits.tolist() == [2000, 1200]  # lost ones are charged


def runs(**fields):
    config = toy_config(**{"protocol": "fl", "rounds": 4, **SPEEDS, **fields})
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    return result


@pytest.mark.parametrize("protocol", ["fl", "murmur", "mix2fld"])
def test_everybody_is_waited_for_by_a_quorum_of_one(protocol):
    """Over a link that takes no time, nothing differs from wait = all but how it is written."""
    kept = ("scores", "uploads", "downloads", "bits", "seconds", "change", "joules", "curve")
    waiting, quorum = (runs(protocol=protocol, wait=wait) for wait in ("all", "quorum:1"))
    for one, other in zip(waiting.rounds, quorum.rounds, strict=True):
        assert {name: one[name] for name in kept} == {name: other[name] for name in kept}


def test_a_quorum_ends_the_round_and_who_is_late_computes_to_its_end():
    half = runs(wait="quorum:2").rounds
    assert [info["uploads"]["devices"] for info in half[:2]] == [[0, 1], [0, 1]]
    assert [info["seconds"]["computing"] for info in half[:2]] == pytest.approx([2, 2])
    # Device 2 needs 3 s: it is not asked at 2 s, hears the download at 4 s and is asked again.
    assert [info["asked"] for info in half] == [[0, 1, 2, 3], [0, 1], [0, 1, 2], [0, 1]]
    watts = mix2fld.Config().energy.computing_w
    spent = sum(info["joules"]["computing"] for info in half)
    assert spent == pytest.approx(watts * (4 * 1 + 4 * 2 + 2 * 3 + 8))


def test_a_deadline_ends_the_round():
    ends = runs(wait="deadline:2.5").rounds
    assert [info["uploads"]["devices"] for info in ends[:2]] == [[0, 1], [0, 1]]
    assert [info["seconds"]["computing"] for info in ends] == pytest.approx([2.5, 2, 2.5, 2])
    everyone = runs(wait="deadline:100").rounds
    assert [info["seconds"]["computing"] for info in everyone] == pytest.approx([9] * 4)
    nobody = runs(wait="deadline:0.5", rounds=2)
    assert [info["uploads"]["delivered"] for info in nobody.rounds] == [0, 0]


@pytest.mark.parametrize("wait", ["quorum:2", "deadline:2.5"])
@pytest.mark.parametrize("protocol", ["fl", "mix2fld"])
def test_a_run_resumes_to_the_same_bytes_while_devices_compute(tmp_path: Path, protocol, wait):
    config = toy_config(**{
        **SPEEDS, "protocol": protocol, "rounds": 5, "wait": wait, "link": "rayleigh",
        "bandwidth_hz": 2e5, "max_slots": 3000, "uplink_power_dbm": 12.0,
    })  # fmt: skip
    (whole,) = check_resumed(tmp_path, config, *range(1, 5))
    asked = [len(info["asked"]) for info in whole.rounds]
    assert min(asked) < 4  # somebody was still computing


@pytest.mark.parametrize(
    ("wait", "says"),
    [
        ("everyone", "no such policy"),
        ("all:3", "must be all"),
        ("quorum", "must be quorum:0.8"),
        ("quorum:0", "must be above 0"),
        ("quorum:nan", "must be quorum:0.8"),
        ("quorum:5", "up to 4, those asked"),
        ("quorum:2.5", "a whole number up to 4"),
        ("deadline:-1", "must be seconds above 0"),
        ("deadline:soon", "must be seconds"),
        ("buffered", "must be buffered:10"),
        ("buffered:5", "a buffer of uploads must be a whole number from 1 to 4, those asked"),
        ("buffered:2,mixing=2", "mixing must be above 0 and at most 1"),
        ("buffered:2,age=3", "must be buffered:10"),
        ("asynchronous:2", "mixing must be above 0"),
        ("asynchronous:uploads=3", "must be asynchronous"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(tmp_path: Path, wait, says):
    with pytest.raises(InputError, match=says) as found:
        mix2fld.run(toy_config(**SPEEDS, protocol="fl", wait=wait), dataset=toy_dataset())
    assert found.value.field == "wait"
    assert "wait" in str(found.value)


def test_every_policy_is_one_file():
    folder = Path(mix2fld.__file__).parent / "engine" / "policies"
    assert len(list(folder.glob("*.py"))) == len(POLICIES) + 2


@pytest.mark.parametrize(
    ("protocol", "wait"),
    [
        ("fl", "buffered:2"),
        ("mix2fld", "asynchronous"),
        ("murmur", "asynchronous:0.3,power=1"),
        ("fd", "buffered:3,mixing=0.5,oldest=4"),
    ],
)
def test_a_server_that_does_not_wait_resumes_to_the_same_bytes(tmp_path: Path, protocol, wait):
    config = toy_config(**{
        **SPEEDS, "protocol": protocol, "rounds": 6, "wait": wait, "link": "rayleigh",
        "bandwidth_hz": 2e5, "max_slots": 3000, "uplink_power_dbm": 12.0,
    })  # fmt: skip
    check_resumed(tmp_path, config, *range(1, 6))


def test_every_upload_is_a_step_of_an_asynchronous_server():
    """By hand: local phases of 1, 2, 3 and 9 s, and a link that takes no time."""
    info = runs(wait="asynchronous", rounds=9).rounds
    ends = np.cumsum([sum(one["seconds"].values()) for one in info])
    assert [one["uploads"]["devices"] for one in info] == [
        [0], [0], [1], [0], [2], [0], [1], [0], [0],
    ]  # fmt: skip
    assert ends.tolist() == pytest.approx([1, 2, 2, 3, 3, 4, 4, 5, 6])
    assert [list(one["waiting"]["staleness"].values()) for one in info[:5]] == [
        [0], [0], [2], [1], [4],
    ]  # fmt: skip
    # Everybody computes all the time, but for those whose upload waits for its own step.
    computed = sum(one["joules"]["computing"] for one in info) / mix2fld.Config().energy.computing_w
    assert computed == pytest.approx(4 * 6)


@pytest.mark.parametrize("protocol", ["fl", "eden"])
def test_a_stale_upload_counts_less(protocol):
    """The last model, and 0.5 / (1 + s) of the way to what a step with the upload makes of it."""
    config = toy_config(protocol=protocol, rounds=4, wait="asynchronous:0.5,power=1", **SPEEDS)
    simulation = make_simulation(config, toy_dataset())
    wire, state = simulation.scenario.wire, simulation.start()
    for _ in range(2):
        state, _ = simulation.run_round(state)
    late = state.flights[1]
    assert late.arrived
    assert late.number == 1
    upload = wire.decode_upload(late.message, Turn(config.seed, 1, 1))
    whole, _ = wire.protocol.step(state.server, {1: upload}, 3)
    after, info = simulation.run_round(state)
    assert info.waiting["staleness"] == {"1": 2}
    for old, new, found in zip(
        state.server.weights, whole.weights, after.server.weights, strict=True
    ):
        np.testing.assert_allclose(found, old + 0.5 / 3 * (new - old), rtol=0, atol=1e-6)


def test_uploads_that_are_too_old_are_answered_and_not_used():
    config = toy_config(protocol="fl", rounds=3, wait="asynchronous:0.5,oldest=1", **SPEEDS)
    simulation = make_simulation(config, toy_dataset())
    state = simulation.start()
    for _ in range(2):
        state, _ = simulation.run_round(state)
    after, info = simulation.run_round(state)
    assert info.uploads["devices"] == [0]  # not device 1, which was asked two steps before
    assert 1 in info.downloads["devices"]
    assert 1 not in after.flights
    _, info = simulation.run_round(after)
    assert 1 in info.asked


def test_of_the_papers_protocols_an_upload_replaces_the_last_one_of_its_device():
    config = toy_config(protocol="fd", rounds=6, wait="asynchronous", **SPEEDS)
    simulation = make_simulation(config, toy_dataset())
    wire, state = simulation.scenario.wire, simulation.start()
    for _ in range(5):
        state, _ = simulation.run_round(state)
    assert sorted(state.last_uploads) == [0, 1, 2]
    outputs = np.stack([
        wire.decode_body(message.body.data, Turn(0, message.round_number, device))
        for device, message in state.last_uploads.items()
    ])  # fmt: skip
    seen = outputs.any(axis=2)
    mean = outputs.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)[:, None]
    np.testing.assert_allclose(
        state.server.outputs[seen.any(axis=0)], mean[seen.any(axis=0)], atol=1e-6
    )


@pytest.mark.parametrize(
    "protocol", representatives([n for n, row in PROTOCOLS.items() if row.late_uploads])
)
def test_every_row_that_has_meaning_runs_without_waiting(protocol):
    fields = {**SPEEDS, "protocol": protocol, "rounds": 4, "seed_samples": 20}
    for wait in ("buffered:2", "asynchronous"):
        (result,) = mix2fld.run(toy_config(**fields, wait=wait), dataset=toy_dataset())
        assert len(result.rounds) == 4


@pytest.mark.parametrize("protocol", [n for n, row in PROTOCOLS.items() if not row.late_uploads])
def test_a_row_whose_uploads_belong_together_is_refused_by_name(protocol):
    config = toy_config(**SPEEDS, protocol=protocol, wait="buffered:2")
    with pytest.raises(InputError, match="needs the uploads of a round together") as found:
        mix2fld.run(config, dataset=toy_dataset())
    assert PROTOCOLS[protocol].title in str(found.value)


@pytest.mark.parametrize(
    "fields", [{"upload_every": 2}, {"min_uploads": 1}, {"evaluated_rounds": "last"}]
)
def test_settings_of_rounds_that_wait_are_refused(fields):
    config = toy_config(**SPEEDS, protocol="fl", rounds=4, wait="asynchronous", **fields)
    with pytest.raises(InputError, match="has no meaning with wait = asynchronous"):
        mix2fld.run(config, dataset=toy_dataset())


LATE = ("asynchronous:0.5", "buffered:2,power=1", "buffered:2,mixing=0.7,oldest=1")


@pytest.mark.parametrize("wait", LATE)
@pytest.mark.parametrize("protocol", ["murmur:bits=400", "sign"])
def test_devices_take_a_step_of_late_uploads_as_the_server_does(protocol, wait):
    """Bit for bit: they are told how old each upload is."""
    fields = {**SPEEDS, "protocol": protocol, "rounds": 8, "wait": wait, "learning_rate": 0.01}
    weights, relay = (
        mix2fld.run(toy_config(**fields, downlink=mode), dataset=toy_dataset())[0]
        for mode in ("weights", "relay")
    )
    for mine, theirs in zip(weights.weights, relay.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    late = [max(info["waiting"]["staleness"].values(), default=0) for info in relay.rounds]
    assert max(late) > 0
    for one, other in zip(weights.rounds, relay.rounds, strict=True):
        assert one["scores"] == other["scores"]
        assert other["bits"]["down"] < one["bits"]["down"] / 2


def test_murmur_is_relayed_by_itself_if_the_server_does_not_wait():
    fields = {**SPEEDS, "protocol": "murmur:bits=400", "rounds": 4, "wait": "buffered:2"}
    (result,) = mix2fld.run(toy_config(**fields), dataset=toy_dataset())
    assert max(info["bits"]["down"] for info in result.rounds) < 4000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"wait": "later"}, "no such policy"),
        ({"wait": "buffered:20"}, "whole number from 1 to 4"),
        ({"wait": "asynchronous", "protocol": "cfd"}, "needs the uploads of a round together"),
        ({"wait": "asynchronous", "upload_every": 2}, "upload_every: has no meaning with wait"),
    ],
)
def test_a_plan_refuses_what_a_run_refuses(fields, says):
    config = toy_config(**{**SPEEDS, "protocol": "murmur", "rounds": 4, **fields})
    for work in (plan_link, lambda given: mix2fld.run(given, dataset=toy_dataset())):
        with pytest.raises(InputError, match=says):
            work(config)


@pytest.mark.parametrize(
    ("fields", "within"),
    [
        ({}, 0),
        ({"wait": "buffered:2"}, 0.3),
        ({"wait": "asynchronous"}, 0.3),
        ({"devices": 12, "participants": 3}, 0),
        ({"devices": 12, "participants": 3, "listeners": "participants"}, 0.1),
        ({"devices": 12, "participants": 3, "listeners": "participants", "downlink": "coded"}, 0.1),
    ],
)
def test_the_planned_download_is_the_mean_of_those_of_a_run(fields, within):
    """Exact where no listener has missed a step, and no upload is late."""
    given = {
        "devices": 4, "device_step_us": 1e4, "server_step_us": 0, "local_steps": 2, "batch_size": 4,
        "samples_per_device": 10, "rounds": 40, "curve_points": 1, "link": "ideal",
        "protocol": "murmur:bits=200", "downlink_step_bits": 900, **fields,
    }  # fmt: skip
    config = toy_config(**given)
    (config,) = single_runs(config)
    (planned,) = [t for t in plan_link(config) if t.budget.direction == "downlink"]
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    carried = np.mean([info["bits"]["down"] for info in result.rounds])
    assert abs(planned.size.bits - carried) <= within * carried


def test_a_trace_says_what_is_carried_when_a_device_transmits(tmp_path: Path):
    """By hand: from second 9 of the run 1,000 bit/s for a second, then 2,000."""
    file = tmp_path / "rates.csv"
    file.write_text(
        "time_s,device,uplink_bps,downlink_bps\n0,0,1000,1000\n10,0,2000,2000\n60,0,2000,2000\n"
    )
    link = make_link(Config.of(link="trace", trace=file, slot_ms=1.0, max_slots=20_000), 1)
    air = flights_over(link, (4,), (2000,), began=5.0)
    air.until(lambda: not air.flights)
    assert air.spans[0] == pytest.approx([4, 5.5])


@pytest.mark.parametrize(
    ("wait", "states"),
    [("deadline:2.5", "memory"), ("buffered:2", "memory"), ("buffered:2", "disk")],
)
def test_devices_that_come_and_go_resume_to_the_same_bytes(tmp_path: Path, wait, states):
    config = toy_config(**{
        **SPEEDS, "protocol": "topk", "rounds": 6, "wait": wait, "leave_probability": 0.4,
        "return_probability": 0.5, "participants": 3, "device_states": states,
    })  # fmt: skip
    (whole,) = check_resumed(tmp_path, config, *range(1, 6))
    assert len({len(info["asked"]) for info in whole.rounds}) > 1
