"""How the C sources become machine code, here or in a wheel; needs nothing but Python.

A wheel for a platform carries kernels made beforehand, for each width of vectors that its
processors may have: which of them is loaded is decided where it runs.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-Wno-psabi", "-fno-math-errno"),
    *("-fno-trapping-math", "-ffp-contract=fast"),
)
PLAIN_LANES = 4
"""Floats in a vector of any processor, such as an ARM with NEON."""
WIDTHS: dict[str, dict[int, tuple[str, ...]]] = {
    "x86_64": {16: ("-mavx512f", "-mavx2", "-mfma"), 8: ("-mavx2", "-mfma"), PLAIN_LANES: ()},
    "aarch64": {PLAIN_LANES: ("-march=armv8-a",)},
}
"""Of each platform that wheels are made for: lanes, and what the compiler may use for them."""
CNN_SHAPES = ((28, 1, 10), (32, 3, 10), (32, 3, 100))
"""Side, channels and labels for which the paper's network is made beforehand: the datasets'."""
FOLDER = Path(__file__).with_name("prebuilt")


def cnn_sizes(side: int, channels: int, first: int, second: int, labels: int) -> dict[str, int]:
    """The macros of ``small_cnn.c``."""
    names = ("SIDE", "CHANNELS", "FIRST", "SECOND", "LABELS")
    return dict(zip(names, (side, channels, first, second, labels), strict=True))


def library_name(source: str, sizes: Mapping[str, int]) -> str:
    """The file of a kernel that was made beforehand."""
    return "-".join([source, *(f"{name.lower()}{size}" for name, size in sizes.items())]) + ".so"


def compile_command(compiler: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """What compiles a source with these macros; source and library follow."""
    return [*compiler, *FLAGS, *(f"-D{name}={size}" for name, size in sizes.items())]


def make_kernels(
    folder: Path, compiler: Sequence[str], machine: str, more: Sequence[Sequence[int]] = ()
) -> list[Path]:
    """Compile all kernels of a platform into a folder; ``more`` shapes beside the datasets'."""
    here, made = Path(__file__).parent, []
    shapes = [
        cnn_sizes(side, channels, 12, 6, labels) for side, channels, labels in (*CNN_SHAPES, *more)
    ]
    for lanes, flags in WIDTHS[machine].items():
        wanted = [(name, {"LANES": lanes}) for name in ("mlp", "network", "rotation")]
        wanted += [("small_cnn", {**shape, "LANES": lanes}) for shape in shapes]
        for source, sizes in wanted:
            library = folder / library_name(source, sizes)
            command = compile_command([*compiler, *flags], sizes)
            subprocess.run(
                [*command, "-s", str(here / f"{source}.c"), "-o", str(library), "-lm"], check=True
            )
            made.append(library)
    return made
