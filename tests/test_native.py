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
from mix2fld.learning.steps import (
    Learner,
    Phase,
    begin_phase,
    correct_predictions,
    distillation_loss,
    draw_samples,
    kernel_steps,
    label_loss,
    sgd_steps,
)

from mix2fld.config import LearningConfig
from mix2fld.errors import InputError
from mix2fld.models import mlp, native, paper_cnn

SHAPES = [(28, 28, 1), (32, 32, 3), (8, 8, 2)]
STEPS = 60

needs_compiler = pytest.mark.skipif(
    native.small_cnn((28, 28, 1), 12, 6, 10) is None,
    reason="no C compiler or no AVX2 here: there is only XLA",
)


def some_work(shape: tuple[int, int, int], labels: int, floats: bool) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (40, *shape)).astype(np.uint8)
    images[:20, : shape[0] // 2] = 0  # equal values in pooling windows
    teacher = rng.dirichlet(np.ones(labels), labels).astype(np.float32)
    soft = rng.dirichlet(np.ones(labels), 40).astype(np.float32)
    hard = np.eye(labels, dtype=np.float32)[rng.integers(labels, size=40)]
    pixels = (images / 255 * 1.4 - 0.2).astype(np.float32) if floats else images
    return pixels, soft if floats else hard, teacher, draw_samples(rng, 40, STEPS, 1)


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("loss", [label_loss, distillation_loss])
def test_steps_are_those_of_xla(shape: tuple[int, int, int], floats: bool, loss: Any) -> None:
    labels = 7
    learner = Learner.from_config(
        paper_cnn(shape, labels), LearningConfig(kernel="native", distillation_weight=0.3)
    )
    images, targets, teacher, draws = some_work(shape, labels, floats)
    start = begin_phase(learner, learner.model.init(jax.random.key(1)), labels)
    by_xla: Phase = jax.jit(
        lambda phase: sgd_steps(
            learner, loss, phase, *map(jnp.asarray, (images, targets, teacher, draws))
        )
    )(start)
    by_kernel = kernel_steps(learner, loss, start, images, targets, teacher, draws)
    for ours, theirs in zip(jax.tree.leaves(by_kernel), jax.tree.leaves(by_xla), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2 * STEPS * 2.0**-24)


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_are_those_of_xla(shape: tuple[int, int, int]) -> None:
    model = paper_cnn(shape, 7)
    kernel = Learner.from_config(model, LearningConfig(kernel="native")).kernel
    weights = jax.tree.map(np.asarray, model.init(jax.random.key(2)))
    rng = np.random.default_rng(6)
    images = rng.integers(0, 256, (64, *shape)).astype(np.uint8)
    labels = rng.integers(7, size=64).astype(np.int32)
    expected = correct_predictions(model, weights, jnp.asarray(images[None]), labels[None])
    assert kernel.count_correct(jax.tree.leaves(weights), images, labels) == int(expected)


@needs_compiler
def test_the_same_steps_give_the_same_bits() -> None:
    learner = Learner.from_config(paper_cnn((28, 28, 1), 10), LearningConfig(kernel="native"))
    work = some_work((28, 28, 1), 10, floats=False)
    start = begin_phase(learner, learner.model.init(jax.random.key(1)), 10)
    ends = [jax.tree.leaves(kernel_steps(learner, label_loss, start, *work)) for _ in range(2)]
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


@needs_compiler
def test_narrow_vectors_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2, which every machine that has AVX-512 has too."""
    images, targets, teacher, draws = some_work((28, 28, 1), 10, floats=False)
    ends = []
    for lanes in (native._lanes(), 8):
        native.small_cnn.cache_clear()
        monkeypatch.setattr(native, "_lanes", lambda lanes=lanes: lanes)
        model = paper_cnn((28, 28, 1), 10)
        learner = Learner.from_config(model, LearningConfig(kernel="native"))
        start = begin_phase(learner, model.init(jax.random.key(1)), 10)
        end = kernel_steps(learner, distillation_loss, start, images, targets, teacher, draws)
        ends.append(jax.tree.leaves(end))
    native.small_cnn.cache_clear()
    for wide, narrow in zip(*ends, strict=True):
        np.testing.assert_allclose(wide, narrow, rtol=0, atol=2 * STEPS * 2.0**-24)


@pytest.mark.parametrize("missing", ["compiler", "instructions"])
def test_without_it_xla_takes_over(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    native.small_cnn.cache_clear()
    if missing == "compiler":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    else:
        monkeypatch.setattr(native, "cpu_flags", lambda: "flags: sse2")
    model = paper_cnn((28, 28, 1), 10)
    assert Learner.from_config(model, LearningConfig()).kernel is None
    with pytest.raises(InputError, match="kernel = native: paper-cnn"):
        Learner.from_config(model, LearningConfig(kernel="native"))
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
    for fields in ({"optimizer": "adam"}, {"batch_size": 2}, {"soft_label_teacher": "dominant"}):
        assert Learner.from_config(cnn, LearningConfig(**fields)).kernel is None
    assert Learner.from_config(mlp((28, 28, 1), 10), LearningConfig()).kernel is None
    assert Learner.from_config(cnn, LearningConfig(kernel="xla")).kernel is None
    assert native.small_cnn((30, 30, 1), 12, 6, 10) is None
