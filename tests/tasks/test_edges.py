"""Fixed edges as initial weights: what they are, and who starts from them."""

from pathlib import Path

import numpy as np
import pytest

from deploy.lab import assert_same_as_engine, deployed_config
from deploy.memory_line import run_in_memory
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.deploy.edge.learning import SmallStepper, small_learning
from mix2fld.native import small_cnn
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.edges import FEATURE_GAIN, edge_maps, edge_network, has_edges
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.make_learning import make_learning
from toys import toy_config, toy_dataset

EDGES = {"model": "paper-cnn", "initial_weights": "edges"}


def a_learning(**fields: object) -> Learning:
    data = toy_dataset()
    return make_learning(
        Config.of(**{**EDGES, **fields}), data.samples, Classification(data.num_labels)
    )


def test_the_network_computes_edge_maps_and_nothing_else() -> None:
    learning = a_learning()
    assert has_edges(learning.dims)
    weights = list(edge_network(learning.dims))
    assert not any(weights[place].any() for place in (0, 2, 4, 5))
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(5, *learning.dims.samples.shape)).astype(np.float32)
    labels = learning.dims.num_labels
    weights[5] = rng.normal(size=weights[5].shape).astype(np.float32)
    maps = edge_maps(images.astype(np.float64), weights[1].astype(np.float64),
                     weights[3].astype(np.float64))  # fmt: skip
    logits = learning.stepper.logits(tuple(weights), images)
    assert logits.shape == (5, labels)
    np.testing.assert_allclose(logits, maps @ weights[5].T, rtol=2e-5, atol=2e-5)


def test_a_derivative_sees_no_even_brightness_and_is_as_long_as_said() -> None:
    first = edge_network(a_learning().dims)[1].astype(np.float64)
    np.testing.assert_allclose(first.sum(axis=(0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(np.abs(first).sum(axis=(0, 1, 2)), 2, rtol=1e-6)
    second = edge_network(a_learning().dims)[3].astype(np.float64)
    wanted = FEATURE_GAIN * 3 / 8.72 * (2 - 2 * 0.35)
    np.testing.assert_allclose(second.sum(axis=(0, 1, 2)), wanted, rtol=1e-6)


def test_all_devices_and_the_server_start_from_the_same_edges_whatever_the_seed() -> None:
    wanted = edge_network(a_learning().dims)
    for seed in (0, 7):
        config = toy_config(protocol="murmur", seed=seed, **EDGES)
        simulation = make_simulation(config, toy_dataset())
        starts = [state["weights"] for state in simulation.start().devices]
        learning = simulation.scenario.learning
        for weights in (*starts, learning.common_weights, learning.initial_weights(3)):
            for mine, theirs in zip(weights, wanted, strict=True):
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("model", ["mlp", "cifar-cnn"])
def test_another_network_has_no_edges(model: str) -> None:
    with pytest.raises(InputError, match=r"initial_weights = edges: .* must be paper-cnn"):
        _ = a_learning(model=model).common_weights


@pytest.mark.skipif(small_cnn((8, 8, 1), 12, 6, 4) is None, reason="no compiler for the kernel")
def test_a_small_device_makes_them_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_drawn(self: SmallStepper, seed: int) -> None:
        raise AssertionError("drew initial weights")

    monkeypatch.setattr(SmallStepper, "draw_weights", nothing_drawn)
    config = deployed_config(tmp_path, protocol="murmur", kernel="native", **EDGES)
    path = run_in_memory(tmp_path, config, make_learning=small_learning)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
