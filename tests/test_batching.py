"""All devices at once give what each gives alone, whatever the number of cores and the layout."""

import jax
import numpy as np
import pytest

from mix2fld.learning import xla as batching
from mix2fld.learning.xla import over_devices, pick
from mix2fld.runs.simulation import make_simulation
from toys import toy_config, toy_dataset


def scaled_sum(power: int, shared: jax.Array, own: jax.Array) -> jax.Array:
    return jax.numpy.sum(shared * own) ** power


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_function_of_one_device_is_mapped_over_all(
    monkeypatch: pytest.MonkeyPatch, devices: int, one_by_one: bool
) -> None:
    monkeypatch.setattr(batching, "walks_one_by_one", lambda: one_by_one)
    jax.clear_caches()
    shared, own = np.arange(5.0), np.random.default_rng(0).normal(size=(devices, 5))
    result = over_devices(scaled_sum, (2,), batching.on_every_core((shared,)), (own,))
    np.testing.assert_allclose(result, (own @ shared) ** 2, rtol=1e-5)
    jax.clear_caches()


@pytest.mark.parametrize("kernel", ["xla", "auto"])
@pytest.mark.parametrize("model", ["mlp", "paper-cnn"])
def test_a_device_learns_the_same_alone_and_among_others(model: str, kernel: str) -> None:
    config = toy_config(devices=3, model=model, kernel=kernel, samples_per_device=40)
    simulation = make_simulation(config, toy_dataset())
    start = simulation.start()
    draws = simulation.draws(1)
    begun = simulation.trainer.begin(start.weights)
    together = simulation.trainer.steps(begun, start.teachers, draws)
    for device in range(3):
        only = slice(device, device + 1)
        own = jax.tree.map(lambda a, only=only: a[only], begun)
        alone = simulation.trainer.steps(own, start.teachers[only], draws[only])
        for one, many in zip(
            jax.tree.leaves(pick(alone, 0)), jax.tree.leaves(pick(together, device)), strict=True
        ):
            np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
def test_accuracy_counts_every_test_sample_once(kernel: str) -> None:
    """As many as no multiple of a batch; a constant model is right on one label."""
    config = toy_config(model="paper-cnn", kernel=kernel, test_samples=101)
    simulation = make_simulation(config, toy_dataset())
    weights = jax.tree.map(np.zeros_like, simulation.task.common_weights())
    weights["linear"]["bias"] = np.array([0, 0, 1, 0], np.float32)
    labels = toy_dataset().test_labels[:101]
    assert simulation.tests.accuracies([weights] * 3) == [float(np.mean(labels == 2))] * 3
