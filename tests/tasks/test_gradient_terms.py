"""The proximal term of FedProx and the control variates of SCAFFOLD, against a plain loop."""

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import from_torch, make_model
from mix2fld.native import kernel_of
from mix2fld.tasks.kernel_steps import KernelStepper
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Stepper, Watch, draw_samples
from mix2fld.types import Model, Samples, Tensors
from toys import toy_dataset

RATE, BATCH = 0.2, 3
NO_TEACHER = np.zeros((4, 4), np.float32)


def jax_linear() -> Model:
    """Logits x A + b; the arrays are b and A."""
    import jax.numpy as jnp

    def apply(weights, inputs):
        return jnp.reshape(inputs, (len(inputs), -1)) @ weights["kernel"] + weights["bias"]

    def init(key):
        del key
        return {"bias": jnp.zeros(4), "kernel": jnp.zeros((64, 4))}

    return Model("linear", init, apply)


def torch_linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))


@cache
def stepper_of(library: str, optimizer: str) -> Stepper:
    config = LearningConfig(optimizer=optimizer, learning_rate=RATE, batch_size=BATCH)
    return choose_stepper(jax_linear() if library == "jax" else from_torch(torch_linear), config)


def in_order_of(library: str, bias: NDArray, kernel: NDArray) -> Tensors:
    if library == "jax":
        return bias.astype(np.float32), kernel.astype(np.float32)
    return np.ascontiguousarray(kernel.T, np.float32), bias.astype(np.float32)


def plain_descent(
    begun: list[NDArray], samples: Samples, draws: NDArray, pull: float,
    drift: list[NDArray] | None, momentum: float,
) -> list[NDArray]:  # fmt: skip
    """Gradient descent on the cross-entropy of x A + b, in float64."""
    weights, velocity = [w.copy() for w in begun], [np.zeros_like(w) for w in begun]
    inputs = samples.inputs.reshape(len(samples.inputs), -1) / 255
    for rows in draws:
        x, truth = inputs[rows], samples.targets[rows]
        scores = np.exp(x @ weights[1] + weights[0])
        error = (scores / scores.sum(axis=1, keepdims=True) - truth) / len(rows)
        gradients = [error.sum(axis=0), x.T @ error]
        for n, gradient in enumerate(gradients):
            total = gradient + pull * (weights[n] - begun[n])
            total += 0 if drift is None else drift[n]
            velocity[n] = momentum * velocity[n] + total
            weights[n] = weights[n] - RATE * velocity[n]
    return weights


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
@pytest.mark.parametrize("library", ["jax", "torch"])
def test_each_learner_has_the_terms_of_its_own(library: str, optimizer: str) -> None:
    """Also after a stop in the middle: the pull is toward where the steps began."""
    data, rng = toy_dataset(), np.random.default_rng(2)
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(rng, 240, 24, BATCH)
    begun = [rng.normal(size=4), rng.normal(size=(64, 4)) / 8]
    drift = [rng.normal(size=4) / 10, rng.normal(size=(64, 4)) / 10]
    cases = [(0.0, None), (0.7, None), (0.0, drift), (0.7, drift)]
    starts = [
        Start(
            in_order_of(library, *begun),
            NO_TEACHER,
            pull=pull,
            drift=None if added is None else in_order_of(library, *added),
        )
        for pull, added in cases
    ]
    stepper = stepper_of(library, optimizer)
    learned = stepper.train(
        label_loss, stepper.hold(samples), starts, [draws] * 4, Watch(3, (10, 24))
    )
    momentum = 0.9 if optimizer == "momentum" else 0.0
    ends = [plain_descent(begun, samples, draws, *case, momentum) for case in cases]
    for (end, start), phase in zip(zip(ends, starts, strict=True), learned.phases, strict=True):
        alone = stepper.train_one(label_loss, samples, start, draws)
        for found in (phase.weights, alone):
            for tensor, expected in zip(found, in_order_of(library, *end), strict=True):
                np.testing.assert_allclose(tensor, expected, rtol=0, atol=1e-5)
    half = plain_descent(begun, samples, draws[:10], *cases[3], momentum)
    for tensor, expected in zip(learned.snapshots[0][1], in_order_of(library, *half), strict=True):
        np.testing.assert_allclose(tensor, expected, rtol=0, atol=1e-5)


def test_native_code_hands_over_to_xla() -> None:
    data, ends = toy_dataset(), []
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(np.random.default_rng(0), 240, 20, 1)
    for kernel in ("auto", "xla"):
        stepper = choose_stepper(
            make_model("mlp", data.sample_shape, 4), LearningConfig(kernel=kernel)
        )
        start = Start(stepper.draw_weights(1), NO_TEACHER, pull=0.5)
        learned = stepper.train(
            label_loss, stepper.hold(samples), [start], [draws], Watch(0, (20,))
        )
        ends += [learned.phases[0].weights, stepper.train_one(label_loss, samples, start, draws)]
    assert stepper.name == "xla"
    for end in ends[1:]:
        for one, other in zip(ends[0], end, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)


def test_a_kernel_alone_refuses_them() -> None:
    data = toy_dataset()
    model = make_model("mlp", data.sample_shape, 4)
    kernel = kernel_of("mlp", data.sample_shape, 4)
    stepper = choose_stepper(model, LearningConfig())
    start = Start(stepper.draw_weights(0), NO_TEACHER, drift=stepper.draw_weights(1))
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    with pytest.raises(InputError, match="proximal term or a control variate"):
        KernelStepper(kernel, 0.1, 0.0).train_one(
            label_loss, samples, start, np.zeros((2, 1), np.int32)
        )
