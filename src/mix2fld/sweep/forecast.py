"""What a sweep will take, from one measured round of its first run."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from mix2fld.runs.simulation import make_simulation
from mix2fld.sweep.jobs import Job, dataset_of


class Forecast(NamedTuple):
    """Steps that are missing, and what a measured round says of them."""

    steps: int
    round_steps: int
    """Of the round that was measured."""
    round_seconds: float
    cores: int
    """That it was measured on."""

    def seconds(self, cores: int) -> float:
        """Time of all of them on so many cores, if they are as fast as those of this machine."""
        return self.steps / self.round_steps * self.round_seconds * self.cores / cores


def steps_missing(jobs: Sequence[Job]) -> int:
    """SGD steps of all rounds that are not on disk."""
    return sum((job.config.rounds - job.rounds_done()) * job.round_cost for job in jobs)


def measure(jobs: Sequence[Job], cores: int) -> Forecast:
    """Run two rounds of the first run in memory; the first one, which compiles, is not counted."""
    first = jobs[0]
    simulation = make_simulation(first.config, dataset_of(first.config))
    state, _ = simulation.run_round(simulation.start())
    started = time.perf_counter()
    simulation.run_round(state)
    seconds = time.perf_counter() - started
    return Forecast(steps_missing(jobs), first.round_cost, seconds, cores)
