"""Compiled code: kept from one process to the next, and its time told apart from training."""

import hashlib
import platform
import warnings
from functools import cache
from pathlib import Path

import jax

from mix2fld.base.private_folder import private_folder
from mix2fld.native.processor import cpu_flags

COMPILING = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


def keep_compiled_code(folder: Path) -> None:
    """Let XLA keep what it compiles below ``folder``, and find it there the next time.

    Code compiled for one processor may not run on another that shares the folder, so each kind of
    processor has its own. Nothing is kept where others can write. An entry that another process is
    just writing is compiled again, without a word.
    """
    private = _judged_once(folder)
    if private is None:
        return
    jax.config.update("jax_compilation_cache_dir", str(private / _processor()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    warnings.filterwarnings("ignore", "Error reading persistent compilation cache entry")


class CompileClock:
    """Seconds that JAX has spent lowering and compiling since this clock was made."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event in COMPILING:
            self.seconds += duration_secs


_judged_once = cache(private_folder)
"""All files of the folder are looked at: once in a process."""


def _processor() -> str:
    """A short name for this kind of processor, from the instructions it has."""
    return hashlib.sha256(f"{platform.machine()}{cpu_flags()}".encode()).hexdigest()[:12]
