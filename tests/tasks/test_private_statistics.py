"""Statistics with noise: sensitivities, accounting, what is sent, and an attack on all of it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from reliability.replay import state_on_disk

from deploy.lab import (
    assert_same_as_engine,
    deployed_config,
    last_state,
    rounds_of,
    run_in_process,
)
from mix2fld.base.accounting import delta_of, noise_multiplier, shares
from mix2fld.base.errors import InputError
from mix2fld.codecs import ClassMeans, Named, PartOfStatistics, PayloadError, Weights
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.settings import read_settings
from mix2fld.engine.checks import check_upload
from mix2fld.protocols.aggregation.outliers import far_uploads
from mix2fld.protocols.parts import NOISE_KEY, with_secret_noise
from mix2fld.protocols.private import STAGE, trusted_sum
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.tasks.features import fixed_features
from mix2fld.tasks.private_statistics import (
    COUNT_WEIGHT,
    GRID,
    MEANS,
    Bounds,
    Deviations,
    MeasuredFeatures,
    bounds_of,
    class_scatter,
    class_sums,
    deviations,
    means_of,
    measure_samples,
    network_of,
    noisy_covariance,
)
from mix2fld.types import Dimensions, SampleFormat, StatisticsPart, Upload
from mix2fld_lab.attacks.empirical import (
    epsilon_at_least,
    epsilon_of,
    gaussian_epsilon_at_least,
    most_true_positives,
)
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.known_others import attack_statistics, far_neighbours
from toys import LABELS, CoinLink, DeadDownlink, examples, simulation_of, toy_config, toy_dataset

DIMS = Dimensions(((3,), (3, 4)), 3, SampleFormat((4, 4, 1)), 5, 3, (2, 2, 1))
NO_NOISE = Deviations(0.0, 0.0)
simulate = partial(simulation_of, model="paper-cnn", feature_side=2, epsilon=50.0)


@examples(40)
@given(st.floats(0.05, 20), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_noise_is_the_least_that_keeps_the_budget(epsilon: float, delta: float) -> None:
    multiplier = noise_multiplier(epsilon, delta)
    assert delta_of(epsilon, multiplier) <= delta
    assert delta_of(epsilon, multiplier * (1 - 1e-6)) > delta
    assert epsilon_of(delta, multiplier) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("parts", [(1.0,), (0.4, 0.6), (0.2,) * 5])
def test_accounting_is_that_of_dp_accounting(parts: tuple[float, ...]) -> None:
    """One release, two with parts of the budget, and one in each of five rounds."""
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for multiplier in shares(noise_multiplier(4.0, 1e-5), *parts):
        accountant.compose(GaussianDpEvent(multiplier))
    assert accountant.get_epsilon(1e-5) == pytest.approx(4.0, rel=5e-3)


def samples_of(rng: np.random.Generator, bounds: Bounds, count: int = 12) -> MeasuredFeatures:
    """Features as long as they may be, or shorter; of positive ones, a projection."""
    wide = rng.normal(size=(count, 9)) * rng.choice([0.1, 1, 10], size=(count, 1))
    wide = np.abs(wide) if bounds.nonnegative else wide
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    wide *= bounds.longest / np.where(rng.random((count, 1)) < 0.7, lengths, 2 * lengths)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:, :4]
    labels = rng.integers(0, 3, count).astype(np.int32)
    return MeasuredFeatures(wide @ axes, labels, bounds, NO_NOISE)


@examples(80)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_no_replaced_sample_moves_statistics_farther_than_their_sensitivity(
    seed: int, nonnegative: bool, same_label: bool
) -> None:
    rng = np.random.default_rng(seed)
    bounds = Bounds(longest=3.0, residual=1.2, nonnegative=nonnegative)
    one, another = samples_of(rng, bounds), samples_of(rng, bounds)
    values, labels = one.values.copy(), one.labels.copy()
    values[0] = another.values[0]
    labels[0] = labels[0] if same_label else another.labels[0]
    other = one._replace(values=values, labels=labels)
    moved = class_sums(one, 3) - class_sums(other, 3)
    assert np.linalg.norm(moved) <= bounds.sums * (1 + 1e-9)
    means = rng.normal(size=(3, 4))
    moved = class_scatter(one, means) - class_scatter(other, means)
    assert np.linalg.norm(moved) <= bounds.scatter * (1 + 1e-9)


def test_sensitivities_are_reached() -> None:
    """Opposite samples, those of other labels, and scatters in two directions."""
    bounds = Bounds(2.0, 0.5, nonnegative=False)
    ends = np.array([[2.0, 0], [-2.0, 0]])
    one, other = (
        MeasuredFeatures(ends[[i]], np.zeros(1, np.int32), bounds, NO_NOISE) for i in (0, 1)
    )
    moved = class_sums(one, 2) - class_sums(other, 2)
    assert np.linalg.norm(moved) == pytest.approx(bounds.sums)
    positive = bounds._replace(nonnegative=True)
    moved = class_sums(one, 2) - class_sums(one._replace(labels=np.ones(1, np.int32)), 2)
    assert np.linalg.norm(moved) == pytest.approx(positive.sums)
    turned = one._replace(values=np.array([[0.0, 2.0]]))
    moved = class_scatter(one, np.zeros((2, 2))) - class_scatter(turned, np.zeros((2, 2)))
    assert np.linalg.norm(moved) == pytest.approx(bounds.scatter)


def test_without_noise_sums_and_scatter_are_those_of_plain_formulas() -> None:
    rng = np.random.default_rng(3)
    bounds = Bounds(100.0, 100.0, nonnegative=False)
    labels = rng.integers(0, 3, 60).astype(np.int32)
    values = rng.normal(size=(60, 4)) + 2 * np.eye(3, 4)[labels]
    own = MeasuredFeatures(values, labels, bounds, NO_NOISE)
    sums = class_sums(own, 3)
    means = means_of(sums, 60, bounds)
    np.testing.assert_allclose(sums[:, -1], COUNT_WEIGHT * 100 * np.bincount(labels))
    rest = np.zeros((4, 4))
    for label in range(3):
        held = values[labels == label]
        np.testing.assert_allclose(means[label], held.mean(axis=0))
        rest += (held - held.mean(axis=0)).T @ (held - held.mean(axis=0))
    found = noisy_covariance(class_scatter(own, means), 60, 0.0)
    np.testing.assert_allclose(found, rest / 60 + 0.001 * np.eye(4), atol=1e-12)


def test_the_network_is_that_of_linear_discriminant_analysis() -> None:
    learning = simulate("dp-statistics").scenario.learning
    rng = np.random.default_rng(0)
    means, half = rng.normal(size=(LABELS, 24)), rng.normal(size=(24, 24))
    covariance = half @ half.T + np.eye(24)
    features = fixed_features(learning)
    weights = network_of(features, means, covariance)
    inverse = np.linalg.inv(covariance)
    kernel = 0.1 * means @ inverse @ features.projection / features.gain
    np.testing.assert_allclose(weights[5], kernel, rtol=1e-3, atol=1e-5)
    bias = -0.05 * np.einsum("ld,de,le->l", means, inverse, means)
    np.testing.assert_allclose(weights[4], bias, rtol=1e-4)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("stage", [0, 1])
def test_parts_come_out_as_they_went_in(whole: bool, stage: int) -> None:
    payload, rng = PartOfStatistics(4, 8, whole), np.random.default_rng(stage)
    shape = (10,) if stage else (3, 5)
    values = rng.normal(size=shape).astype(np.float32)
    if whole:
        values = rng.integers(-(2**20) + 1, 2**20, size=shape, dtype=np.int32)
    carried = payload.encode(StatisticsPart(stage, values), DIMS)
    count = (15, 10)[stage]
    assert carried.bits == 8 + (21 * count if whole else 8 * count + 64)
    assert len(carried.data) == -(-carried.bits // 8)
    assert carried.bits <= payload.size(DIMS).bits
    again = payload.decode(carried.data, DIMS)
    assert again is not None
    assert again.stage == stage
    assert payload.encode(again, DIMS) == carried
    if whole:
        np.testing.assert_array_equal(again.values, values)
    else:
        assert np.abs(again.values - values).max() <= np.ptp(values) / 255


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: b"\x02" + d[1:], lambda d: d + b"\0", lambda d: d[:1]]
)
@pytest.mark.parametrize("whole", [False, True])
def test_damaged_parts_are_refused(damage: Any, whole: bool) -> None:
    payload = PartOfStatistics(4, 8, whole)
    values = np.zeros((3, 5), np.int32 if whole else np.float32)
    data = payload.encode(StatisticsPart(0, values), DIMS).data
    with pytest.raises(PayloadError):
        payload.decode(damage(data), DIMS)
    with pytest.raises(PayloadError):
        Named({"means": ClassMeans(4), "weights": Weights()}).decode(b"\0" * 20, DIMS)


def test_two_uploads_of_a_device_and_no_more() -> None:
    simulation = simulate("dp-statistics", rounds=4)
    state, sent = simulation.start(), []
    for _ in range(4):
        state, info = simulation.run_round(state)
        sent.append(info.bits["up"] // 4)
    d = 24
    assert sent == [8 + 64 + 8 * 4 * (d + 1), 8 + 64 + 8 * d * (d + 1) // 2, 0, 0]
    assert all(int(device[STAGE]) == 2 for device in state.devices)
    assert state.server.updates == 2
    assert info.scores["global"] > 0.8


def test_noise_has_the_deviation_that_the_budget_asks_for() -> None:
    simulation = simulate("dp-statistics", epsilon=2.0, statistics_bits=32)
    scenario, fleet = simulation.scenario, simulation.fleet
    own = measure_samples(scenario.learning, *fleet.own(0))
    state, _ = simulation.run_round(simulation.start())
    exact = sum(class_sums(measure_samples(scenario.learning, *fleet.own(d)), 4) for d in range(4))
    noise = (state.server.memory["sums"] - exact) / 2
    assert noise.std() == pytest.approx(own.noise.sums, rel=0.25)
    expected = noise_multiplier(2.0, 1e-5) / np.sqrt(0.4) * bounds_of(scenario.learning).sums
    assert own.noise.sums == pytest.approx(expected)


def test_a_trusted_sum_is_exact_but_for_one_draw_of_noise() -> None:
    rng = np.random.default_rng(0)
    values = [rng.integers(-(2**20), 2**20, size=2000).astype(np.int32) for _ in range(5)]
    total = np.sum(np.stack(values).astype(np.int64), axis=0) * GRID
    noise = trusted_sum(values, 3.0, np.random.default_rng(1)) - total
    assert noise.std() == pytest.approx(3.0, rel=0.05)
    assert np.all(noise / GRID == np.rint(noise / GRID))
    learning = simulate("dp-sum").scenario.learning
    plain, on_grid = deviations(learning), deviations(learning, on_grid=True)
    more = np.array(on_grid) / np.array(plain) - 1
    bounds = bounds_of(learning)
    np.testing.assert_allclose(
        more, [GRID * np.sqrt(100) / bounds.sums, GRID * np.sqrt(300) / bounds.scatter]
    )


def test_single_uploads_of_a_sum_are_not_compared_and_no_others_refused() -> None:
    inbox = {
        device: Upload(StatisticsPart(0, np.full((3, 5), 2**20 - 1, np.int32)), 40)
        for device in range(8)
    }
    summed, noisy = PROTOCOLS["dp-sum"], PROTOCOLS["dp-statistics"]
    assert far_uploads(summed, inbox) == {}
    for upload in inbox.values():
        check_upload(summed, upload, DIMS.samples)
    wrong = Upload(StatisticsPart(1, np.full(10, 1e9, np.float32)), 40)
    with pytest.raises(PayloadError, match=r"must be at most 1e\+06"):
        check_upload(noisy, wrong, DIMS.samples)


@pytest.mark.parametrize("name", ["dp-statistics", "dp-sum"])
def test_what_is_sent_again_is_the_same_and_counted_from_the_same_means(name: str) -> None:
    """Who hears a lost upload and its repetition learns nothing from the difference."""
    simulation = simulate(name, CoinLink(), rounds=9, seed=3, local_steps=2)
    fleet, heard = simulation.fleet, {}
    plain = fleet.train

    def listening(states: Any, order: Any) -> Any:
        underway, trained = plain(states, order)
        for device, message in trained.messages.items():
            if message.bits:
                stage = message.body.data[0]
                heard.setdefault((device, stage), set()).add(message.body.data)
        return underway, trained

    fleet.train = listening  # type: ignore[method-assign]
    state, lost = simulation.start(), 0
    for _ in range(9):
        state, info = simulation.run_round(state)
        lost += info.uploads["attempted"] - info.uploads["delivered"]
    assert lost > 2
    assert len(heard) > 4
    assert all(len(different) == 1 for different in heard.values())
    assert {stage for _, stage in heard} == {0, 1}


def test_a_device_without_means_sends_no_scatter() -> None:
    simulation = simulate("dp-statistics", DeadDownlink(), rounds=3)
    state = simulation.start()
    for _ in range(3):
        state, info = simulation.run_round(state)
    assert info.bits["up"] == 0
    assert all(int(device[STAGE]) == 1 for device in state.devices)
    assert not any(device[MEANS].any() for device in state.devices)


@pytest.mark.parametrize("name", ["dp-fl", "dp-murmur"])
def test_updates_are_clipped_and_have_noise_before_any_codec(name: str) -> None:
    fields = {"rounds": 4, "upload_every": 2, "update_clip": 0.3, "epsilon": 4.0}
    protocol = simulate(name, **fields).scenario.wire.protocol
    (noise,) = protocol.transforms  # type: ignore[attr-defined]
    deviation = noise.deviation(protocol.config)
    assert deviation == pytest.approx(2 * 0.3 * np.sqrt(2) * noise_multiplier(4.0, 1e-5))
    simulation = simulate(name, **fields, bits_per_weight=16, update_bits=10**4)
    seen = []
    wire = simulation.scenario.wire
    codec = type(wire.protocol.upload_codec)
    compress_rows = codec.compress_rows

    def listening(self: Any, updates: Any, rngs: Any, bit_budgets: Any) -> Any:
        seen.extend(updates)
        return compress_rows(self, updates, rngs, bit_budgets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "compress_rows", listening)
        state, _ = simulation.run_round(simulation.start())
        simulation.run_round(state)
    assert len(seen) == 4
    expected = deviation * np.sqrt(seen[0].size)
    assert np.linalg.norm(seen[0]) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("name", ["dp-fl", "dp-murmur"])
def test_no_step_is_longer_than_what_was_clipped(name: str) -> None:
    simulation = simulate(name, update_clip=0.3, epsilon=1.0, step_limit=1.5)
    before = simulation.start()
    after, _ = simulation.run_round(before)
    common = simulation.scenario.learning.common_weights
    moved = [a - b for a, b in zip(after.server.weights, common, strict=True)]
    length = np.sqrt(sum(float((part**2).sum()) for part in moved))
    assert length == pytest.approx(1.5 * 0.3, rel=1e-4)


def test_records_say_what_is_promised() -> None:
    config = toy_config(protocol="dp-statistics", epsilon=3.0, delta=1e-4)
    (result,) = run(config, dataset=toy_dataset())
    promise = result.summary["privacy"]
    assert (promise["epsilon"], promise["delta"], promise["uploads"]) == (3.0, 1e-4, 2)
    assert promise["noise_multiplier"] == noise_multiplier(3.0, 1e-4)
    assert "one sample of a device with its label" in promise["protects"]
    (result,) = run(toy_config(protocol="dp-fl"), dataset=toy_dataset())
    assert result.summary["privacy"]["uploads"] == 2
    assert "all samples of a device" in result.summary["privacy"]["protects"]
    (result,) = run(toy_config(protocol="fl"), dataset=toy_dataset())
    assert result.summary["privacy"] is None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("epsilon", 0, "epsilon = 0: must be greater than 0"),
        ("epsilon", -1, "epsilon = -1: must be"),
        ("delta", 0, "delta = 0: must be greater than 0"),
        ("delta", 1, "delta = 1: must be less than 1"),
        ("feature_clip", 0, "feature_clip = 0: must be auto, or a number above 0"),
        ("scatter_clip", -2, "scatter_clip = -2: must be auto, or a number above 0"),
        ("update_clip", 0, "update_clip = 0: must be greater than 0"),
        ("sums_budget", 1, "sums_budget = 1: must be less than 1"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Config.of(**{field: value})


@pytest.fixture(scope="module")
def attacked() -> dict[str, Any]:
    simulation = simulate("dp-statistics", epsilon=4.0, feature_side=1)
    scenario = simulation.scenario
    own = measure_samples(scenario.learning, *simulation.fleet.own(0))
    sides = far_neighbours(own, LABELS)
    return attack_statistics(scenario.learning, scenario.wire, sides, trials=1000)


def test_who_knows_all_other_samples_stays_within_the_budget(attacked: dict[str, Any]) -> None:
    for rate in ("0.001", "0.01"):
        found = attacked[rate]
        assert found["epsilon"] <= found["gaussian_epsilon"] + 1e-9 <= 4.0
        assert found["true"]["interval"][0] <= found["allowed"] + 0.1
    assert 0.5 < attacked["part_of_bound"] <= 1


def test_the_attack_is_strong_enough_to_find_too_little_noise(attacked: dict[str, Any]) -> None:
    """With the noise of ε = 40 on what claims ε = 4, the lower bound exceeds the claim."""
    assert attacked["0.01"]["gaussian_epsilon"] > 1.0
    simulation = simulate("dp-statistics", epsilon=40.0, feature_side=1)
    scenario = simulation.scenario
    own = measure_samples(scenario.learning, *simulation.fleet.own(0))
    sides = far_neighbours(own, LABELS)
    found = attack_statistics(scenario.learning, scenario.wire, sides, trials=1000)
    assert found["0.01"]["gaussian_epsilon"] > 4.0
    with pytest.raises(InputError, match="candidates = 100"):
        attack_statistics(scenario.learning, scenario.wire, sides, trials=100)


def test_lower_bounds_follow_from_the_ends_of_intervals() -> None:
    assert epsilon_at_least(Share(0, 100), Share(1, 100), 1e-5) == 0
    true, false = Share(500, 1000), Share(10, 1000)
    expected = np.log((true.interval()[0] - 1e-5) / false.interval()[1])
    assert epsilon_at_least(true, false, 1e-5) == pytest.approx(expected)
    assert gaussian_epsilon_at_least(true, false, 1e-5) > expected
    assert gaussian_epsilon_at_least(Share(1, 100), Share(50, 100), 1e-5) == 0
    assert most_true_positives(0.01, 8.0, 1e-5) == pytest.approx(0.2545, abs=2e-4)


def test_noise_of_a_deployment_is_secret(tmp_path: Path) -> None:
    """Its config and seed, which the server knows, do not tell the noise."""
    assert with_secret_noise({"weights": ()}) == {"weights": ()}
    config = deployed_config(
        tmp_path, protocol="dp-statistics", rounds=1, model="paper-cnn", feature_side=1
    )
    path = run_in_process(tmp_path, config)
    deployed = last_state(path, config, devices_are_elsewhere=True)
    simulation = make_simulation(config, load_dataset(config.data))
    simulated, info = simulation.run_round(simulation.start())
    assert rounds_of(path)[0]["bits"] == info.bits
    for name in ("sums", MEANS):
        one, other = deployed.server.memory[name], simulated.server.memory[name]
        assert one.shape == other.shape
        assert np.mean(one == other) < 0.1
    own = state_on_disk(path, tmp_path, config, 0, deployed)
    assert own is not None
    assert own[NOISE_KEY].any()


@pytest.mark.parametrize("name", ["dp-statistics", "dp-fl"])
def test_with_the_same_noise_the_deployment_has_the_numbers_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("mix2fld.deploy.edge.turn.with_secret_noise", lambda state: state)
    config = deployed_config(tmp_path, protocol=name, rounds=3, epsilon=100.0)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_device_that_lost_what_it_sent_sends_nothing_more() -> None:
    scenario = simulate("dp-statistics").scenario
    assert int(scenario.wire.protocol.on_state_lost({})[STAGE]) == 2


def test_a_trusted_sum_cannot_be_deployed() -> None:
    given = {"protocol": "dp-sum", "seed": 0, "settings": "", "out": "x"}
    with pytest.raises(InputError, match=r"protocol = dp-sum: its trusted sum is only simulated"):
        read_settings({**given, "timeout-s": 1, "wait-s": 1})
