"""A model of the section "Other models" by this engine: local phases, and testing."""

import time
from typing import Any

import numpy as np

from benchmarks.other_models import (
    BY_NAME,
    LABELS,
    LEARNING_RATE,
    OtherModel,
    jax_model,
    other_work,
)
from benchmarks.peak import peak_gflops
from benchmarks.work import CORES, mean_weights
from mix2fld.config.settings import LearningConfig
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Stepper, TestSet, Watch
from mix2fld.types import Model, Samples, Tensors

TESTED = 2048


def measure(devices: int, steps: int, row: str) -> dict[str, Any]:
    """``Stepper.train`` as a fleet calls it, in one piece; then ``count_correct``."""
    model = BY_NAME[row]
    return measure_model(model, jax_model(model.network), devices, steps)


def measure_model(
    row: OtherModel, model: Model, devices: int, steps: int, weights: Tensors | None = None
) -> dict[str, Any]:
    """The same for any form of the network."""
    work = other_work(row, devices, steps)
    config = LearningConfig(
        learning_rate=LEARNING_RATE, optimizer=row.optimizer, batch_size=row.batch_size
    )
    stepper = choose_stepper(model, config, row.sample_shape)
    held = stepper.hold(Samples(work.images, one_hot(work.labels, LABELS)))
    start = Start(weights or work.weights, np.zeros((LABELS, LABELS), np.float32))
    job = label_loss, held, [start] * devices, work.draws, Watch(0, (steps,))
    started = time.perf_counter()
    stepper.train(*job)
    first = time.perf_counter() - started
    started = time.perf_counter()
    learned = stepper.train(*job)
    seconds = time.perf_counter() - started
    trained = [phase.weights for phase in learned.phases]
    return {
        "seconds": seconds,
        "warm_up_seconds": max(0.0, first - seconds),
        "kernel": stepper.name,
        "us_per_test_image": seconds_per_test(stepper, row, trained) * CORES * 1e6,
        "peak_gflops": peak_gflops(),
        "weights": mean_weights([list(tensors) for tensors in trained]),
    }


def seconds_per_test(stepper: Stepper, row: OtherModel, models: list[Tensors]) -> float:
    """Seconds of testing one model on one sample; the fastest of three."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (TESTED, *row.sample_shape), dtype=np.uint8)
    tests = TestSet(stepper, Classification(LABELS), images, np.zeros(TESTED, np.int32))
    tests.scores(models)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        tests.scores(models)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / (len(models) * TESTED)
