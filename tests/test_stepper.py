"""All devices at once give what each gives alone, whatever the number of cores and the layout."""

from functools import cache

import jax
import numpy as np
import pytest

from mix2fld.config import LearningConfig
from mix2fld.learning import xla
from mix2fld.learning.losses import distillation_loss, label_loss, one_hot
from mix2fld.learning.make_task import choose_stepper, make_task
from mix2fld.learning.stepper import (
    Learned,
    Start,
    Stepper,
    TestSet,
    Watch,
    draw_samples,
    local_result,
)
from mix2fld.learning.xla import over_devices
from mix2fld.models import make_model
from mix2fld.types import Samples
from toys import toy_config, toy_dataset


def scaled_sum(power: int, shared: jax.Array, own: jax.Array) -> jax.Array:
    return jax.numpy.sum(shared * own) ** power


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_function_of_one_device_is_mapped_over_all(
    monkeypatch: pytest.MonkeyPatch, devices: int, one_by_one: bool
) -> None:
    monkeypatch.setattr(xla, "walks_one_by_one", lambda: one_by_one)
    jax.clear_caches()
    shared, own = np.arange(5.0), np.random.default_rng(0).normal(size=(devices, 5))
    result = over_devices(scaled_sum, (2,), xla.on_every_core((shared,)), (own,))
    np.testing.assert_allclose(result, (own @ shared) ** 2, rtol=1e-5)
    jax.clear_caches()


@cache
def a_stepper(model: str, kernel: str) -> Stepper:
    """One for equal arguments, so that it is compiled once."""
    sample_shape = toy_dataset().sample_shape
    return choose_stepper(make_model(model, sample_shape, 4), LearningConfig(kernel=kernel))


def train(model: str, kernel: str, chosen: list[int], watch: Watch) -> Learned:
    """The local phases of some of three devices, each with its own start, teacher and draws."""
    data = toy_dataset()
    stepper = a_stepper(model, kernel)
    held = stepper.hold(Samples(data.train_inputs, one_hot(data.train_labels, 4)))
    starts, draws = [], []
    for device in chosen:
        rng = np.random.default_rng(device)
        teacher = rng.dirichlet(np.ones(4), 4).astype(np.float32)
        starts.append(Start(stepper.draw_weights(device), teacher))
        draws.append(draw_samples(rng, len(data.train_labels), 30, 1))
    return stepper.train(distillation_loss, held, starts, draws, watch)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
@pytest.mark.parametrize("model", ["mlp", "paper-cnn"])
def test_a_device_learns_the_same_alone_and_among_others(model: str, kernel: str) -> None:
    watch = Watch(0, (30,))
    together = train(model, kernel, [0, 1, 2], watch)
    for device in range(3):
        alone = train(model, kernel, [device], watch)
        for one, many in zip(
            jax.tree.leaves(alone.phases[0]), jax.tree.leaves(together.phases[device]), strict=True
        ):
            np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
def test_the_watched_device_is_looked_at_on_its_way(kernel: str) -> None:
    """After as many steps as said; what it learns is the same, however often one looks."""
    watched = train("paper-cnn", kernel, [0, 1, 2], Watch(1, (10, 20, 30)))
    plain = train("paper-cnn", kernel, [0, 1, 2], Watch(1, (30,)))
    assert [step for step, _ in watched.snapshots] == [10, 20, 30]
    for snapshot, phase in ((watched.snapshots[-1], watched), (plain.snapshots[0], plain)):
        for one, other in zip(snapshot[1], phase.phases[1].weights, strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(
        jax.tree.leaves(watched.phases), jax.tree.leaves(plain.phases), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    first, second, last = (weights[-1] for _, weights in watched.snapshots)
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, last)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
def test_starting_weights_are_left_as_they_are(kernel: str) -> None:
    """Devices share the arrays of their weights until they differ."""
    data = toy_dataset()
    stepper = a_stepper("paper-cnn", kernel)
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    weights = stepper.draw_weights(3)
    kept = [np.array(tensor) for tensor in weights]
    start = Start(weights, np.zeros((4, 4), np.float32))
    draws = draw_samples(np.random.default_rng(0), 240, 20, 1)
    learned = stepper.train(
        label_loss, stepper.hold(samples), [start] * 2, [draws] * 2, Watch(0, (20,))
    )
    trained = stepper.train_one(label_loss, samples, start, draws)
    for before, after, device, server in zip(
        kept, weights, learned.phases[1].weights, trained, strict=True
    ):
        np.testing.assert_array_equal(before, after)
        assert not np.array_equal(before, device)
        np.testing.assert_allclose(device, server, rtol=0, atol=1e-6)
    assert local_result(learned.phases[0]).outputs.dtype == np.float32


@pytest.mark.parametrize("kernel", ["xla", "auto"])
def test_accuracy_counts_every_test_sample_once(kernel: str) -> None:
    """As many as no multiple of a batch; a constant model is right on one label."""
    data = toy_dataset()
    task = make_task(toy_config(model="paper-cnn", kernel=kernel), data.samples, 4)
    images, labels = data.test_inputs[:101], data.test_labels[:101]
    zeros = [np.zeros_like(tensor) for tensor in task.common_weights]
    constant = (*zeros[:4], np.array([0, 0, 1, 0], np.float32), zeros[5])
    tests = TestSet(task.stepper, images, labels)
    expected = [float(np.mean(labels == 2))] * 3
    assert tests.accuracies([constant] * 3) == expected
    copies = [tuple(np.array(tensor) for tensor in constant) for _ in range(3)]
    assert tests.accuracies(copies) == expected
    assert tests.accuracies([]) == []
