"""Whether a process may use AVX-512, or no more than AVX2: with what its processor has, or less."""

import os

NAME = "MIX2FLD_BENCH_INSTRUCTIONS"
AVX2 = {
    NAME: "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}
"""The environment of a process that uses no more than AVX2: its kernels, PyTorch and XLA."""


def apply_limit() -> None:
    """Before anything is compiled: kernels without AVX-512, if the environment says so."""
    if os.environ.get(NAME) != "avx2":
        return
    from mix2fld.native import library

    flags = " ".join(f for f in library.cpu_flags().split() if not f.startswith("avx512"))
    library.cpu_flags = lambda: flags
    library.FOR_THIS_MACHINE = (["-march=native", "-mno-avx512f"],)
