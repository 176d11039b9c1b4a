"""What every row of the protocol table promises."""

import json

import jax
import numpy as np
import pytest

from mix2fld.learning.xla import pick
from mix2fld.protocol import PROTOCOLS
from mix2fld.round.wire import (
    decode_upload,
    download_bits,
    encode_download,
    encode_upload,
    upload_bits,
)
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.types import Knowledge
from toys import DeadLink, toy_config, toy_dataset

every_protocol = pytest.mark.parametrize("name", PROTOCOLS)


@every_protocol
@pytest.mark.parametrize("with_seeds", [False, True])
def test_bits_charged_are_bits_carried(name: str, with_seeds: bool) -> None:
    simulation = make_simulation(toy_config(protocols=name), toy_dataset())
    protocol, task = simulation.protocol, simulation.task
    weights = task.flatten(task.initial_weights(0))
    outputs = np.full((4, 4), 0.25, np.float32)
    seeds = simulation.make_seeds(0) if with_seeds else None
    data = encode_upload(protocol, task, Knowledge(weights, outputs), seeds)
    parts = [upload_bits(protocol, task, with_seeds=False)]
    parts.append(upload_bits(protocol, task, with_seeds) - parts[0])
    assert len(data) == sum(-(-bits // 8) for bits in parts)
    read = decode_upload(protocol, task, data, samples=40, with_seeds=seeds is not None)
    assert encode_upload(protocol, task, protocol.uplink.place(read.value), read.seeds) == data


@every_protocol
def test_download_is_charged_as_carried(name: str) -> None:
    simulation = make_simulation(toy_config(protocols=name), toy_dataset())
    state, info = simulation.run_round(simulation.start())
    carried = 0
    if state.server.updates:
        carried = 8 * len(encode_download(simulation.protocol, simulation.task, state.server))
    assert carried == info.bits["down"]
    assert carried == download_bits(simulation.protocol, simulation.task)


@every_protocol
def test_records_are_complete_and_plain(name: str) -> None:
    (result,) = run(toy_config(protocols=name), dataset=toy_dataset())
    assert [info["round"] for info in result.rounds] == [1, 2]
    assert json.loads(json.dumps(result.rounds)) == result.rounds
    summary = result.summary
    assert summary["protocol"] == name
    assert summary["rounds"] == 2
    assert 0.0 <= summary["accuracy"]["min"] <= summary["accuracy"]["mean"]
    assert summary["accuracy"]["mean"] <= summary["accuracy"]["max"] <= 1.0
    assert summary["seconds"]["communication"] == 0.0
    sends = PROTOCOLS[name].uplink.bits(make_simulation(result.config, toy_dataset()).task.dims)
    assert summary["uploads"]["attempted"] == (8 if sends else 0)


@every_protocol
def test_accuracy_is_seen_within_the_round(name: str) -> None:
    (result,) = run(toy_config(protocols=name), dataset=toy_dataset())
    curve = [point for info in result.rounds for point in info["curve"]]
    local = [point["step"] for point in curve if point["event"] == "local"]
    assert local == [10, 20, 30, 40, 50, 60]
    assert curve[0]["event"] == "start"
    times = [point["communication"] + point["computing"] for point in curve]
    assert times == sorted(times)
    for info in result.rounds:
        last = [point for point in info["curve"] if point["event"] == "local"][-1]
        assert last["accuracy"] == info["accuracy"]["reference"]


@every_protocol
def test_same_seed_same_numbers(name: str) -> None:
    first, second = (
        run(toy_config(protocols=name), dataset=toy_dataset())[0].rounds for _ in range(2)
    )
    assert first == second
    assert run(toy_config(protocols=name, seed=1), dataset=toy_dataset())[0].rounds != first


@every_protocol
def test_over_a_dead_link_all_devices_are_isolated(name: str) -> None:
    final = []
    for protocol in (name, "isolated"):
        simulation = make_simulation(toy_config(protocols=protocol), toy_dataset(), link=DeadLink())
        state = simulation.start()
        for _ in range(2):
            state, info = simulation.run_round(state)
            assert info.uploads["delivered"] == 0
        final.append(state)
    for own, isolated in zip(*(jax.tree.leaves(s.weights) for s in final), strict=True):
        np.testing.assert_array_equal(own, isolated)


@every_protocol
def test_a_device_that_misses_a_download_keeps_its_own(name: str) -> None:
    simulation = make_simulation(toy_config(protocols=name), toy_dataset(), link=DeadDownlink())
    start = simulation.start()
    state, info = simulation.run_round(start)
    assert info.downloads["delivered"] == 0
    np.testing.assert_array_equal(state.teachers, start.teachers)
    accuracy = simulation.run_round(start)[1].accuracy["devices"]
    assert accuracy == info.accuracy["devices"]
    if state.server.weights is not None:
        for device in range(4):
            own = simulation.task.flatten(pick(state.weights, device))
            sent = simulation.task.flatten(state.server.weights)
            assert any(not np.array_equal(a, b) for a, b in zip(own, sent, strict=True))


class DeadDownlink(DeadLink):
    """Uploads arrive at once, downloads never."""

    def transmit(self, direction, bits, rng):
        outage = super().transmit(direction, bits, rng)
        if direction == "downlink":
            return outage
        return type(outage)(delivered=np.ones(len(bits), bool), slots=np.zeros(len(bits), int))
