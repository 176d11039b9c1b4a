"""Kernels for targets that are numbers: every loss, by the steps that XLA takes."""

import numpy as np
import pytest

from mix2fld.config.settings import LearningConfig
from mix2fld.models import make_model
from mix2fld.tasks.losses import Loss, distillation_loss, label_loss
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.regression import Regression
from mix2fld.tasks.stepper import Start, Watch, draw_samples
from mix2fld.types import NUMBER_LOSSES

STEPS, SAMPLES = 60, 40


@pytest.mark.parametrize("form", NUMBER_LOSSES)
@pytest.mark.parametrize("asked", [label_loss, distillation_loss], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("model", "shape", "numbers", "batch"),
    [("linear", (7,), 2, 1), ("mlp", (7,), 1, 4), ("paper-cnn", (28, 28, 1), 1, 1),
     ("paper-cnn", (28, 28, 1), 2, 3)],
)  # fmt: skip
def test_a_kernel_takes_the_steps_of_xla(
    form: str, asked: Loss, model: str, shape: tuple[int, ...], numbers: int, batch: int
) -> None:
    rng = np.random.default_rng(2)
    task = Regression((0.0,) * numbers, (1.0,) * numbers, (-0.4, 0.0, 0.6), form)
    inputs = rng.random((SAMPLES, *shape)).astype(np.float32)
    samples = task.samples(inputs, 2 * rng.normal(size=(SAMPLES, numbers)))
    teacher = rng.normal(size=(4, numbers)).astype(np.float32)
    teacher[2] = 0  # nobody knows the outputs of this bin
    draws = draw_samples(rng, SAMPLES, STEPS, batch)
    found = []
    for kernel in ("native", "xla"):
        config = LearningConfig(kernel=kernel, learning_rate=0.02, distillation_weight=0.3)
        stepper = choose_stepper(make_model(model, shape, numbers), config)
        assert stepper.name == kernel
        if kernel == "native":
            _refuse_xla(stepper)
        loss, held = task.local_loss(asked), stepper.hold(samples)
        start = Start(rng_weights(stepper), teacher)
        found.append(stepper.train(loss, held, [start], [draws], Watch(0, (STEPS,))).phases[0])
    native, xla = found
    np.testing.assert_array_equal(native.label_counts, xla.label_counts)
    np.testing.assert_allclose(native.output_sums, xla.output_sums, rtol=2e-3, atol=2e-3)
    for mine, other in zip(native.weights, xla.weights, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-4)


def rng_weights(stepper) -> tuple[np.ndarray, ...]:
    """The model's own, and none of them zero."""
    rng = np.random.default_rng(7)
    return tuple(
        (tensor + 0.05 * rng.normal(size=tensor.shape)).astype(np.float32)
        for tensor in stepper.draw_weights(0)
    )


def _refuse_xla(stepper) -> None:
    """Whatever this stepper is asked, XLA must not take its steps."""

    def refuse(*_: object) -> None:
        raise AssertionError("XLA took the steps")

    stepper.draw_weights(0)
    stepper._xla.train = refuse
