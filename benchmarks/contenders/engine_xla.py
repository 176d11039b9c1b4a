"""This engine's local phase on its general path, as any model runs it."""

from typing import Any

from benchmarks.contenders import engine


def measure(devices: int, steps: int) -> dict[str, Any]:
    """The same, compiled by XLA."""
    return engine.measure(devices, steps, kernel="xla")
