"""The kernel on processors without AVX: four lanes here, and an ARM with NEON under QEMU."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mix2fld import native
from mix2fld.native import small_cnn
from mix2fld.native.recipe import FLAGS, PLAIN_LANES, cnn_sizes
from mix2fld.types import Phase, Samples, StepRule
from places import TESTS

SIDE, LABELS, STEPS = 28, 10, 300
SIZES = cnn_sizes(SIDE, 1, 12, 6, LABELS)
CROSS = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64-static")
if os.environ.get("MIX2FLD_NEEDS_QEMU") and None in CROSS:
    raise RuntimeError("apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static")


class Work:
    """A short local phase with distillation and logit adjustment, as arrays."""

    def __init__(self, batch: int = 1) -> None:
        rng = np.random.default_rng(3)
        labels = np.arange(80, dtype=np.int32) % LABELS
        images = rng.integers(0, 90, (80, SIDE, SIDE, 1)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 + 2 * label : 4 + 2 * label] += 120
        self.labels, self.images = labels, images
        self.targets = np.eye(LABELS, dtype=np.float32)[labels]
        shapes = [(12,), (3, 3, 1, 12), (6,), (3, 3, 12, 6), (LABELS,), (LABELS, 6 * 14 * 14)]
        scales = [0, 0.4, 0, 0.15, 0, 0.04]
        self.tensors = [
            (rng.normal(size=shape) * scale).astype(np.float32)
            for shape, scale in zip(shapes, scales, strict=True)
        ]
        self.teacher = rng.dirichlet(np.ones(LABELS), LABELS).astype(np.float32)
        self.offset = np.log(rng.dirichlet(np.ones(LABELS))).astype(np.float32)
        self.draws = rng.integers(0, 80, (STEPS, batch)).astype(np.int32)

    def here(self) -> list[np.ndarray]:
        """With the kernel of this process."""
        kernel = small_cnn((SIDE, SIDE, 1), 12, 6, LABELS)
        assert kernel is not None
        phase = Phase(
            tuple(tensor.copy() for tensor in self.tensors),
            np.zeros((LABELS, LABELS), np.float32),
            np.zeros(LABELS, np.float32),
        )
        rule = StepRule(0.05, self.teacher, 0.3, self.offset)
        kernel.train(phase, (Samples(self.images, self.targets),), self.draws, rule)
        correct = kernel.count_correct(phase.weights, self.images, self.labels)
        return [*phase.weights, phase.output_sums, phase.label_counts, np.array(correct)]

    def elsewhere(self, folder: Path, command: list[str], run: list[str]) -> list[np.ndarray]:
        """With a program that holds the kernel, made by a compiler and run by an emulator."""
        source = Path(native.__file__).with_name("small_cnn.c")
        macros = [f"-D{name}={size}" for name, size in {**SIZES, "LANES": PLAIN_LANES}.items()]
        program, given, made = folder / "driver", folder / "in", folder / "out"
        flags = [flag for flag in FLAGS if flag != "-shared"]
        subprocess.run(
            [*command, *flags, *macros, f'-DKERNEL="{source}"', str(TESTS / "kernel_driver.c"),
             "-static", "-o", str(program), "-lm"], check=True,
        )  # fmt: skip
        arrays = [
            np.array([len(self.labels), *self.draws.shape], np.int64), *self.tensors, self.images,
            self.targets, self.labels, self.teacher, self.offset, self.draws,
        ]  # fmt: skip
        given.write_bytes(b"".join(array.tobytes() for array in arrays))
        subprocess.run([*run, str(program), str(given), str(made)], check=True)
        data, found = made.read_bytes(), []
        like = [*self.tensors, np.zeros((LABELS, LABELS), np.float32), np.zeros(LABELS, np.float32)]
        for array in like:
            found.append(np.frombuffer(data[: array.nbytes], array.dtype).reshape(array.shape))
            data = data[array.nbytes :]
        return [*found, np.frombuffer(data, np.int64)[0]]


def same_to_rounding(mine: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    """Weights as in test_native; sums of outputs are of tens."""
    for one, other in zip(mine[:6], theirs[:6], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2 * STEPS * 2.0**-24)
    for one, other in zip(mine[6:], theirs[6:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")


@needs_compiler
def test_four_lanes_compute_the_same_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    work, found = Work(), []
    for lanes in (native.vector_lanes(), 0):
        small_cnn.cache_clear()
        monkeypatch.setattr(native, "vector_lanes", lambda lanes=lanes: lanes)
        found.append(work.here())
    small_cnn.cache_clear()
    same_to_rounding(*found)
    assert found[0][-1] == found[1][-1] > 40  # it learned something


@pytest.mark.long
@needs_compiler
@pytest.mark.skipif(None in CROSS, reason="no cross compiler or QEMU (make test-arm)")
@pytest.mark.parametrize("batch", [1, 4])
def test_an_arm_computes_the_same_to_rounding(tmp_path: Path, batch: int) -> None:
    work = Work(batch)
    theirs = work.elsewhere(tmp_path, [str(CROSS[0])], [str(CROSS[1])])
    same_to_rounding(work.here(), theirs)


@needs_compiler
def test_the_driver_of_other_processors_is_right_here(tmp_path: Path) -> None:
    work = Work()
    same_to_rounding(work.here(), work.elsewhere(tmp_path, ["cc"], []))
