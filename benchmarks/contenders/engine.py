"""This engine's local phase alone."""

import time
from typing import Any

import numpy as np

from benchmarks.work import LEARNING_RATE, deal, draw, initial_weights, mean_weights
from mix2fld.config.settings import LearningConfig
from mix2fld.models import paper_cnn
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Watch
from mix2fld.types import Samples


def measure(devices: int, steps: int, kernel: str = "auto") -> dict[str, Any]:
    """``Stepper.train`` as a fleet calls it, in one piece."""
    dataset, parts = deal(devices)
    config = LearningConfig(learning_rate=LEARNING_RATE, kernel=kernel)
    stepper = choose_stepper(paper_cnn((28, 28, 1), 10), config)
    held = stepper.hold(Samples(dataset.train_inputs, one_hot(dataset.train_labels, 10)))
    rows = [part[drawn] for part, drawn in zip(parts, draw(parts, steps), strict=True)]
    draws = [row[:, None].astype(np.int32) for row in rows]
    start = Start(tuple(initial_weights()), np.zeros((10, 10), np.float32))
    work = label_loss, held, [start] * devices, draws, Watch(0, (steps,))

    started = time.perf_counter()
    stepper.train(*work)
    first = time.perf_counter() - started
    started = time.perf_counter()
    learned = stepper.train(*work)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "warm_up_seconds": max(0.0, first - seconds),
        "kernel": stepper.name,
        "weights": mean_weights([list(phase.weights) for phase in learned.phases]),
    }
