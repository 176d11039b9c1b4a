"""Measures what an SGD step takes on this machine."""

from mix2fld.config.grid import Grid
from mix2fld.runs.simulation import run
from mix2fld_lab.reproduction.experiments import Scale


def measure_host(scale: Scale) -> dict[str, float]:
    """Microseconds of a step on a device and at the server, measured in short runs."""
    grid = Grid.of(
        protocols=("isolated", "mix2fld"), rounds=2, curve_points=1, computing_time="measured",
        link="ideal", **scale.changes,
    )  # fmt: skip
    alone, converted = (result.rounds[-1]["seconds"]["computing"] for result in run(grid))
    learning = grid.learning
    return {
        "device_us": round(1e6 * alone / learning.local_steps, 1),
        "server_us": round(1e6 * max(0.0, converted - alone) / learning.server_steps, 1),
    }
