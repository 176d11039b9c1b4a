"""Invented traces: rates that wander, and devices that come and go, in the layout ``rates``."""

from pathlib import Path

import numpy as np

SPREAD, MEMORY = 0.6, 0.95
"""Of the logarithm of a rate: its standard deviation, and its correlation from second to second."""
LEAVES, RETURNS = 0.01, 0.1


def write_synthetic_trace(path: Path, devices: int, seconds: int, rng: np.random.Generator) -> None:
    """A CSV file with a median of 2 Mbit/s up and 20 Mbit/s down for each device."""
    log_rate = SPREAD * rng.standard_normal(devices)
    here = np.ones(devices, np.bool_)
    lines = ["time_s,device,uplink_mbps,downlink_mbps,available"]
    for second in range(seconds):
        for device in range(devices):
            factor = float(np.exp(log_rate[device]))
            up, down = 2 * factor, 20 * factor
            lines.append(f"{second},{device},{up:.4f},{down:.4f},{int(here[device])}")
        fresh = SPREAD * rng.standard_normal(devices)
        log_rate = MEMORY * log_rate + np.sqrt(1 - MEMORY**2) * fresh
        moved = rng.random(devices)
        here = np.where(here, moved >= LEAVES, moved < RETURNS)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
