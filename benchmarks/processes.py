"""The devices shared out to several processes that start together."""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.work import Tensors, mean_weights, paper_work

Prepare = Callable[[Any], Callable[[], list[Tensors]]]
"""Takes the work of a process, converts its data, and returns the function that is timed."""
MakeWork = Callable[[int, int], Any]
"""Takes devices and steps, and returns work with ``share`` and ``first_steps``."""


def measure_in_processes(
    prepare: Prepare,
    processes: int,
    devices: int,
    steps: int,
    warm_up_steps: int,
    make_work: MakeWork = paper_work,
) -> dict[str, Any]:
    """Time the local phase; each process warms up on the first steps of its own share."""
    context = multiprocessing.get_context("spawn")
    together, results = context.Barrier(processes + 1), context.Queue()
    work = (make_work, devices, steps, warm_up_steps)
    workers = [
        context.Process(target=_worker, args=(prepare, share, work, together, results), daemon=True)
        for share in np.array_split(np.arange(devices), processes)
    ]
    for worker in workers:
        worker.start()
    together.wait(timeout=600)
    started = time.perf_counter()
    together.wait(timeout=3600)
    seconds = time.perf_counter() - started
    done = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {
        "seconds": seconds,
        "warm_up_seconds": max(warm_up for warm_up, _ in done),
        "processes": processes,
        "weights": mean_weights([tensors for _, of_share in done for tensors in of_share]),
    }


def _worker(
    prepare: Prepare,
    share: Any,
    work: tuple[MakeWork, int, int, int],
    together: Any,
    results: Any,
) -> None:
    make_work, devices, steps, warm_up_steps = work
    own = make_work(devices, steps).share(share)
    started = time.perf_counter()
    prepare(own.first_steps(warm_up_steps))()
    warm_up_seconds = time.perf_counter() - started
    local_phase = prepare(own)
    together.wait(timeout=600)
    trained = local_phase()
    together.wait(timeout=600)
    results.put((warm_up_seconds, trained))
