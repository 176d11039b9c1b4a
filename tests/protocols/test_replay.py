"""Replay: seeds go down once, to everyone, and local steps draw from them."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.lab import (
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    run_in_process,
)
from mix2fld.base.errors import InputError
from mix2fld.codecs import Outputs, PayloadError, SeedSamples, Weights, WithSeeds
from mix2fld.deploy.client_app import app
from mix2fld.deploy.edge.store import Store
from mix2fld.engine.plan import plan_transfers
from mix2fld.runs.simulation import Simulation
from mix2fld.tasks.replay import (
    REPLAY,
    Extra,
    add_to_stock,
    empty_stock,
    merge_stocks,
    mixture_prior,
    seeds_in,
    with_replay,
)
from mix2fld.types import Dimensions, SampleFormat, Seeds
from stored_runs import check_resumed
from toys import CoinLink, DeadDownlink, RoomyDownlink, simulation_of, toy_config

ROWS = ("fld", "mixfld", "mix2fld", "murmur-mix")
DIMS = Dimensions(((3,), (2, 2)), 3, SampleFormat((4, 4, 1)), 5, 3, (2, 2, 1))
simulate = partial(simulation_of, replay=0.5, downlink="weights")


def some_seeds(device: int) -> Seeds:
    rng = np.random.default_rng(device)
    codes = rng.integers(0, 8, (5, 2, 2, 1)).astype(np.uint8)
    return Seeds(codes, rng.integers(0, 3, (5, 2)).astype(np.int32))


@settings(deadline=None)
@given(st.sets(st.integers(0, 10)), st.sampled_from([Weights(), Weights(3), Outputs()]))
def test_seeds_and_the_rest_come_out_as_they_went_in(senders: set[int], rest: Any) -> None:
    payload = WithSeeds(SeedSamples(mix_size=2), 11, rest)
    value: Any = np.full((3, 3), 1 / 3, np.float32)
    if isinstance(rest, Weights):
        value = (np.float32([1, 2, 3]), np.float32([[4, 5], [6, 7]]))
    seeds = {device: some_seeds(device) for device in senders}
    carried = payload.encode((value, seeds), DIMS)
    assert carried.bits == payload.size_with(DIMS, len(senders)).bits
    assert carried.bits <= payload.size(DIMS).bits
    assert len(carried.data) == -(-carried.bits // 8)
    again, found = payload.decode(carried.data, DIMS)
    assert list(found) == sorted(senders)
    for device, own in found.items():
        np.testing.assert_array_equal(own.inputs, seeds[device].inputs)
        np.testing.assert_array_equal(own.labels, seeds[device].labels)
    assert payload.encode((again, found), DIMS) == carried


def test_the_bits_of_a_download_by_hand() -> None:
    """11 bits say whose seeds follow, two times 5 seeds of 4 values and 2 labels; 7 weights."""
    payload = WithSeeds(SeedSamples(mix_size=2), 11, Weights())
    assert payload.size_with(DIMS, 2).bits == 8 * 22 + 7 * 32
    assert 8 * 22 >= 11 + 2 * 5 * (4 * 3 + 2 * 2) > 8 * 21
    assert not payload.size(DIMS).exact
    assert payload.size_with(DIMS, 0).exact


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:5], lambda d: d + b"\0"])
def test_damaged_downloads_are_refused(damage: Any) -> None:
    payload = WithSeeds(SeedSamples(mix_size=2), 11, Weights())
    value = (np.float32([1, 2, 3]), np.float32([[4, 5], [6, 7]]))
    data = payload.encode((value, {3: some_seeds(3)}), DIMS).data
    with pytest.raises(PayloadError):
        payload.decode(damage(data), DIMS)


@settings(deadline=None)
@given(st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_stocks_merge_as_sets_do(first: set[int], second: set[int]) -> None:
    empty = empty_stock(DIMS, 7, 2)
    old, new = (add_to_stock(empty, {d: some_seeds(d) for d in s}) for s in (first, second))
    merged = seeds_in(merge_stocks(old, new))
    assert set(merged) == first | second
    for device, own in merged.items():
        np.testing.assert_array_equal(own.inputs, some_seeds(device).inputs)
    assert set(seeds_in(old)) == first
    assert not seeds_in(empty)


def test_draws_are_replaced_with_the_probability_of_replay() -> None:
    draws = np.zeros((20_000, 2), np.int32)
    extra = Extra(100, np.zeros((30, 4), np.float32))
    mixed = with_replay(np.random.default_rng(0), draws, extra, 0.3)
    replayed = mixed[mixed > 0]
    assert len(replayed) / mixed.size == pytest.approx(0.3, abs=5 * (0.21 / mixed.size) ** 0.5)
    assert set(np.unique(replayed)) == set(range(100, 130))


def test_the_prior_is_that_of_what_is_drawn() -> None:
    extra = Extra(0, np.float32([[0.1, 0.9, 0], [0, 0.5, 0.5]]))
    prior = mixture_prior(np.array([1.0, 0, 0]), extra, 0.2)
    np.testing.assert_allclose(prior, [0.8 + 0.01, 0.14, 0.05])


@pytest.mark.parametrize("name", ROWS)
def test_seeds_go_down_once(name: str) -> None:
    """With the first download over a lossless link; then everyone has them, as one object."""
    simulation = simulate(name)
    wire, state = simulation.scenario.wire, simulation.start()
    sent, each = [], wire.upload_size(with_seeds=True).bits - wire.upload_size(False).bits
    for _ in range(3):
        state, info = simulation.run_round(state)
        sent.append(info.bits["down"])
    plain = simulate(name, replay=0).scenario.wire
    weights = plain.download_size().bits
    assert sent == [weights + 8 * -(-(4 + 4 * each) // 8), weights + 8, weights + 8]
    assert sent[0] == wire.download_size(lambda bits: True).bits
    assert len({id(device[REPLAY]["inputs"]) for device in state.devices}) == 1
    for device, own in seeds_in(state.devices[0][REPLAY]).items():
        np.testing.assert_array_equal(own.inputs, state.server.seeds[device].inputs)


@pytest.mark.parametrize("name", ROWS)
def test_local_steps_draw_from_what_came_down(name: str) -> None:
    """The first round is that of no replay; then the same run with and without differs."""
    ends = []
    for share in (0.0, 0.5):
        simulation = simulate(name, replay=share)
        state, first = simulation.run_round(simulation.start())
        _, second = simulation.run_round(state)
        ends.append((first.change, second.change))
    assert ends[0][0] == ends[1][0]
    assert ends[0][1] != ends[1][1]


def test_the_samples_replayed_are_those_of_the_server() -> None:
    for name in ROWS:
        simulation = simulate(name, seed_pooling=2, seed_bits=4)
        state, _ = simulation.run_round(simulation.start())
        mine = simulation.scenario.wire.replayed_samples(state.devices[2])
        assert mine is not None
        np.testing.assert_array_equal(mine.inputs, state.server.seed_set.inputs)
        np.testing.assert_array_equal(mine.targets, state.server.seed_set.targets)


def test_lost_seeds_go_down_again_until_all_have_them() -> None:
    simulation = simulate("mixfld", CoinLink(), rounds=12, seed=2, local_steps=4)
    state, held, with_seeds = simulation.start(), [], []
    least = simulation.scenario.wire.download_size().bits
    for _ in range(12):
        state, info = simulation.run_round(state)
        held.append([int(device[REPLAY]["held"].sum()) for device in state.devices])
        with_seeds.append(info.bits["down"] > least)
    assert held[0] != [4] * 4
    assert any(0 < count < 4 for row in held for count in row)
    done = held.index([4] * 4)
    assert with_seeds[: done + 1].count(True) > 1
    assert not any(with_seeds[done + 1 :])
    assert held[done:] == [[4] * 4] * (12 - done)


def download_bits(simulation: Simulation, seeds_of: int) -> int:
    dims = simulation.scenario.learning.dims
    return int(simulation.scenario.wire.downlink.download_codec.size_with(dims, seeds_of).bits)


def test_without_a_downlink_there_is_nothing_to_replay() -> None:
    """The seeds of one device are tried, since fewer cannot be."""
    simulation = simulate("mixfld", DeadDownlink())
    state = simulation.start()
    for _ in range(2):
        state, info = simulation.run_round(state)
        assert info.bits["down"] == download_bits(simulation, 1)
    assert not any(device[REPLAY]["held"].any() for device in state.devices)


def test_seeds_that_do_not_fit_into_a_download_follow_in_the_next() -> None:
    """Room for three devices' seeds beside the model: three, then the fourth, then none."""
    room = download_bits(simulate("murmur-mix"), 3)
    simulation = simulate("murmur-mix", RoomyDownlink(room), rounds=3)
    state, sent, held = simulation.start(), [], []
    for _ in range(3):
        state, info = simulation.run_round(state)
        sent.append(info.bits["down"])
        held.append([len(seeds_in(device[REPLAY])) for device in state.devices])
    assert sent == [download_bits(simulation, count) for count in (3, 1, 0)]
    assert held == [[3] * 4, [4] * 4, [4] * 4]


def test_devices_that_did_not_listen_hear_later() -> None:
    """Two of four take part: seeds that a new listener lacks are sent again, and only those."""
    simulation = simulate("mixfld", participants=2, rounds=8)
    state, senders = simulation.start(), []
    for number in range(1, 9):
        before = state
        state, info = simulation.run_round(state)
        listeners = info.downloads["devices"]
        for device in listeners:
            stock = set(seeds_in(state.devices[device][REPLAY]))
            assert stock == set(state.server.seeds), number
        lacking = set(state.server.seeds) - set.intersection(
            *(set(seeds_in(before.devices[d][REPLAY])) for d in listeners)
        )
        senders.append(len(lacking))
        assert info.bits["down"] == download_bits(simulation, len(lacking))
    assert senders[0] == 2
    assert senders[-1] == 0


def test_a_run_is_resumed_with_its_seeds(tmp_path: Path) -> None:
    config = toy_config(protocol="mix2fld", replay=0.4, logit_adjustment=1.0, rounds=4)
    check_resumed(tmp_path, config, 2, link=CoinLink())


@pytest.mark.parametrize("name", ["mixfld", "mix2fld"])
def test_the_deployment_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=3, replay=0.4, seed_bits=4)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_deployed_device_that_lost_everything_gets_the_seeds_again(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="mixfld", rounds=3, replay=0.4)
    done: list[str] = []

    def client(message: Message, context: Context) -> Message:
        if context.node_id == 101 and message.metadata.group_id == "2" and not done:
            done.append("lost")
            shutil.rmtree(tmp_path / "device-1" / "state")
        return app(message, context)

    path = run_in_process(tmp_path, config, client)
    assert "device 1 was away and catches up" in diary(path)
    run_id = (path / "identity").read_text()
    state = Store(tmp_path / "device-1" / "state", run_id, 1).up_to(3)
    assert state is not None
    assert state.state[REPLAY]["held"].tolist() == [True] * 4
    assert rounds_of(path)[-1]["uploads"]["delivered"] == 4


@pytest.mark.parametrize("seeds_of", [2, 4])
def test_plans_show_the_download_with_the_seeds_that_fit(seeds_of: int) -> None:
    simulation = simulate("mixfld")
    room, scenario = download_bits(simulation, seeds_of), simulation.scenario
    plans = plan_transfers(["mixfld"], scenario.learning, RoomyDownlink(room))
    assert [plan.transfer for plan in plans[2:]] == ["first download", "later downloads"]
    assert [plan.size.bits for plan in plans[2:]] == [room, download_bits(simulation, 0)]


@pytest.mark.parametrize("name", ["fl", "fd", "isolated", "murmur"])
def test_replay_without_seeds_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"replay = 0.5: .* uploads no seed samples"):
        simulate(name)
    assert simulate(name, replay=0)


def test_a_share_of_steps_is_from_0_to_1() -> None:
    with pytest.raises(InputError, match=r"replay = 1.5: must be auto, or a number from 0 to 1"):
        toy_config(replay=1.5)
