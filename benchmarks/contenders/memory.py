"""Peak memory of this engine with many devices: a whole round of Mix2FLD, its largest protocol."""

import resource
from typing import Any

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.runs.simulation import make_simulation


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Largest resident size of this process, which does nothing else."""
    config = Config.of(
        protocol="mix2fld",
        devices=devices,
        reuse_samples=devices > 100,
        local_steps=steps,
        server_steps=steps,
        test_samples=100,
        link="ideal",
    )
    simulation = make_simulation(config, load_dataset(config.data))
    simulation.run_round(simulation.start())
    return {"peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}
