"""Statistics of fixed features: what is measured, sent, added up, and made into a network."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.lab import assert_same_as_engine, deployed_config, run_in_process
from mix2fld.base.errors import InputError
from mix2fld.codecs import ClassStatistics, PayloadError
from mix2fld.engine.checks import check_upload
from mix2fld.engine.device_turn import UNTRAINED
from mix2fld.engine.plan import plan_transfers
from mix2fld.models import make_model
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Simulation, make_simulation, run
from mix2fld.tasks.class_statistics import (
    RIDGE,
    closed_form_network,
    discriminant_head,
    measure_statistics,
    pooled,
    square,
    upper_triangle,
)
from mix2fld.tasks.features import LONGEST_EDGES, clip_norms, fixed_features
from mix2fld.tasks.learning import Learning
from mix2fld.types import (
    Dataset,
    Dimensions,
    Model,
    SampleFormat,
    ServerState,
    Statistics,
    Update,
    Upload,
)
from stored_runs import check_resumed
from toy_statistics import some_features, statistics_of
from toys import LABELS, SIDE, CoinLink, simulation_of, toy_config, toy_dataset

SIDE_OF_MAPS = SIDE // 2
DIMS = Dimensions((), 3, SampleFormat((4, 4, 1)), 5, 3, (2, 2, 1))
simulate = partial(simulation_of, model="paper-cnn", feature_side=2)


def a_task(**fields: Any) -> Learning:
    return simulate("statistics", **fields).scenario.learning


def test_edge_features_are_those_of_the_papers_network() -> None:
    """Its own functions with these weights and a head of low frequencies, up to the clip."""
    learning, data = a_task(), toy_dataset()
    features, model = fixed_features(learning), make_model("paper-cnn", (SIDE, SIDE, 1), LABELS)
    tree = jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
    found, inputs = features.measure(data.train_inputs[:20]), data.train_inputs[:20] / 255
    for begin in range(0, len(features.projection), LABELS):
        rows = features.projection[begin : begin + LABELS]
        head = features.head.put(features.network, rows / features.gain, np.zeros(LABELS))
        logits = model.apply(jax.tree.unflatten(tree, head), inputs.astype(np.float32))
        norms = np.linalg.norm(unclipped(learning, data), axis=1)[:20, None]
        expected = np.asarray(logits) * np.minimum(1, LONGEST_EDGES / norms)
        np.testing.assert_allclose(found[:, begin : begin + LABELS], expected, atol=1e-5)


def unclipped(learning: Learning, data: Dataset) -> Any:
    """All features of the paper's network with edge kernels, one by one."""
    features = fixed_features(learning)
    size, found = features.projection.shape[1], []
    for place in range(0, size, LABELS):
        rows = np.eye(size)[place : place + LABELS] / features.gain
        network = features.head.put(features.network, rows, np.zeros(LABELS))
        found.append(learning.stepper.logits(network, data.train_inputs))
    return np.concatenate(found, axis=1)


def test_directions_are_orthonormal_and_long_features_are_clipped() -> None:
    for model in ("paper-cnn", "mlp"):
        rows = fixed_features(a_task(model=model)).projection
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    long = clip_norms(np.array([[3.0, 4.0], [0.3, 0.4], [0, 0]]), 1.0)
    np.testing.assert_allclose(long, [[0.6, 0.8], [0.3, 0.4], [0, 0]])


def test_features_of_another_network_are_what_its_last_layer_sees() -> None:
    """Of a perceptron: its hidden units, in random directions."""
    learning, inputs = a_task(model="mlp"), toy_dataset().train_inputs[:50]
    features = fixed_features(learning)
    bias, kernel = (tensor.astype(np.float64) for tensor in learning.common_weights[:2])
    flat = inputs.reshape(len(inputs), -1) / 255
    hidden = np.maximum(flat @ kernel.T + bias, 0)
    np.testing.assert_allclose(features.measure(inputs), hidden @ features.projection.T, atol=1e-4)
    assert features.projection.shape == (6 * 4, 128)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_statistics_of_parts_add_up_to_those_of_all(seed: int, devices: int) -> None:
    rng = np.random.default_rng(seed)
    found, labels = some_features(rng)
    held = rng.integers(0, devices, len(labels))
    parts = [statistics_of(found[held == d], labels[held == d]) for d in range(devices)]
    counts, means, covariance = pooled(parts)
    for label in range(3):
        assert counts[label] == np.sum(labels == label)
        np.testing.assert_allclose(means[label], found[labels == label].mean(axis=0), atol=1e-5)
    rest = found - means[labels]
    np.testing.assert_allclose(covariance, rest.T @ rest / len(labels), atol=1e-5)


def test_the_head_is_that_of_linear_discriminant_analysis() -> None:
    found, labels = some_features(np.random.default_rng(1), 200)
    means = np.stack([found[labels == label].mean(axis=0) for label in range(3)])
    rest = found - means[labels]
    covariance = rest.T @ rest / len(labels)
    covariance += RIDGE * np.trace(covariance) / 4 * np.eye(4)
    weights = np.linalg.solve(covariance, means.T).T
    expected = found @ weights.T - np.sum(weights * means, axis=1) / 2
    kernel, bias = discriminant_head([statistics_of(found, labels)])
    logits = found @ kernel.T + bias
    moved = logits - expected
    np.testing.assert_allclose(moved - moved[:, :1], 0, atol=1e-4)
    assert np.mean(logits.argmax(axis=1) == labels) > 0.8


def test_a_label_that_nobody_has_is_neither_likely_nor_impossible() -> None:
    found, labels = some_features(np.random.default_rng(2))
    few = labels != 2
    kernel, bias = discriminant_head([statistics_of(found[few], labels[few])])
    assert not kernel[2].any()
    assert bias[2] == 0
    assert np.isfinite(kernel).all()


@given(st.integers(1, 12))
def test_triangles_have_the_norm_of_their_matrix(size: int) -> None:
    half = np.random.default_rng(size).normal(size=(size, size))
    matrix = half + half.T
    upper = upper_triangle(matrix)
    assert upper.shape == (size * (size + 1) // 2,)
    np.testing.assert_allclose(np.linalg.norm(upper), np.linalg.norm(matrix))
    np.testing.assert_allclose(square(upper), matrix)


@settings(deadline=None)
@given(st.integers(0, 100), st.sampled_from([2, 8, 16, 32]))
def test_statistics_come_out_as_they_went_in(seed: int, bits: int) -> None:
    payload, value = (
        ClassStatistics(4, bits),
        statistics_of(*some_features(np.random.default_rng(seed))),
    )
    carried = payload.encode(value, DIMS)
    ends = 0 if bits == 32 else 3 * 64
    assert carried.bits == payload.size(DIMS).bits
    assert carried.bits == 3 * (32 if bits == 32 else 16) + (12 + 10) * bits + ends
    assert len(carried.data) == -(-carried.bits // 8)
    again = payload.decode(carried.data, DIMS)
    assert payload.encode(again, DIMS) == carried
    for one, other in zip(value, again, strict=True):
        step = np.ptp(one) / (2**bits - 1) if bits < 32 else 0
        assert np.abs(one - other).max() <= step / 2 + 1e-5
    np.testing.assert_allclose(again.counts, value.counts, atol=1e-2)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:5], lambda d: d + b"\0"])
def test_damaged_statistics_are_refused(damage: Any) -> None:
    payload = ClassStatistics(4)
    data = payload.encode(statistics_of(*some_features(np.random.default_rng(0))), DIMS).data
    with pytest.raises(PayloadError):
        payload.decode(damage(data), DIMS)


def test_statistics_that_nobody_measures_are_refused() -> None:
    value = statistics_of(*some_features(np.random.default_rng(0)))
    upload = Upload(None, 60, value._replace(sums=np.full((3, 4), 1e9, np.float32)))
    with pytest.raises(PayloadError, match=r"statistics: 1.66667e\+07 a sample"):
        check_upload(PROTOCOLS["statistics"], upload, DIMS.samples)
    check_upload(PROTOCOLS["statistics"], Upload(None, 60, value), DIMS.samples)


@pytest.mark.parametrize("model", ["paper-cnn", "mlp"])
def test_one_upload_and_every_device_starts_from_the_network(model: str) -> None:
    simulation = simulate("statistics", model=model)
    learning, wire = simulation.scenario.learning, simulation.scenario.wire
    state, info = simulation.run_round(simulation.start())
    size = wire.upload_size(with_seeds=True)
    assert info.bits["up"] == 4 * size.bits
    assert size.bits == 3 * 64 + 16 * 4 + 8 * (4 * 24 + 24 * 25 // 2)
    made = [wire.encode_once(wire.make_once(d, *simulation.fleet.own(d))) for d in range(4)]
    sent = [ClassStatistics(24).decode(each.data, learning.dims) for each in made]
    expected = closed_form_network(fixed_features(learning), sent)
    for device in state.devices:
        for tensor, own in zip(expected, device["weights"], strict=True):
            np.testing.assert_array_equal(tensor, own)
    after, later = simulation.run_round(state)
    assert later.bits == {"up": 0, "down": 0}
    assert after.server.updates == 1
    assert info.scores["global"] > 0.9


def test_lost_statistics_are_sent_again_and_the_network_is_made_anew() -> None:
    simulation = simulate("statistics", CoinLink(), rounds=8, seed=2, local_steps=4)
    state, held = simulation.start(), []
    for _ in range(8):
        before = state
        state, _ = simulation.run_round(state)
        held.append(len(state.server.seeds))
        changed = held[-1] > len(before.server.seeds)
        assert (state.server.updates > before.server.updates) == changed
    assert held[0] < 4
    assert held[-1] == 4


def test_a_device_begins_with_what_its_own_samples_tell() -> None:
    simulation = simulate("own-statistics", local_steps=1, learning_rate=1e-12)
    learning, state = simulation.scenario.learning, simulation.start()
    assert all(device[UNTRAINED] for device in state.devices)
    after, info = simulation.run_round(state)
    features = fixed_features(learning)
    for number, device in enumerate(after.devices):
        own = measure_statistics(features, *simulation.fleet.own(number), LABELS)
        for tensor, mine in zip(
            closed_form_network(features, [own]), device["weights"], strict=True
        ):
            np.testing.assert_allclose(tensor, mine, atol=1e-6)
        assert not device[UNTRAINED]
    assert info.bits == {"up": 0, "down": 0}
    assert np.mean(info.scores["devices"]) > 0.8


def test_who_received_a_network_begins_with_it_and_not_with_its_own() -> None:
    simulation = simulate("statistics", participants=2, local_steps=1, learning_rate=1e-12)
    state, _ = simulation.run_round(simulation.start())
    heard = [d for d, device in enumerate(state.devices) if not device[UNTRAINED]]
    assert len(heard) >= 2
    after, info = simulation.run_round(state)
    for device in set(info.asked) & set(heard):
        if device in info.downloads["devices"]:
            continue
        for mine, sent in zip(after.devices[device]["weights"], state.server.weights, strict=True):
            np.testing.assert_allclose(mine, sent, atol=1e-6)


def test_updates_are_added_to_the_closed_form_from_the_second_round_on() -> None:
    simulation = simulate("murmur-stat", initial_weights="edges", update_bits=200)
    learning, wire = simulation.scenario.learning, simulation.scenario.wire
    state, info = simulation.run_round(simulation.start())
    assert info.bits["up"] == 4 * wire.upload_size(with_seeds=True).bits
    held = [state.server.seeds[device] for device in range(4)]
    network = closed_form_network(fixed_features(learning), held)
    assert all(map(np.array_equal, state.server.weights, network))
    after, later = simulation.run_round(state)
    assert later.bits["up"] == 4 * 200
    moved = np.concatenate(
        [
            (new - old).ravel()
            for new, old in zip(after.server.weights, state.server.weights, strict=True)
        ]
    )
    assert 0 < np.linalg.norm(moved) < np.inf
    assert after.server.updates == 2


def statistics_of_device(simulation: Simulation, device: int) -> Statistics:
    return measure_statistics(
        fixed_features(simulation.scenario.learning), *simulation.fleet.own(device), LABELS
    )


def test_late_statistics_move_the_model_by_what_they_change_in_the_closed_form() -> None:
    simulation = simulate("murmur-stat", step_limit=100.0)
    learning, rng = simulation.scenario.learning, np.random.default_rng(0)
    features = fixed_features(learning)
    one, two = (statistics_of_device(simulation, device) for device in (0, 1))
    before, after = closed_form_network(features, [one]), closed_form_network(features, [one, two])
    learnt = [rng.normal(size=part.shape).astype(np.float32) for part in before]
    update = tuple(rng.normal(size=part.shape).astype(np.float32) for part in before)
    now = tuple(part + more for part, more in zip(before, learnt, strict=True))
    upload = Upload(Update.encoded_whole(update, 1.0, 1.0), samples=50, seeds=two)
    server = ServerState(weights=now, seeds={0: one, 1: two}, updates=3)
    found, _ = simulation.scenario.wire.protocol.step(server, {1: upload}, 4)
    assert found.updates == 4
    for mine, base, more, moved in zip(found.weights, after, learnt, update, strict=True):
        np.testing.assert_allclose(mine, base + more + moved, atol=1e-4)


def test_updates_count_until_the_first_statistics_come_and_then_from_the_closed_form() -> None:
    simulation = simulate("murmur-stat", step_limit=100.0)
    learning = simulation.scenario.learning
    update = tuple(np.ones_like(part) for part in learning.common_weights)
    upload = Upload(Update.encoded_whole(update, 1.0, 1.0), samples=50)
    protocol = simulation.scenario.wire.protocol
    moved, _ = protocol.step(ServerState(), {0: upload}, 1)
    for mine, start in zip(moved.weights, learning.common_weights, strict=True):
        np.testing.assert_allclose(mine, start + 1, atol=1e-5)
    own = statistics_of_device(simulation, 0)
    server = replace(moved, seeds={0: own})
    found, _ = protocol.step(server, {0: upload._replace(seeds=own)}, 2)
    network = closed_form_network(fixed_features(learning), [own])
    assert all(map(np.array_equal, found.weights, network))


@pytest.mark.parametrize("name", ["statistics", "own-statistics", "murmur-stat"])
def test_a_run_is_resumed_with_its_statistics(tmp_path: Path, name: str) -> None:
    config = toy_config(protocol=name, model="paper-cnn", feature_side=2, rounds=4)
    check_resumed(tmp_path, config, 1, link=CoinLink())


@pytest.mark.parametrize("name", ["statistics", "own-statistics", "murmur-stat"])
def test_the_deployment_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=3, model="paper-cnn", feature_side=2)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_plan_charges_the_one_download_of_a_run_once() -> None:
    """The server has nothing new to send after the first."""
    config = toy_config(protocol="statistics", rounds=4, feature_side=2)
    (result,) = run(config, dataset=toy_dataset())
    sent = [info["bits"]["down"] for info in result.rounds]
    assert sent[1:] == [0, 0, 0]
    scenario = simulate("statistics").scenario
    plans = plan_transfers(["statistics"], scenario.learning, scenario.link)
    times = {plan.transfer: plan.times_in_a_run(config) for plan in plans}
    assert times == {"first upload": 1, "first download": 1}


def test_plans_show_one_upload() -> None:
    scenario = simulate("statistics").scenario
    plans = plan_transfers(["statistics"], scenario.learning, scenario.link)
    assert [plan.transfer for plan in plans] == ["first upload", "first download"]
    assert plans[0].size == scenario.wire.upload_size(with_seeds=True)


def test_logits_are_those_of_the_model_whoever_computes_them() -> None:
    data = toy_dataset()
    for model in ("paper-cnn", "mlp"):
        learning = a_task(model=model)
        known = make_model(model, (SIDE, SIDE, 1), LABELS)
        tree = jax.tree.structure(jax.eval_shape(known.init, jax.random.key(0)))
        weights = jax.tree.unflatten(tree, learning.common_weights)
        expected = known.apply(weights, (data.test_inputs[:70] / 255).astype(np.float32))
        found = learning.stepper.logits(learning.common_weights, data.test_inputs[:70])
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_more_low_frequencies_than_a_map_has_are_refused() -> None:
    for name in ("statistics", "own-statistics"):
        simulation = simulate(name, feature_side=SIDE_OF_MAPS + 1)
        with pytest.raises(InputError, match=r"feature_side = 5: .* must be at most 4"):
            simulation.fleet.check_seeds()


def test_a_model_without_a_linear_end_is_refused() -> None:
    def init(key: Any) -> Any:
        return {"bias": np.zeros(LABELS, np.float32), "kernel": np.ones((LABELS, 64), np.float32)}

    def apply(weights: Any, inputs: Any) -> Any:
        flat = inputs.reshape(len(inputs), -1)
        return (flat @ weights["kernel"].T + weights["bias"]) ** 2

    config = toy_config(protocol="statistics", kernel="auto")
    simulation = make_simulation(config, toy_dataset(), Model("squares", init, apply))
    with pytest.raises(InputError, match="must end in a linear layer"):
        simulation.fleet.check_seeds()


def test_statistics_cannot_be_replayed() -> None:
    with pytest.raises(InputError, match=r"replay = 0.5: Statistics uploads no seed samples"):
        simulate("statistics", replay=0.5)


@pytest.mark.parametrize("bits", [1, 17, 33])
def test_bits_of_statistics(bits: int) -> None:
    with pytest.raises(InputError, match=f"statistics_bits = {bits}: must be"):
        toy_config(statistics_bits=bits)


@pytest.mark.parametrize("name", ["isolated", "own-statistics", "dp-sum", "cfd"])
def test_there_are_no_weights_for_an_attacker_to_replace(name: str) -> None:
    with pytest.raises(InputError, match=r"attack = sign-flip: replaces uploads of weights"):
        simulate(name, attack="sign-flip", attackers=1)


def test_false_labels_reach_statistics_and_nobody_judges_them_as_seeds() -> None:
    ends = []
    for attack in ("none", "label-shift"):
        fields = {"attack": attack, "attackers": 1, "seed_check": "agreement"}
        simulation = simulate("statistics", **fields)
        state, info = simulation.run_round(simulation.start())
        assert all(suspect["upload"] == "statistics" for suspect in info.suspects)
        ends.append(state.server.weights)
    plain, shifted = ends
    assert any(not np.array_equal(one, other) for one, other in zip(plain, shifted, strict=True))


def test_an_attack_on_seeds_is_refused_where_statistics_are_sent() -> None:
    with pytest.raises(InputError, match="attack = seed-label-shift: replaces seeds"):
        simulate("statistics", attack="seed-label-shift", attackers=1)


@pytest.mark.parametrize("aggregation", ["mean", "filtered-median"])
def test_class_means_alone_in_few_directions_make_a_nearest_mean_head(aggregation: str) -> None:
    chosen = {"scatter": "none", "directions": 5, "statistics_bits": 4}
    simulation = simulate("statistics", model="mlp", aggregation=aggregation, **chosen)
    learning, wire = simulation.scenario.learning, simulation.scenario.wire
    state, info = simulation.run_round(simulation.start())
    assert info.bits["up"] == 4 * (64 + 8 * 4 + 64 + 4 * 4 * 5)
    made = [wire.encode_once(wire.make_once(d, *simulation.fleet.own(d))) for d in range(4)]
    payload = ClassStatistics(5, 4, scatter=False)
    sent = [payload.decode(each.data, learning.dims) for each in made]
    counts, sums = (np.sum([one[part] for one in sent], axis=0, dtype=float) for part in (0, 1))
    means = sums / counts[:, None]
    kernel, bias = discriminant_head(sent)
    points = np.random.default_rng(0).normal(size=(50, 5)) + means.mean(axis=0)
    nearest = np.argmin(((points[:, None] - means) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal((points @ kernel.T + bias).argmax(axis=1), nearest)
    if aggregation == "mean":
        expected = closed_form_network(fixed_features(learning), sent)
        for tensor, own in zip(expected, state.devices[0]["weights"], strict=True):
            np.testing.assert_array_equal(tensor, own)


def test_directions_are_not_for_edges_and_numbers_need_a_scatter() -> None:
    with pytest.raises(InputError, match="directions = 5: paper-cnn has edge maps"):
        simulate("statistics", directions=5).run_round(simulate("statistics").start())
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 3)).astype(np.float32)
    data = Dataset(
        "numbers", inputs, None, inputs[:50], None,
        train_targets=inputs.sum(axis=1), test_targets=inputs[:50].sum(axis=1),
    )  # fmt: skip
    config = toy_config(protocol="statistics", model="linear", scatter="none", partition="iid")
    with pytest.raises(InputError, match="scatter = none: targets are numbers"):
        run(config.replace(samples_per_device=50, devices=4), dataset=data)
