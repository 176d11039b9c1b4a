"""The kernel of at most one hidden layer computes what XLA computes, to rounding and in batches."""

import shutil

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import make_model, mlp
from mix2fld.native import mlp as mlp_kernel
from mix2fld.tasks.losses import distillation_loss, label_loss
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.native import NativeStepper
from mix2fld.tasks.stepper import Start, Watch, draw_samples
from mix2fld.tasks.xla import XlaStepper
from mix2fld.types import Samples

STEPS, LABELS = 200, 4
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")


def both(shape: tuple[int, ...], batch: int, dtype: str, loss, extra: bool, name: str):
    """The same steps by the kernel and by XLA."""
    rng = np.random.default_rng(1)
    samples = []
    for count in (30, 10) if extra else (30,):
        inputs = rng.random((count, *shape)).astype(np.float32)
        stored = (255 * inputs).astype(np.uint8) if dtype == "uint8" else inputs
        samples.append(Samples(stored, rng.dirichlet(np.ones(LABELS), count).astype(np.float32)))
    draws = draw_samples(rng, sum(len(each.targets) for each in samples), STEPS, batch)
    teacher = rng.dirichlet(np.ones(LABELS), LABELS).astype(np.float32)
    offset = np.log(rng.dirichlet(np.ones(LABELS))).astype(np.float32)
    found = []
    for kernel in ("native", "xla"):
        config = LearningConfig(kernel=kernel, batch_size=batch, learning_rate=0.05)
        stepper = choose_stepper(make_model(name, shape, LABELS), config)
        start = Start(stepper.draw_weights(7), teacher, offset, rate_factor=1.5)
        held = stepper.hold(*samples)
        (phase,) = stepper.train(loss, held, [start], [draws], Watch(0, (STEPS,))).phases
        tests = stepper.hold_tests(samples[0].inputs, np.arange(30, dtype=np.int32) % LABELS)
        found.append((phase, stepper.count_correct(tests, [phase.weights])))
    return found


@needs_compiler
@pytest.mark.parametrize("name", ["mlp", "linear"])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("loss", [label_loss, distillation_loss])
@pytest.mark.parametrize(
    ("shape", "dtype", "extra"), [((8, 8, 1), "uint8", True), ((13, 3), "float32", False)]
)
def test_it_computes_what_xla_computes(shape, dtype, extra, loss, batch, name) -> None:
    (mine, correct), (theirs, expected) = both(shape, batch, dtype, loss, extra, name)
    for one, other in zip(mine.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=4 * STEPS * 2.0**-24)
    np.testing.assert_allclose(mine.output_sums, theirs.output_sums, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(mine.label_counts, theirs.label_counts, rtol=1e-5)
    assert correct == expected


@needs_compiler
def test_it_is_used_when_it_is_asked_for() -> None:
    model = mlp((8, 8, 1), LABELS)
    assert isinstance(choose_stepper(model, LearningConfig()), XlaStepper)
    assert isinstance(choose_stepper(model, LearningConfig(kernel="native")), NativeStepper)
    with pytest.raises(InputError, match="kernel = native: mlp with optimizer = adam"):
        choose_stepper(model, LearningConfig(kernel="native", optimizer="adam"))
    deep = mlp((8, 8, 1), LABELS, hidden=(8, 8))
    with pytest.raises(InputError, match="has no native kernel"):
        choose_stepper(deep, LearningConfig(kernel="native"))


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp_kernel.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert mlp_kernel((8, 8, 1), 128, LABELS) is None
    mlp_kernel.cache_clear()
