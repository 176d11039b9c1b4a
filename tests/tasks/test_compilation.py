"""Compiled code is kept, and its time is told apart."""

import subprocess
import sys
from pathlib import Path

CODE = """
import sys, time
from pathlib import Path
import jax, jax.numpy as jnp
from mix2fld.tasks.compilation import CompileClock, keep_compiled_code
keep_compiled_code(Path(sys.argv[1]))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
clock = CompileClock()
started = time.perf_counter()
jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x).T)(jnp.ones((50, 40))).block_until_ready()
assert 0 < clock.seconds <= time.perf_counter() - started
"""


def in_a_process(folder: Path) -> str:
    """What it says beside what it is asked for."""
    command = [sys.executable, "-c", CODE, str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def test_compiled_code_is_kept_for_the_next_process(tmp_path: Path) -> None:
    """And compiled again silently where an entry is only half written."""
    kept = []
    for _ in range(2):
        in_a_process(tmp_path)
        kept.append({p.name for p in tmp_path.rglob("*-cache")})
    assert kept[0]
    assert kept[0] == kept[1]
    for path in tmp_path.rglob("*-cache"):
        path.write_bytes(path.read_bytes()[:20])
    assert in_a_process(tmp_path) == ""
