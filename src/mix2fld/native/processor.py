"""What this machine's processor can do."""

import os
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def cpu_flags() -> str:
    """The instruction sets that the processor lists; empty where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


CORES = "MIX2FLD_CORES"
"""Environment variable: cores that this process may use, where it shares a machine."""


def usable_cores() -> int:
    """Cores that this process may use."""
    told = os.environ.get(CORES, "")
    if told.isdecimal() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
