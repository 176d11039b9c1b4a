"""Do the kernels of an installed wheel learn, and do all widths of vectors agree to rounding?

Run by the Python of an environment with the wheel and NumPy; no compiler is used. With a file name,
what was learned is kept in it, to be compared with another processor's.
"""

import sys
from pathlib import Path

import numpy as np

from mix2fld.native import CompiledNetwork
from mix2fld.native.library import load_prebuilt, vector_lanes
from mix2fld.native.recipe import FOLDER, PLAIN_LANES, cnn_sizes
from mix2fld.types import Phase, Samples, StepRule

SIDE, LABELS, STEPS, COUNT = 28, 10, 200, 80
SHAPES = {
    "paper-cnn": [(12,), (3, 3, 1, 12), (6,), (3, 3, 12, 6), (LABELS,), (LABELS, 6 * 14 * 14)],
    "mlp": [(128,), (128, SIDE * SIDE), (LABELS,), (LABELS, 128)],
}
SCALES = {"paper-cnn": [0, 0.4, 0, 0.15, 0, 0.04], "mlp": [0, 0.03, 0, 0.1]}
TOLERANCE = 2 * STEPS * 2.0**-24
"""As between the kernel and XLA."""


def main() -> None:
    widths = [lanes for lanes in (16, 8, PLAIN_LANES) if lanes <= (vector_lanes() or PLAIN_LANES)]
    kept = {}
    for name in SHAPES:
        for batch in (1, 4):
            ends = [learned(name, kernel(name, lanes), batch) for lanes in widths]
            for other in ends[1:]:
                for one, two in zip(ends[0], other, strict=True):
                    np.testing.assert_allclose(one, two, rtol=0, atol=TOLERANCE)
            kept |= {f"{name}-{batch}-{i}": end for i, end in enumerate(ends[0])}
    print(f"prebuilt kernels of {len(SHAPES)} networks agree, vectors of {widths} floats")
    if len(sys.argv) > 1:
        np.savez(sys.argv[1], **kept)


def kernel(name: str, lanes: int) -> CompiledNetwork:
    """The one that the wheel brought."""
    sizes = cnn_sizes(SIDE, 1, 12, 6, LABELS) if name == "paper-cnn" else {}
    source = "small_cnn" if name == "paper-cnn" else "mlp"
    library = load_prebuilt(source, {**sizes, "LANES": lanes})
    if library is None:
        held = sorted(file.name for file in Path(FOLDER).glob("*"))
        sys.exit(f"{name}: no kernel with vectors of {lanes} floats among {held}")
    if name == "paper-cnn":
        return CompiledNetwork(library)
    library.set_sizes(SIDE * SIDE, 1, 128, LABELS)
    return CompiledNetwork(library)


def learned(name: str, kernel: CompiledNetwork, batch: int) -> tuple[np.ndarray, ...]:
    """Weights after a phase with distillation and logit adjustment, which must have helped."""
    rng = np.random.default_rng(3)
    labels = np.arange(COUNT, dtype=np.int32) % LABELS
    images = rng.integers(0, 90, (COUNT, SIDE, SIDE, 1)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 + 2 * label : 4 + 2 * label] += 120
    weights = tuple(
        (rng.normal(size=shape) * scale).astype(np.float32)
        for shape, scale in zip(SHAPES[name], SCALES[name], strict=True)
    )
    sums, counts = np.zeros((LABELS, LABELS), np.float32), np.zeros(LABELS, np.float32)
    phase = Phase(weights, sums, counts)
    rule = StepRule(0.05, sums + np.float32(1 / LABELS), 0.1, np.log(counts + np.float32(0.1)))
    before = kernel.count_correct(weights, images, labels)
    draws = rng.integers(0, COUNT, (STEPS, batch)).astype(np.int32)
    kernel.train(phase, (Samples(images, np.eye(LABELS, dtype=np.float32)[labels]),), draws, rule)
    after = kernel.count_correct(weights, images, labels)
    if not after > before + COUNT // 4:
        sys.exit(f"{name}, batch {batch}: {before} of {COUNT} correct before, {after} after")
    return weights


if __name__ == "__main__":
    main()
