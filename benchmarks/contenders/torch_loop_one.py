"""A plain PyTorch loop over devices and steps, in one process."""

from typing import Any

from benchmarks.contenders.torch_loop import prepare
from benchmarks.processes import measure_in_processes


def measure(devices: int, steps: int) -> dict[str, Any]:
    """One process, one thread; the other cores idle."""
    return measure_in_processes(prepare, 1, devices, steps, warm_up_steps=50)
