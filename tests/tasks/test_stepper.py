"""All devices at once give what each gives alone, whatever the number of cores and the layout."""

from functools import cache

import jax
import numpy as np
import pytest

from mix2fld.config.settings import LearningConfig
from mix2fld.models import make_model
from mix2fld.tasks import xla
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import Loss, distillation_loss, label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper, make_learning
from mix2fld.tasks.sgd import LearnerProgress, TrainingSetup, begin_steps, sgd_steps
from mix2fld.tasks.stepper import (
    Learned,
    Start,
    Stepper,
    TestSet,
    Watch,
    draw_samples,
    local_results,
)
from mix2fld.tasks.xla import over_devices
from mix2fld.types import Samples, Tensors
from reference_equations import learn
from reference_networks import cnn
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
    assert local_results([learned.phases[0]])[0].outputs.dtype == np.float32


@pytest.mark.parametrize("kernel", ["xla", "auto"])
def test_accuracy_counts_every_test_sample_once(kernel: str) -> None:
    """As many as no multiple of a batch; a constant model is right on one label."""
    data = toy_dataset()
    learning = make_learning(
        toy_config(model="paper-cnn", kernel=kernel), data.samples, Classification(4)
    )
    images, labels = data.test_inputs[:101], data.test_labels[:101]
    zeros = [np.zeros_like(tensor) for tensor in learning.common_weights]
    constant = (*zeros[:4], np.array([0, 0, 1, 0], np.float32), zeros[5])
    tests = TestSet(learning.stepper, learning.task, images, labels)
    expected = [(float(np.mean(labels == 2)),)] * 3
    assert tests.scores([constant] * 3) == expected
    copies = [tuple(np.array(tensor) for tensor in constant) for _ in range(3)]
    assert tests.scores(copies) == expected
    assert tests.scores([]) == []


def test_equal_weights_are_tested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data, tested = toy_dataset(), []
    learning = make_learning(toy_config(), data.samples, Classification(4))
    stepper, count = learning.stepper, type(learning.stepper).count_correct

    def counted(tests: object, models: list[Tensors]) -> list[int]:
        tested.append(len(models))
        return count(stepper, tests, models)

    monkeypatch.setattr(stepper, "count_correct", counted)
    tests = TestSet(stepper, learning.task, data.test_inputs, data.test_labels)
    first, second = learning.initial_weights(0), stepper.draw_weights(7)
    copy = tuple(np.array(tensor, order="F") for tensor in first)
    found = tests.scores([first, second, copy, first])
    assert tested == [2]
    assert found == [*tests.scores([first]), *tests.scores([second]), found[0], found[0]]
    assert tested == [2, 1, 1]


OFFSET = np.array([0.0, -2.0, 1.5, -4.0], np.float32)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
@pytest.mark.parametrize("loss", [label_loss, distillation_loss])
def test_offset_and_rate_factor_are_those_of_the_oracle(kernel: str, loss: Loss) -> None:
    """An offset acts in the loss alone: the outputs F are those of the bare logits."""
    data, stepper = toy_dataset(), a_stepper("paper-cnn", kernel)
    targets = one_hot(data.train_labels, 4)
    rng = np.random.default_rng(0)
    weights, draws = stepper.draw_weights(3), draw_samples(rng, len(targets), 40, 1)
    teacher = rng.dirichlet(np.ones(4), 4).astype(np.float32)
    plain = Start(weights, teacher)
    starts = [plain, plain._replace(logit_offset=OFFSET), plain._replace(rate_factor=0.5)]
    starts += [Start(weights, teacher, OFFSET, 0.5)]
    held = stepper.hold(Samples(data.train_inputs, targets))
    learned = stepper.train(loss, held, starts, [draws] * 4, Watch(0, (20, 40)))
    names = ("conv1.bias", "conv1.kernel", "conv2.bias", "conv2.kernel")
    names += ("linear.bias", "linear.kernel")
    for start, phase in zip(starts, learned.phases, strict=True):
        offset = None if start.logit_offset is None else start.logit_offset.astype(np.float64)
        expected, outputs = learn(
            cnn,
            {n: np.asarray(t, np.float64) for n, t in zip(names, weights, strict=True)},
            list(zip(data.train_inputs / 255, targets.astype(np.float64), strict=True)),
            draws,
            list(teacher.astype(np.float64)) if loss.distils else None,
            LearningConfig(learning_rate=0.01 * start.rate_factor),
            offset,
        )
        for name, tensor in zip(names, phase.weights, strict=True):
            np.testing.assert_allclose(tensor, expected[name], rtol=0, atol=2e-6)
        seen = [np.zeros(4) if row is None else row for row in outputs]
        np.testing.assert_allclose(local_results([phase])[0].outputs, seen, rtol=0, atol=2e-6)
    samples = Samples(data.train_inputs, targets)
    alone = stepper.train_one(loss, samples, starts[3], draws)
    for one, other in zip(alone, learned.phases[3].weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_a_rate_factor_is_another_learning_rate(optimizer: str) -> None:
    data, ends = toy_dataset(), []
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(np.random.default_rng(1), 240, 20, 2)
    for rate, factor in ((0.08, 0.25), (0.02, 1.0)):
        learning = LearningConfig(optimizer=optimizer, learning_rate=rate, batch_size=2)
        stepper = choose_stepper(make_model("mlp", data.sample_shape, 4), learning)
        start = Start(stepper.draw_weights(0), np.zeros((4, 4), np.float32), rate_factor=factor)
        ends.append(stepper.train_one(label_loss, samples, start, draws))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_without_an_offset_the_compiled_steps_are_as_they_were() -> None:
    """No offset and a factor of 1 leave nothing behind in the computation."""
    learner = TrainingSetup.from_config(make_model("mlp", (8, 8, 1), 4), LearningConfig())
    begun = begin_steps(learner, (4, 4), learner.model.init(jax.random.key(0)))
    samples = (Samples(np.zeros((5, 8, 8, 1), np.uint8), np.zeros((5, 4), np.float32)),)

    def steps(*own: object) -> str:
        run = LearnerProgress(begun, np.zeros((4, 4), np.float32), np.zeros((3, 1), np.int32), *own)
        return (
            jax.jit(sgd_steps, static_argnums=(0, 1))
            .lower(learner, label_loss, samples, run)
            .as_text()
        )

    plain = steps()
    assert plain == steps(None, None)
    assert len(steps(OFFSET, np.float32(0.5))) > len(plain)


@pytest.mark.parametrize("kernel", ["xla", "auto"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_draws_beyond_the_samples_are_of_the_extra_ones(kernel: str, batch_size: int) -> None:
    """Own samples are uint8, extra ones float32 with soft labels: as if all were one float set."""
    data = toy_dataset()
    own = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    rng = np.random.default_rng(2)
    extra_inputs = rng.uniform(-0.2, 1.2, (30, *data.sample_shape)).astype(np.float32)
    extra = Samples(extra_inputs, rng.dirichlet(np.ones(4), 30).astype(np.float32))
    both = Samples(
        np.concatenate([own.inputs.astype(np.float32) / np.float32(255), extra.inputs]),
        np.concatenate([own.targets, extra.targets]),
    )
    learning = LearningConfig(kernel=kernel, batch_size=batch_size)
    stepper = choose_stepper(make_model("paper-cnn", data.sample_shape, 4), learning)
    draws = draw_samples(rng, len(both.targets), 40, batch_size)
    assert (draws >= len(own.targets)).any()
    start = Start(stepper.draw_weights(0), np.zeros((4, 4), np.float32))
    ends = [
        stepper.train(label_loss, held, [start] * 2, [draws, draws[::-1]], Watch(0, (40,))).phases
        for held in (stepper.hold(own, extra), stepper.hold(both))
    ]
    for one, other in zip(*(jax.tree.leaves(phases) for phases in ends), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)
