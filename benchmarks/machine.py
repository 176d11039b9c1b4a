"""What the benchmark ran on."""

import platform
import subprocess
import time
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.work import CORES
from mix2fld import __version__
from mix2fld_lab.made_with import made_with

PACKAGES = ("numpy", "jax", "jaxlib", "torch", "flwr", "ray", "pfl", "fedlab", "fedjax")
VECTOR_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "amx_tile", "asimd", "sve")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system and versions."""
    return {
        "cpu": _proc_field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": CORES,
        "flags": [flag for flag in VECTOR_FLAGS if flag in cpu_flags()],
        "memory_gb": round(int(_proc_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": _compiler(),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": made_with().get("commit", ""),
    }


def percent_busy(seconds: float = 3.0) -> int:
    """Share of all cores that other work uses now."""
    idle, total = _core_ticks()
    time.sleep(seconds)
    idle_now, total_now = _core_ticks()
    return round(100 * (1 - (idle_now - idle) / (total_now - total)))


def _core_ticks() -> tuple[int, int]:
    """Ticks that all cores were idle, and all their ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


@lru_cache
def cpu_flags() -> frozenset[str]:
    """Instruction sets of the processor, as Linux names them."""
    text = _proc_field("/proc/cpuinfo", "flags") or _proc_field("/proc/cpuinfo", "Features")
    return frozenset(text.split())


def _proc_field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _versions() -> dict[str, str]:
    found = {"mix2fld": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _compiler() -> str:
    try:
        said = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return said.stdout.splitlines()[0]
