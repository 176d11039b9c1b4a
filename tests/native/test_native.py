"""Machine code against XLA: the same numbers, wherever it can be had, and no need for it."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld import native
from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import mlp, paper_cnn
from mix2fld.tasks.losses import Loss, distillation_loss, label_loss
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.native import NativeStepper
from mix2fld.tasks.sgd import (
    LearnerProgress,
    TrainingSetup,
    begin_steps,
    correct_predictions,
    sgd_steps,
)
from mix2fld.tasks.stepper import Start, Watch, draw_samples
from mix2fld.tasks.xla import XlaStepper, tensors_of
from mix2fld.types import Model, Phase, Samples

SHAPES = [(28, 28, 1), (32, 32, 3), (8, 8, 2)]
STEPS = 60

needs_compiler = pytest.mark.skipif(
    native.small_cnn((28, 28, 1), 12, 6, 10) is None,
    reason="no C compiler or no AVX2 here: there is only XLA",
)


def some_work(
    shape: tuple[int, int, int], labels: int, floats: bool, batch: int = 1
) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (40, *shape)).astype(np.uint8)
    images[:20, : shape[0] // 2] = 0  # equal values in pooling windows
    teacher = rng.dirichlet(np.ones(labels), labels).astype(np.float32)
    soft = rng.dirichlet(np.ones(labels), 40).astype(np.float32)
    hard = np.eye(labels, dtype=np.float32)[rng.integers(labels, size=40)]
    pixels = (images / 255 * 1.4 - 0.2).astype(np.float32) if floats else images
    return pixels, soft if floats else hard, teacher, draw_samples(rng, 40, STEPS, batch)


def by_kernel(model: Model, loss: Loss, work: Any, offset: Any = None, **learning: Any) -> Phase:
    """One device's phase by the model's machine code, in one piece."""
    images, targets, teacher, draws = work
    stepper = choose_stepper(model, LearningConfig(kernel="native", **learning))
    assert isinstance(stepper, NativeStepper)
    held = stepper.hold(Samples(images, targets))
    start = Start(stepper.draw_weights(1), teacher, offset)
    return stepper.train(loss, held, [start], [draws], Watch(0, (STEPS,))).phases[0]


def leaves(phase: Phase) -> list[Any]:
    """Weights, sums and counts."""
    return [*tensors_of(phase.weights), phase.output_sums, phase.label_counts]


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("loss", [label_loss, distillation_loss])
@pytest.mark.parametrize("batch", [1, 5])
def test_steps_are_those_of_xla(
    shape: tuple[int, int, int], floats: bool, loss: Loss, batch: int
) -> None:
    labels = 7
    model = paper_cnn(shape, labels)
    learner = TrainingSetup.from_config(model, LearningConfig(distillation_weight=0.3))
    work = some_work(shape, labels, floats, batch)
    offset = np.log(np.arange(1, labels + 1, dtype=np.float32)) if batch > 1 else None
    images, targets, teacher, draws = map(jnp.asarray, work)
    start = begin_steps(learner, (labels, labels), model.init(jax.random.key(1)))
    by_xla = jax.jit(
        lambda begun: sgd_steps(
            learner,
            loss,
            (Samples(images, targets),),
            LearnerProgress(begun, teacher, draws, offset),
        )
    )(start).phase
    settings = {"distillation_weight": 0.3, "batch_size": batch}
    ours = leaves(by_kernel(model, loss, work, offset, **settings))
    theirs = leaves(by_xla)
    for one, other in zip(ours[:-2], theirs[:-2], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2 * STEPS * 2.0**-24)
    # n additions of what is not negative are off by n roundings of the sum at most, on each side.
    relative = 0 if batch == 1 else 2 * batch * STEPS * 2.0**-24
    for one, other in zip(ours[-2:], theirs[-2:], strict=True):
        np.testing.assert_allclose(one, other, rtol=relative, atol=2 * STEPS * 2.0**-24)


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_are_those_of_xla(shape: tuple[int, int, int]) -> None:
    model = paper_cnn(shape, 7)
    stepper = choose_stepper(model, LearningConfig(kernel="native"))
    weights = model.init(jax.random.key(2))
    rng = np.random.default_rng(6)
    images = rng.integers(0, 256, (64, *shape)).astype(np.uint8)
    labels = rng.integers(7, size=64).astype(np.int32)
    expected = correct_predictions(model, jnp.asarray(images[None]), labels[None], weights)
    tests = stepper.hold_tests(images, labels)
    assert stepper.count_correct(tests, [tensors_of(weights)]) == [int(expected)]


@needs_compiler
@pytest.mark.parametrize("batch", [1, 8])
def test_the_same_steps_give_the_same_bits(batch: int) -> None:
    work = some_work((28, 28, 1), 10, floats=False, batch=batch)
    model = paper_cnn((28, 28, 1), 10)
    ends = [leaves(by_kernel(model, label_loss, work, batch_size=batch)) for _ in range(2)]
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


@needs_compiler
def test_a_custom_loss_takes_the_place_of_the_formula_where_there_is_machine_code() -> None:
    """Wherever steps are taken: among devices, and by the server's student."""
    images, targets, teacher, draws = some_work((8, 8, 1), 4, floats=False)

    def wrapped(logits: Any, labels: Any, teacher: Any) -> Any:
        del teacher
        return -3.0 * jnp.mean(jnp.sum(labels * jax.nn.log_softmax(logits), axis=-1))

    custom = Loss("label", custom=wrapped)
    model, samples = paper_cnn((8, 8, 1), 4), Samples(images, targets)
    ends: dict[str, dict[str, Any]] = {}
    for kernel in ("native", "xla"):
        stepper = choose_stepper(model, LearningConfig(kernel=kernel))
        start, held = Start(stepper.draw_weights(1), teacher), stepper.hold(samples)
        ends[kernel] = {}
        for loss in (custom, label_loss):
            learned = stepper.train(loss, held, [start], [draws], Watch(0, (20, STEPS)))
            assert [step for step, _ in learned.snapshots] == [20, STEPS]
            ends[kernel][f"device {loss.custom}"] = learned.phases[0].weights
            ends[kernel][f"server {loss.custom}"] = stepper.train_one(loss, samples, start, draws)
    for name, weights in ends["native"].items():
        for one, other in zip(weights, ends["xla"][name], strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2 * STEPS * 2.0**-24)
    for who in ("device", "server"):
        one, other = (ends["native"][f"{who} {loss}"][-1] for loss in (wrapped, None))
        assert np.abs(one - other).max() > 1e-3


@needs_compiler
def test_narrow_vectors_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2, which every machine that has AVX-512 has too."""
    work = some_work((28, 28, 1), 10, floats=False)
    ends = []
    for lanes in (native.vector_lanes(), 8):
        native.small_cnn.cache_clear()
        monkeypatch.setattr(native, "vector_lanes", lambda lanes=lanes: lanes)
        model = paper_cnn((28, 28, 1), 10)
        ends.append(leaves(by_kernel(model, distillation_loss, work)))
    native.small_cnn.cache_clear()
    for wide, narrow in zip(*ends, strict=True):
        np.testing.assert_allclose(wide, narrow, rtol=0, atol=2 * STEPS * 2.0**-24)


def test_without_it_xla_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    native.small_cnn.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    model = paper_cnn((28, 28, 1), 10)
    assert isinstance(choose_stepper(model, LearningConfig()), XlaStepper)
    with pytest.raises(InputError, match="kernel = native: paper-cnn"):
        choose_stepper(model, LearningConfig(kernel="native"))
    native.small_cnn.cache_clear()


def test_a_compiler_that_fails_is_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    native.small_cnn.cache_clear()
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert native.small_cnn((28, 28, 1), 12, 6, 10) is None
    native.small_cnn.cache_clear()


def flip_last_bit(code: bytes) -> bytes:
    return code[:-1] + bytes([code[-1] ^ 1])


@needs_compiler
@pytest.mark.parametrize("damage", [flip_last_bit, lambda code: code[: len(code) // 2]])
def test_damaged_code_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    library, whole = fresh_library(monkeypatch, tmp_path)
    library.unlink()  # the loaded one must stay as it is
    library.write_bytes(damage(whole))
    native.small_cnn.cache_clear()
    assert native.small_cnn((28, 28, 1), 12, 6, 10) is not None
    native.small_cnn.cache_clear()
    assert library.read_bytes() == whole


@needs_compiler
def test_code_without_a_checksum_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library, whole = fresh_library(monkeypatch, tmp_path)
    checksum = library.with_name(f"{library.name}.sha256")
    assert checksum.read_text().strip() == hashlib.sha256(whole).hexdigest()
    checksum.unlink()
    native.small_cnn.cache_clear()
    assert native.small_cnn((28, 28, 1), 12, 6, 10) is not None
    native.small_cnn.cache_clear()
    assert checksum.exists()


def fresh_library(monkeypatch: pytest.MonkeyPatch, cache: Path) -> tuple[Path, bytes]:
    native.small_cnn.cache_clear()
    monkeypatch.setenv("MIX2FLD_CACHE", str(cache))
    assert native.small_cnn((28, 28, 1), 12, 6, 10) is not None
    (library,) = (cache / "native").glob("small-cnn-*.so")
    return library, library.read_bytes()


def test_only_what_it_can_do_is_given_to_it() -> None:
    cnn = paper_cnn((28, 28, 1), 10)
    for fields in ({"optimizer": "adam"}, {"soft_label_teacher": "dominant"}):
        assert isinstance(choose_stepper(cnn, LearningConfig(**fields)), XlaStepper)
    assert isinstance(choose_stepper(mlp((28, 28, 1), 10), LearningConfig()), XlaStepper)
    assert isinstance(choose_stepper(cnn, LearningConfig(kernel="xla")), XlaStepper)
    assert native.small_cnn((30, 30, 1), 12, 6, 10) is None
