"""A plain PyTorch loop over devices and steps, in one process."""

from typing import Any

from benchmarks.contenders.torch_loop import train
from benchmarks.torch_work import measure_in_processes


def measure(devices: int, steps: int) -> dict[str, Any]:
    """One process, one thread."""
    return measure_in_processes(train, 1, devices, steps)
