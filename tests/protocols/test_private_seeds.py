"""Generated seeds: features of samples, what is generated from them, and their budget."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.errors import InputError
from mix2fld.codecs.statistics import LARGEST_WHOLE
from mix2fld.engine.device_turn import start_device
from mix2fld.protocols.parts import NOISE_KEY, with_secret_noise
from mix2fld.protocols.private import train_on_generated
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import run
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.edges import edge_network, has_edges
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.private_statistics import (
    bounds_of,
    clean_covariance,
    deviations,
    means_of,
    measure_samples,
    shrunk_means,
)
from mix2fld.tasks.sample_features import UNIT, sample_feature_count, sample_features, samples_of
from mix2fld.types import Dimensions, SampleFormat
from mix2fld_lab.audit.known_others import attack_statistics, far_neighbours
from toys import examples, simulation_of, toy_config, toy_dataset

LABELS = toy_dataset().num_labels
simulate = partial(simulation_of, model="paper-cnn", feature_side=2, epsilon=50.0)


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_no_two_samples_are_farther_apart_than_the_bound(seed: int) -> None:
    learning = simulate("dp-seeds").scenario.learning
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, 256, (6, *learning.dims.samples.shape)).astype(np.uint8)
    inputs[:3][rng.random(inputs[:3].shape) < 0.8] = 0
    values = sample_features(learning).measure(inputs)
    bounds = bounds_of(learning, "samples")
    assert bounds.nonnegative
    assert np.linalg.norm(values, axis=1).max() <= UNIT * (1 + 1e-9)
    apart = np.linalg.norm(values[:, None] - values[None], axis=-1)
    assert apart.max() <= np.sqrt(2) * UNIT * (1 + 1e-9) <= bounds.sums * (1 + 1e-9)


def test_samples_of_low_frequencies_come_back() -> None:
    learning = simulate("dp-seeds", feature_side=8, feature_clip=100.0).scenario.learning
    features, inputs = sample_features(learning), toy_dataset().train_inputs[:5]
    assert sample_feature_count(learning, 8) == len(features.projection) == inputs[0].size
    again = samples_of(features, features.measure(inputs), learning.dims)
    np.testing.assert_allclose(again, inputs / 255, atol=1e-5)
    few = sample_features(simulate("dp-seeds", feature_side=1).scenario.learning)
    assert len(few.projection) == 4
    np.testing.assert_allclose(few.projection @ few.projection.T, np.eye(4), atol=1e-12)


def test_a_student_learns_from_seeds_of_known_classes() -> None:
    simulation = simulate("dp-seeds", server_steps=400, feature_side=4)
    learning, data = simulation.scenario.learning, toy_dataset()
    features = sample_features(learning)
    values = features.measure(data.train_inputs)
    means = np.stack([values[data.train_labels == n].mean(axis=0) for n in range(LABELS)])
    off = values - means[data.train_labels]
    weights = train_on_generated(features, means, off.T @ off / len(off), learning, 1)
    before, after = simulation.fleet.measure_models([learning.common_weights, weights])
    assert after[0] > before[0] + 0.2


@pytest.mark.parametrize(("model", "edges"), [("paper-cnn", True), ("mlp", False)])
def test_the_student_begins_with_edges_where_a_model_has_them(model: str, edges: bool) -> None:
    learning = simulate(
        "dp-seeds", model=model, server_steps=1, learning_rate=1e-6
    ).scenario.learning
    assert has_edges(learning.dims) == edges
    features = sample_features(learning)
    count = len(features.projection)
    weights = train_on_generated(features, np.zeros((LABELS, count)), np.eye(count), learning, 1)
    begun = edge_network(learning.dims) if edges else learning.common_weights
    for after, before in zip(weights, begun, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-4)


def test_seeds_are_generated_from_means_that_know_their_noise() -> None:
    scenario = simulate("dp-seeds").scenario
    learning, protocol = scenario.learning, scenario.wire.protocol
    bounds, rng = bounds_of(learning, "samples"), np.random.default_rng(0)
    noise = deviations(learning, "samples")
    count = len(sample_features(learning).projection)
    sums = rng.normal(size=(LABELS, count + 1))
    sums[:, -1] = 100 * 0.3 * bounds.longest
    memory = {"sums": sums, "sums_counts": np.array([100 * LABELS, 4])}
    found = protocol._means(memory, noise, bounds)
    twice = shrunk_means(sums, 100 * LABELS, bounds, 2 * noise.sums)  # four draws of noise
    np.testing.assert_allclose(found, twice)
    assert not np.allclose(found, means_of(sums, 100 * LABELS, bounds))


def test_noise_alone_leaves_no_covariance() -> None:
    from mix2fld.tasks.class_statistics import upper_triangle

    noise = np.random.default_rng(0).normal(size=(60, 60))
    scatter = upper_triangle((noise + noise.T) / 2)
    clean = clean_covariance(3.0 * scatter / scatter.std(), 100, 3.0)
    assert np.trace(clean) < 0.05 * 60 * 3.0 / 100
    real = upper_triangle(np.diag([100.0, 0, 0]))
    np.testing.assert_allclose(clean_covariance(real, 10, 0.0), np.diag([10.0, 0, 0]), atol=1e-9)


def test_who_knows_all_other_samples_stays_within_the_budget_of_seeds() -> None:
    simulation = simulate("dp-seeds", epsilon=4.0, feature_side=1)
    scenario = simulation.scenario
    own = measure_samples(scenario.learning, *simulation.fleet.own(0), "samples")
    sides = far_neighbours(own, LABELS)
    found = attack_statistics(scenario.learning, scenario.wire, sides, trials=1000)
    assert 0.5 < found["part_of_bound"] <= 1
    for rate in ("0.001", "0.01"):
        assert found[rate]["gaussian_epsilon"] <= 4.0
    assert found["0.01"]["gaussian_epsilon"] > 1.0


@pytest.mark.parametrize("name", [n for n, row in PROTOCOLS.items() if row.promise is not None])
def test_every_row_with_a_promise_has_noise_that_a_deployment_keeps_secret(name: str) -> None:
    """A device draws a key of its own; what has no noise of the device's cannot be deployed."""
    simulation = simulate(name)
    state = start_device(simulation.scenario.wire, simulation.scenario.learning, 0)
    keys = [with_secret_noise(state)[NOISE_KEY].tolist() for _ in range(2)]
    assert keys[0] != keys[1]
    assert not state[NOISE_KEY].any()
    summed = simulation.scenario.wire.protocol.trusted_sum
    assert ("simulated" in PROTOCOLS[name].promise(simulation.scenario.config).noise_by) == summed  # type: ignore[misc]


def test_sums_of_many_samples_fit_whole_numbers() -> None:
    simulation = simulate("dp-seeds-sum", epsilon=8.0)
    state, _ = simulation.run_round(simulation.start())
    assert state.server.memory["sums"].max() < LARGEST_WHOLE / 2**10


def test_seeds_of_samples_that_are_no_images_or_series_are_refused() -> None:
    flat = Dimensions(((3,), (3, 4)), 3, SampleFormat((4,)), 5, 3, (4,))
    with pytest.raises(InputError, match=r"samples are \[4\]: seeds are generated for images"):
        sample_feature_count(Sizes(toy_config(), flat, Classification(3)), 2)


@pytest.mark.parametrize("name", ["dp-seeds", "dp-seeds-sum"])
def test_the_servers_training_on_generated_samples_takes_its_time(name: str) -> None:
    config = toy_config(protocol=name, server_steps=50, server_step_us=1000.0)
    (result,) = run(config, dataset=toy_dataset())
    learned = [info for info in result.rounds if info["downloads"]["attempted"]]
    assert learned
    for info in learned:
        assert info["seconds"]["computing"] >= 50 * 1e-3
