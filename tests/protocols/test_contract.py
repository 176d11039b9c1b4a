"""What every row of the protocol table promises."""

import json
from typing import Any

import numpy as np
import pytest

from mix2fld.base.trees import difference, flatten, unflatten
from mix2fld.engine.device_turn import Rows, prepare_upload
from mix2fld.engine.messages import Message
from mix2fld.engine.participation import draw_participants
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import Turn
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.tasks.training import resolve
from mix2fld.types import Local
from toys import CoinLink, DeadDownlink, DeadLink, simulation_of, toy_config, toy_dataset

every_protocol = pytest.mark.parametrize("name", PROTOCOLS)


@every_protocol
@pytest.mark.parametrize("with_seeds", [False, True])
def test_bits_charged_are_bits_carried(name: str, with_seeds: bool) -> None:
    scenario, fleet = simulation_of(name)
    wire, turn = scenario.wire, Turn(0, 1, device=0)
    state = {**fleet.start()[0], "seeds_due": np.array(with_seeds)}
    local = Local(scenario.learning.initial_weights(0), np.full((4, 4), 0.25, np.float32))
    own, labels = fleet.parts[0], fleet.own(0)[1]
    rows = Rows(own, lambda: labels, lambda: fleet.own(0))
    message, _ = prepare_upload(wire, state, local, rows, turn, "resend")
    parts = [part for part in (message.body, message.once) if part is not None]
    assert all(len(part.data) == -(-part.bits // 8) for part in parts)
    size = wire.upload_size(with_seeds)
    assert message.bits == size.bits if size.exact else message.bits <= size.bits
    assert (message.once is not None) == (with_seeds and PROTOCOLS[name].once is not None)
    read = wire.decode_upload(message, turn)
    if message.body.bits:
        codec, dims = wire.protocol.upload_codec, scenario.learning.dims
        again = codec.encode(codec.decode(message.body.data, dims), dims)
        assert again == message.body
        assert read.value is not None
    if message.once is not None:
        assert wire.encode_once(read.seeds) == message.once


@every_protocol
def test_download_is_charged_as_carried(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, download_message = [0], Wire.download_message

    def spied(wire: Wire, round_number: int, value: Any) -> Message:
        message = download_message(wire, round_number, value)
        assert len(message.body.data) == -(-message.bits // 8)
        sent.append(message.bits)
        return message

    monkeypatch.setattr(Wire, "download_message", spied)
    simulation = simulation_of(name)
    _, info = simulation.run_round(simulation.start())
    carried = sent[-1]
    assert carried == info.bits["down"]
    size = simulation.scenario.wire.download_size(lambda bits: True)
    assert carried == size.bits if size.exact else carried <= size.bits < 1.001 * carried


@every_protocol
def test_records_are_complete_and_plain(name: str) -> None:
    (result,) = run(toy_config(protocol=name), dataset=toy_dataset())
    assert [info["round"] for info in result.rounds] == [1, 2]
    assert json.loads(json.dumps(result.rounds)) == result.rounds
    assert [info["asked"] for info in result.rounds] == [[0, 1, 2, 3]] * 2
    summary = result.summary
    assert summary["protocol"] == name
    assert summary["rounds"] == 2
    assert 0.0 <= summary["scores"]["min"] <= summary["scores"]["mean"]
    assert summary["scores"]["mean"] <= summary["scores"]["max"] <= 1.0
    assert summary["seconds"]["communication"] == 0.0
    sends = simulation_of(name).scenario.wire.upload_size(with_seeds=False).bits
    once = 4 if PROTOCOLS[name].once is not None else 0
    assert summary["uploads"]["attempted"] == (8 if sends else once)


@every_protocol
def test_accuracy_is_seen_within_the_round(name: str) -> None:
    (result,) = run(toy_config(protocol=name), dataset=toy_dataset())
    curve = [point for info in result.rounds for point in info["curve"]]
    local = [point["step"] for point in curve if point["event"] == "local"]
    assert local == [10, 20, 30, 40, 50, 60]
    assert curve[0]["event"] == "start"
    times = [point["communication"] + point["computing"] for point in curve]
    assert times == sorted(times)
    for info in result.rounds:
        last = [point for point in info["curve"] if point["event"] == "local"][-1]
        assert last["score"] == info["scores"]["reference"]


@every_protocol
def test_same_seed_same_numbers(name: str) -> None:
    first, second = (
        run(toy_config(protocol=name), dataset=toy_dataset())[0].rounds for _ in range(2)
    )
    assert first == second
    assert run(toy_config(protocol=name, seed=1), dataset=toy_dataset())[0].rounds != first


@every_protocol
def test_over_a_dead_link_all_devices_are_isolated(name: str) -> None:
    final = []
    training = resolve(toy_config(), PROTOCOLS[name].training)
    unused = {"prior_floor", "replay", "scarce_adjustment"}  # nothing to replay without a download
    fields = {field: value for field, value in training._asdict().items() if field not in unused}
    alone = "isolated" if PROTOCOLS[name].first_model is None else "own-statistics"
    for protocol in (name, alone):
        config = toy_config(**{**fields, "protocol": protocol})
        simulation = make_simulation(config, toy_dataset(), link=DeadLink())
        state = simulation.start()
        for _ in range(2):
            state, info = simulation.run_round(state)
            assert info.uploads["delivered"] == 0
        final.append(state)
    for own, isolated in zip(*(state.devices for state in final), strict=True):
        for one, other in zip(own["weights"], isolated["weights"], strict=True):
            np.testing.assert_array_equal(one, other)


@every_protocol
def test_a_device_that_misses_a_download_keeps_its_own(name: str) -> None:
    simulation = make_simulation(toy_config(protocol=name), toy_dataset(), link=DeadDownlink())
    start = simulation.start()
    state, info = simulation.run_round(start)
    assert info.downloads["delivered"] == 0
    accuracy = simulation.run_round(start)[1].scores["devices"]
    assert accuracy == info.scores["devices"]
    for before, after in zip(start.devices, state.devices, strict=True):
        assert before.get("teacher") is after.get("teacher")
        if state.server.weights is not None:
            pairs = zip(after["weights"], state.server.weights, strict=True)
            assert any(not np.array_equal(own, sent) for own, sent in pairs)


@every_protocol
def test_only_participants_train_and_send_and_those_of_the_next_round_listen(name: str) -> None:
    simulation = simulation_of(name, participants=2, rounds=4)
    state, asked = simulation.start(), []
    for _ in range(4):
        before, (state, info) = state, simulation.run_round(state)
        asked.append(tuple(info.asked))
        assert len(info.asked) == 2
        assert info.uploads["attempted"] in (0, 2)
        assert set(info.uploads["devices"]) <= set(info.asked)
        coming = draw_participants(simulation.scenario.config, range(4), info.round + 1)
        listening = set(coming) if info.downloads["attempted"] else set()
        if simulation.scenario.wire.protocol.downlinks[0] != "weights" and listening:
            listening = set(range(4))  # all that are idle take steps
        assert set(info.downloads["devices"]) <= {*info.asked, *listening}
        for device in range(4):
            same = state.devices[device] is before.devices[device]
            assert same == (device not in {*info.asked, *listening})
            if device not in info.asked:
                known = before.roster.scores[device]
                now = info.scores["devices"][device]
                assert now == known or before.round_number == 0
        for device in listening:
            if state.server.weights is not None:
                assert difference(state.devices[device]["weights"], state.server.weights) is None
                pairs = zip(state.devices[device]["weights"], state.server.weights, strict=True)
                assert all(np.array_equal(own, sent) for own, sent in pairs)
    assert len(set(asked)) > 1


@every_protocol
def test_every_state_survives_a_checkpoint(name: str) -> None:
    simulation = make_simulation(toy_config(protocol=name), toy_dataset(), link=CoinLink())
    state, _ = simulation.run_round(simulation.start())
    tree = state.tree()
    again = unflatten(*flatten(tree))
    assert difference(again, tree) is None
    restored = type(state).from_tree(again)
    after, info = simulation.run_round(restored)
    expected, expected_info = simulation.run_round(state)
    assert info == expected_info
    assert flatten(after.tree())[0] == flatten(expected.tree())[0]
