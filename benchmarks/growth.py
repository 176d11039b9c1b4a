"""How time and memory grow: ``python -m benchmarks.growth`` measures, draws and writes the page.

Every point is measured in a separate process. ``page`` redraws the picture and the page from
the record; ``point NAME VALUE`` measures one point.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import usage
from benchmarks.machine import describe

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "growth.json"
AXES: dict[str, tuple[int, ...]] = {
    "devices": (10, 30, 100, 300, 1000),
    "samples": (50, 500, 5000),
    "weights": (16, 158, 1258, 12_579),
    "cores": (1, 2),
}
"""Values of each axis; for weights, the hidden units of an MLP."""
DEVICE_STEPS = 64_000
REPEATS = 3
TESTED = 960


def main(arguments: list[str]) -> None:
    """Measure everything, or what the arguments say."""
    if arguments[:1] == ["point"]:
        name, value = arguments[1], int(arguments[2])
        print(json.dumps(measure(name, value)), flush=True)
        return
    if arguments != ["page"]:
        measure_all()
    from benchmarks.growth_page import write_page

    write_page(json.loads(RECORD.read_text()))


def measure_all() -> None:
    """Every point of every axis, written as they come."""
    record: dict[str, Any] = {"machine": describe(), "points": {}}
    for name, values in AXES.items():
        record["points"][name] = []
        for value in values:
            command = [sys.executable, "-m", "benchmarks.growth", "point", name, str(value)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            point = json.loads(done.stdout.splitlines()[-1])
            record["points"][name].append(point)
            print(name, point, flush=True)
            RECORD.parent.mkdir(parents=True, exist_ok=True)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


def measure(name: str, value: int) -> dict[str, Any]:
    """Time of a device-step and peak memory with one setting changed."""
    cores = sorted(os.sched_getaffinity(0))
    if name == "cores":
        os.sched_setaffinity(0, cores[:value])  # before JAX counts them
    import resource

    import numpy as np

    from mix2fld.config.settings import Config
    from mix2fld.data import load_dataset
    from mix2fld.engine.device_turn import local_draws
    from mix2fld.models import mlp
    from mix2fld.runs.simulation import make_simulation
    from mix2fld.tasks.losses import label_loss, one_hot
    from mix2fld.tasks.stepper import Start, TestSet, Watch
    from mix2fld.types import Samples

    devices = value if name == "devices" else 10
    steps = max(
        640 if name == "devices" else 16,
        DEVICE_STEPS // devices // (1 if name != "weights" else max(1, value // 150)),
    )
    config = Config.of(
        protocol="fl",
        devices=devices,
        samples_per_device=value if name == "samples" else 500,
        partition="iid" if name == "samples" else "non-iid",
        reuse_samples=devices > 100,
        local_steps=steps,
        test_samples=100,
        link="ideal",
        curve_points=1,
    )
    model = mlp((28, 28, 1), 10, hidden=(value,)) if name == "weights" else None
    dataset = load_dataset(config.data)
    simulation = make_simulation(config, dataset, model)
    learning, parts = simulation.scenario.learning, simulation.fleet.parts
    stepper = learning.stepper
    state, _ = simulation.run_round(simulation.start())
    held = stepper.hold(Samples(dataset.train_inputs, one_hot(dataset.train_labels, 10)))
    nobody = np.zeros((10, 10), np.float32)
    starts = [Start(device["weights"], nobody) for device in state.devices]
    seconds = []
    for number in range(2, 2 + REPEATS):
        draws = [
            part[local_draws(learning, number, device, len(part))].astype("i4")
            for device, part in enumerate(parts)
        ]
        started = time.perf_counter()
        learned = stepper.train(label_loss, held, starts, draws, Watch(0, (steps,)))
        seconds.append(time.perf_counter() - started)
    trained = [phase.weights for phase in learned.phases]
    tests = TestSet(
        stepper, learning.task, dataset.test_inputs[:TESTED], dataset.test_labels[:TESTED]
    )
    testing = []
    for _ in range(2):
        started = time.perf_counter()
        tests.scores(trained)
        testing.append(time.perf_counter() - started)
    used = len(os.sched_getaffinity(0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "value": learning.dims.num_weights if name == "weights" else value,
        "us_per_step": statistics.median(seconds) / (devices * steps) * used * 1e6,
        "least": min(seconds) / (devices * steps) * used * 1e6,
        "most": max(seconds) / (devices * steps) * used * 1e6,
        "us_per_test_image": min(testing) / (devices * TESTED) * used * 1e6,
        "seconds_of_a_round": statistics.median(seconds) / steps * 6400,
        "peak_gb": peak * 1024 / 1e9,
        "weights_mb": sum(t.nbytes for weights in trained for t in weights) / 1e6,
    }


if __name__ == "__main__":
    main(usage.arguments(__doc__, "[page]", "[point NAME VALUE]"))
