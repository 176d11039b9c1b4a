"""Kernels that a wheel brings, where there is no compiler."""

import ctypes
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mix2fld import native
from mix2fld.codecs.rotation import Rotation
from mix2fld.native import library, recipe
from mix2fld.native.rotation import RotationKernel
from mix2fld.types import Phase, Samples, StepRule

SHAPE, LABELS, STEPS = (8, 8, 1), 4, 50
WEIGHTS = {
    "cnn": [(12,), (3, 3, 1, 12), (6,), (3, 3, 12, 6), (LABELS,), (LABELS, 6 * 4 * 4)],
    "mlp": [(16,), (16, 64), (LABELS,), (LABELS, 16)],
}
pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() not in recipe.WIDTHS, reason="no compiler here"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of a wheel for this platform, for one small shape."""
    folder = tmp_path_factory.mktemp("prebuilt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "CNN_SHAPES", ())
        recipe.make_kernels(folder, ["cc"], platform.machine(), [(8, 1, LABELS)])
    return folder


@pytest.fixture
def no_compiler(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for kernel in (native.small_cnn, native.mlp):
        kernel.cache_clear()
    monkeypatch.setattr(library, "FOLDER", made)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    yield
    for kernel in (native.small_cnn, native.mlp):
        kernel.cache_clear()


def learned(name: str, kernel: native.CompiledNetwork | None) -> list[np.ndarray]:
    """Weights and sums after a phase in batches of three."""
    assert kernel is not None
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (30, *SHAPE)).astype(np.uint8)
    targets = rng.dirichlet(np.ones(LABELS), 30).astype(np.float32)
    weights = tuple((0.2 * rng.normal(size=s)).astype(np.float32) for s in WEIGHTS[name])
    sums, counts = np.zeros((LABELS, LABELS), np.float32), np.zeros(LABELS, np.float32)
    draws = rng.integers(0, 30, (STEPS, 3)).astype(np.int32)
    rule = StepRule(0.02, np.full_like(sums, 1 / LABELS), 0.3, None)
    kernel.train(Phase(weights, sums, counts), (Samples(images, targets),), draws, rule)
    return [*weights, sums / STEPS]


def kernels() -> dict[str, native.CompiledNetwork | None]:
    return {"cnn": native.small_cnn(SHAPE, 12, 6, LABELS), "mlp": native.mlp(SHAPE, 16, LABELS)}


@pytest.fixture(scope="module")
def compiled() -> dict[str, list[np.ndarray]]:
    """What the kernels that are compiled for this machine learn."""
    return {name: learned(name, kernel) for name, kernel in kernels().items()}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("lanes", list(recipe.WIDTHS.get(platform.machine(), ())))
def test_every_width_learns_what_the_compiled_kernel_learns(
    compiled: dict[str, list[np.ndarray]], no_compiler: None, name: str, lanes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if lanes > (native.vector_lanes() or recipe.PLAIN_LANES):
        pytest.skip(f"this processor has no vectors of {lanes} floats")
    monkeypatch.setattr(native, "vector_lanes", lambda: lanes)
    for mine, other in zip(learned(name, kernels()[name]), compiled[name], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=2 * STEPS * 2.0**-24)


def test_networks_of_two_sizes_do_not_disturb_each_other(
    compiled: dict[str, list[np.ndarray]], no_compiler: None
) -> None:
    kernel = native.mlp(SHAPE, 16, LABELS)
    other = native.mlp((3, 5), 7, 9)
    assert other is not None
    for mine, before in zip(learned("mlp", kernel), compiled["mlp"], strict=True):
        np.testing.assert_allclose(mine, before, rtol=0, atol=2 * STEPS * 2.0**-24)


@pytest.mark.parametrize("lanes", list(recipe.WIDTHS.get(platform.machine(), ())))
def test_every_width_rotates_to_the_same_bits(made: Path, lanes: int) -> None:
    if lanes > (native.vector_lanes() or recipe.PLAIN_LANES):
        pytest.skip(f"this processor has no vectors of {lanes} floats")
    code = ctypes.CDLL(str(made / recipe.library_name("rotation", {"LANES": lanes})))
    kernel, rotation = RotationKernel(code), Rotation(np.random.default_rng(5), 1000)
    vector = np.random.default_rng(6).normal(size=1000).astype(np.float32)
    dealt, ones = rotation.choices.dealt, np.ones(1000, np.int64)
    assert np.array_equal(kernel.draw(np.random.default_rng(5), 1000)[2], dealt)
    unit = np.ones(1, np.float32)
    within, found = kernel.pick([np.random.default_rng(5)], vector[None], unit, ones)
    assert found.tobytes() == rotation.forward(vector)[dealt].tobytes()
    back = kernel.place([np.random.default_rng(5)], 1000, ones, within, found)
    assert back.tobytes() == rotation.backward(rotation.forward(vector)).tobytes()


def test_shapes_that_were_not_made_have_no_kernel(no_compiler: None) -> None:
    assert native.small_cnn((16, 16, 1), 12, 6, LABELS) is None
    assert native.small_cnn(SHAPE, 12, 6, LABELS + 1) is None


def test_a_damaged_library_is_none(
    made: Path, no_compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:100])
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    assert native.mlp(SHAPE, 16, LABELS) is None
