"""Machine code for networks of layers: gradients by an oracle in NumPy, whole steps by XLA."""

import shutil
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import Array, lax

from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import cifar_cnn, from_equinox, from_flax, mlp
from mix2fld.models.layered import layer_kernel
from mix2fld.native import network
from mix2fld.tasks.losses import distillation_loss, label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.native import NativeStepper
from mix2fld.tasks.stepper import Start, Watch, draw_samples
from mix2fld.tasks.xla import XlaStepper
from mix2fld.types import Model, Phase, Samples, StepRule

LABELS = 5
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")


class Odd(linen.Module):
    """Odd sizes, strides and padding; a pooling that drops a row; seven channels."""

    @linen.compact
    def __call__(self, x: Array) -> Array:
        x = linen.relu(linen.Conv(7, (5, 3), (2, 1), padding=((2, 1), (0, 2)))(x))
        x = linen.max_pool(x, (2, 2), (2, 2))
        y = linen.GroupNorm(3, epsilon=1e-3)(linen.Conv(21, (3, 3), use_bias=False)(x))
        y = linen.relu(y)
        y = linen.relu(linen.Dense(9)(y.reshape(len(y), -1)))
        return linen.Dense(LABELS)(y)


class Residual(linen.Module):
    """Sums of values and of normalised ones, a stride past them, a mean over pixels."""

    @linen.compact
    def __call__(self, x: Array) -> Array:
        x = linen.relu(linen.GroupNorm(4)(linen.Conv(16, (3, 3), use_bias=False)(x)))
        y = linen.GroupNorm(4)(linen.Conv(20, (3, 3), 2, padding=1, use_bias=False)(x))
        past = linen.GroupNorm(5)(linen.Conv(20, (1, 1), 2, use_bias=False)(x))
        x = linen.relu(past + y)
        x = linen.relu(x + linen.Conv(20, (3, 3), kernel_dilation=2, feature_group_count=2)(x))
        return linen.Dense(LABELS)(x.mean((1, 2)))


class Overlapping(linen.Module):
    """Poolings that overlap and are padded, ReLU after one, a transposed convolution."""

    @linen.compact
    def __call__(self, x: Array) -> Array:
        x = linen.relu(linen.max_pool(linen.Conv(18, (3, 3), padding="VALID")(x), (3, 3), (2, 2)))
        x = linen.relu(linen.ConvTranspose(6, (2, 2), (2, 2))(x))
        x = linen.max_pool(x, (3, 2), (1, 2), padding="SAME")
        return linen.Dense(LABELS)(x.reshape(len(x), -1))


class ChannelsFirst(equinox.Module):
    layers: list[Any]

    def __init__(self, key: Array) -> None:
        keys = jax.random.split(key, 3)
        self.layers = [
            equinox.nn.Conv2d(2, 6, 3, key=keys[0]),
            equinox.nn.MaxPool2d(2, 2),
            equinox.nn.Linear(6 * 4 * 5, 70_000 // 120, key=keys[1]),
            equinox.nn.Linear(70_000 // 120, LABELS, key=keys[2]),
        ]

    def __call__(self, x: Array) -> Array:
        x = jax.nn.relu(self.layers[0](x.transpose(2, 0, 1)))
        x = jax.nn.relu(self.layers[2](self.layers[1](x).ravel()))
        return self.layers[3](x)


SHAPE = (11, 13, 2)
MODELS = {
    "odd": lambda: (from_flax(Odd(), SHAPE), SHAPE),
    "residual": lambda: (from_flax(Residual(), SHAPE), SHAPE),
    "overlapping": lambda: (from_flax(Overlapping(), SHAPE), SHAPE),
    "channels-first": lambda: (from_equinox(ChannelsFirst), SHAPE),
    "cifar": lambda: (cifar_cnn((8, 12, 3), LABELS), (8, 12, 3)),
    "deep": lambda: (mlp((6, 3), LABELS, (20, 40)), (6, 3)),
}


def images(shape: tuple[int, ...], count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, *shape), np.float32)


def gradients(model: Model, shape: tuple[int, ...], weights: Any, inputs: Any, targets: Any) -> Any:
    """Those of one step of the kernel, and the sums of its outputs."""
    kernel = layer_kernel(model, shape)
    assert kernel is not None
    after = Phase(
        tuple(np.array(w) for w in weights),
        np.zeros((LABELS, LABELS), "f4"),
        np.zeros(LABELS, "f4"),
    )
    draws = np.arange(len(inputs), dtype=np.int32)[None]
    rule = StepRule(1.0, np.zeros((LABELS, LABELS), np.float32), 0.0)
    kernel.train(after, (Samples(inputs, targets),), draws, rule)
    return [np.float64(w) - v for w, v in zip(weights, after.weights, strict=True)], after


# The oracle: the network of Odd in NumPy with 64 bits, by its definition.


def odd_loss(weights: list[np.ndarray], inputs: np.ndarray, targets: np.ndarray) -> float:
    """Mean cross-entropy; weights in payload order, bias before kernel."""
    bias, kernel, inner, d0_bias, d0, d1_bias, d1, shift, scale = weights
    total = 0.0
    for image, target in zip(inputs, targets, strict=True):
        x = np.maximum(correlate(image, kernel, (2, 1), ((2, 1), (0, 2))) + bias, 0)
        height, width = x.shape[0] // 2, x.shape[1] // 2
        x = x[: 2 * height, : 2 * width].reshape(height, 2, width, 2, -1).max((1, 3))
        x = correlate(x, inner, (1, 1), ((1, 1), (1, 1)))
        groups = x.reshape(*x.shape[:2], 3, 7)
        mean, variance = groups.mean((0, 1, 3), keepdims=True), groups.var((0, 1, 3), keepdims=True)
        x = ((groups - mean) / np.sqrt(variance + 1e-3)).reshape(x.shape)
        x = np.maximum(x * scale + shift, 0).reshape(-1)
        logits = np.maximum(x @ d0 + d0_bias, 0) @ d1 + d1_bias
        total += np.log(np.exp(logits).sum()) - target @ logits
    return total / len(inputs)


def correlate(image: np.ndarray, kernel: np.ndarray, stride: Any, padding: Any) -> np.ndarray:
    padded = np.pad(image, (*padding, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[:2], axis=(0, 1))
    return np.tensordot(windows[:: stride[0], :: stride[1]], kernel, ((3, 4, 2), (0, 1, 2)))


def test_gradients_are_the_slopes_of_the_loss_in_numpy() -> None:
    model, shape = MODELS["odd"]()
    rng = np.random.default_rng(3)
    shapes = [leaf.shape for leaf in jax.tree.leaves(model.init(jax.random.key(0)))]
    weights = [np.float32(rng.normal(size=s) / max(1, np.prod(s[:-1])) ** 0.5) for s in shapes]
    inputs, targets = images(shape, 3, 1), one_hot([1, 4, 2], LABELS)
    found, _ = gradients(model, shape, weights, inputs, targets)
    exact = [np.float64(w) for w in weights]
    for place, gradient in enumerate(found):
        for _ in range(2):
            direction = rng.normal(size=gradient.shape)
            ends = []
            for sign in (1, -1):
                there = exact[place] + sign * 1e-5 * direction
                moved = [*exact[:place], there, *exact[place + 1 :]]
                ends.append(odd_loss(moved, np.float64(inputs), targets))
            slope = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_has_the_gradients_of_jax(name: str) -> None:
    model, shape = MODELS[name]()
    tree = model.init(jax.random.key(1))
    weights = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    inputs, targets = images(shape, 4, 2), one_hot([0, 1, 2, 3], LABELS)

    def loss(tree: Any) -> Array:
        logits = model.apply(tree, jnp.asarray(inputs))
        return -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(logits), -1)), logits

    expected, logits = jax.jit(jax.grad(loss, has_aux=True))(tree)
    found, after = gradients(model, shape, weights, inputs, targets)
    for one, other in zip(found, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 + 2e-5 * np.abs(other).max())
    np.testing.assert_allclose(after.output_sums[:4], jax.nn.softmax(logits), rtol=1e-5, atol=1e-6)
    answered = layer_kernel(model, shape).logits(tuple(weights), inputs)
    np.testing.assert_allclose(answered, logits, rtol=1e-4, atol=1e-5)


def test_steps_with_a_teacher_an_offset_and_two_sets_are_those_of_xla() -> None:
    model, shape = MODELS["cifar"]()
    rng = np.random.default_rng(5)
    own = Samples(
        np.uint8(255 * images(shape, 20, 1)), one_hot(rng.integers(LABELS, size=20), LABELS)
    )
    extra = Samples(images(shape, 10, 2), np.float32(rng.dirichlet(np.ones(LABELS), 10)))
    teacher = np.float32(rng.dirichlet(np.ones(LABELS), LABELS))
    offset = np.float32(np.log(rng.dirichlet(np.ones(LABELS))))
    draws, found = draw_samples(rng, 30, 6, 7), []
    for kernel in ("native", "xla"):
        stepper = choose_stepper(model, LearningConfig(kernel=kernel, batch_size=7), shape)
        assert stepper.name == kernel
        start = Start(stepper.draw_weights(7), teacher, offset, rate_factor=1.5)
        held = stepper.hold(own, extra)
        (phase,) = stepper.train(distillation_loss, held, [start], [draws], Watch(0, (6,))).phases
        tests = stepper.hold_tests(own.inputs, own.targets.argmax(-1).astype(np.int32))
        found.append((phase, stepper.count_correct(tests, [phase.weights])))
    (mine, correct), (theirs, expected) = found
    for one, other in zip(mine.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)
    np.testing.assert_allclose(mine.output_sums, theirs.output_sums, rtol=1e-4, atol=1e-5)
    assert correct == expected


def dense(apply: Any) -> Model:
    def init(key: Array) -> Any:
        kernel = jax.random.normal(key, (3, 3, 2, 4))
        return {"kernel": kernel, "matrix": jnp.ones((4 * 11 * 13, LABELS))}

    return Model("custom", init, apply)


def convolved(weights: Any, x: Array) -> Array:
    axes = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weights["kernel"], (1, 1), "SAME", dimension_numbers=axes)


@jax.custom_jvp
def relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


@relu.defjvp
def _straight_through(primals: Any, tangents: Any) -> Any:
    return relu(*primals), tangents[0]


OTHERS = {
    "another nonlinearity": jax.nn.gelu,
    "half a slope at zero": lambda x: jnp.maximum(x, 0),
    "a function called relu with another slope": relu,
    "a mean over all": lambda x: x - x.mean(),
    "statistics of the batch": lambda x: (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-3),
    "read before ReLU, too": lambda x: jax.nn.relu(x) + x,
    "a scaled sum": lambda x: jax.nn.relu(x) * 2.0,
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_such_network_is_left_to_xla(name: str) -> None:
    model = dense(lambda w, x: OTHERS[name](convolved(w, x)).reshape(len(x), -1) @ w["matrix"])
    assert layer_kernel(model, SHAPE) is None
    assert isinstance(choose_stepper(model, LearningConfig(), SHAPE), XlaStepper)
    with pytest.raises(InputError, match="kernel = native: custom"):
        choose_stepper(model, LearningConfig(kernel="native"), SHAPE)


def test_a_program_that_gives_other_logits_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dense(lambda w, x: jax.nn.relu(convolved(w, x)).reshape(len(x), -1) @ w["matrix"])
    assert isinstance(choose_stepper(model, LearningConfig(), SHAPE), NativeStepper)
    layer_kernel.cache_clear()
    answer = network.NetworkKernel.logits
    monkeypatch.setattr(network.NetworkKernel, "logits", lambda *args: 1.01 * answer(*args))
    assert layer_kernel(model, SHAPE) is None
    layer_kernel.cache_clear()


def test_label_steps_do_not_depend_on_threads() -> None:
    model, shape = MODELS["residual"]()
    stepper = choose_stepper(model, LearningConfig(batch_size=3), shape)
    samples = Samples(images(shape, 9, 1), one_hot(np.arange(9) % LABELS, LABELS))
    start = Start(stepper.draw_weights(0), np.zeros((LABELS, LABELS), np.float32))
    draws = draw_samples(np.random.default_rng(0), 9, 4, 3)
    held = stepper.hold(samples)
    phases = stepper.train(label_loss, held, [start] * 4, [draws] * 4, Watch(0, (4,))).phases
    for phase in phases[1:]:
        for one, other in zip(phase.weights, phases[0].weights, strict=True):
            np.testing.assert_array_equal(one, other)
