"""The peak of this machine: floating-point operations a second of all cores at once."""

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.work import CORES
from mix2fld.native.library import load_library, vector_lanes

SOURCE = Path(__file__).with_name("peak.c")
CHAINS = 12
COUNT = 40_000_000


def peak_gflops() -> float | None:
    """A thread to a core, the fastest of five; a fused multiply-add is two operations."""
    lanes = vector_lanes()
    library = load_library(SOURCE, {"LANES": lanes}) if lanes else None
    if library is None:
        return None
    function = library.multiply_add
    function.restype = ctypes.c_float
    seconds = []
    with ThreadPoolExecutor(CORES) as threads:
        for _ in range(5):
            started = time.perf_counter()
            list(threads.map(lambda _: function(ctypes.c_int64(COUNT)), range(CORES)))
            seconds.append(time.perf_counter() - started)
    return CORES * COUNT * CHAINS * lanes * 2 / min(seconds) * 1e-9
