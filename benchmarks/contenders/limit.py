"""The limit: a hand-tuned C kernel of the same SGD step, compiled for this machine."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mix2fld.native
from benchmarks.machine import cpu_flags
from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work, mean_weights, paper_work
from mix2fld.native import SampleSet
from mix2fld.native.library import FOR_THIS_MACHINE
from mix2fld.native.recipe import FLAGS
from mix2fld.tasks.losses import one_hot
from mix2fld.types import Samples

SOURCE = Path(mix2fld.native.__file__).with_name("small_cnn.c")
SIZES = {"SIDE": 28, "CHANNELS": 1, "FIRST": 12, "SECOND": 6, "LABELS": 10}


def measure(devices: int, steps: int) -> dict[str, Any]:
    """One thread to a core, each walking through its share of the devices."""
    work = paper_work(devices, steps)
    started = time.perf_counter()
    train_all(work.first_steps(50))
    warm_up = time.perf_counter() - started
    started = time.perf_counter()
    trained = train_all(work)
    return {
        "seconds": time.perf_counter() - started,
        "warm_up_seconds": warm_up,
        "lanes": lanes(),
        "weights": mean_weights(trained),
    }


def train_all(work: Work) -> list[Tensors]:
    """The weights of every device after its steps."""
    library = compiled()
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(lambda d: _train(library, work, d), range(len(work.draws))))


def lanes() -> int:
    """Floats in the widest vector of this machine: AVX-512 or AVX2."""
    return 16 if "avx512f" in cpu_flags() else 8


@lru_cache
def compiled() -> ctypes.CDLL:
    """The kernel, compiled for this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("no C compiler on this machine")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "limit.so"
        sizes = [f"-D{name}={size}" for name, size in {**SIZES, "LANES": lanes()}.items()]
        command = [
            compiler,
            *FOR_THIS_MACHINE[0],
            *FLAGS,
            *sizes,
            str(SOURCE),
            "-o",
            str(target),
            "-lm",
        ]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(target))


def _train(library: ctypes.CDLL, work: Work, device: int) -> Tensors:
    weights = [np.array(tensor, order="C") for tensor in work.weights]
    targets, teacher = one_hot(work.labels[device], 10), np.zeros((10, 10), np.float32)
    sums, counts = np.zeros((10, 10), np.float32), np.zeros(10, np.float32)
    library.train(
        (ctypes.c_void_p * 6)(*[tensor.ctypes.data for tensor in weights]),
        ctypes.byref(SampleSet.of(Samples(work.images[device], targets))),
        _pointer(teacher),
        None,
        _pointer(work.draws[device]),
        ctypes.c_int64(work.draws.shape[1]),
        ctypes.c_float(LEARNING_RATE),
        ctypes.c_float(0),
        _pointer(sums),
        _pointer(counts),
    )
    return weights


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
