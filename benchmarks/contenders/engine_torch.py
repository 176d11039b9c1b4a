"""This engine's local phase with the paper's network as a PyTorch module."""

import time
from typing import Any

import numpy as np

from benchmarks.torch_work import from_torch, paper_network, to_torch
from benchmarks.work import LEARNING_RATE, deal, draw, initial_weights, mean_weights
from mix2fld import models
from mix2fld.config.settings import LearningConfig
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Watch
from mix2fld.types import Samples


def measure(devices: int, steps: int) -> dict[str, Any]:
    """``Stepper.train`` as a fleet calls it; the first call starts the workers."""
    dataset, parts = deal(devices)
    config = LearningConfig(learning_rate=LEARNING_RATE)
    stepper = choose_stepper(models.from_torch(paper_network), config)
    held = stepper.hold(Samples(dataset.train_inputs, one_hot(dataset.train_labels, 10)))
    rows = [part[drawn] for part, drawn in zip(parts, draw(parts, steps), strict=True)]
    draws = [row[:, None].astype(np.int32) for row in rows]
    weights = tuple(tensor.numpy() for tensor in to_torch(initial_weights()))
    start = Start(weights, np.zeros((10, 10), np.float32))
    work = label_loss, held, [start] * devices, draws, Watch(0, (steps,))

    short = Watch(0, (1,))
    started = time.perf_counter()
    stepper.train(label_loss, held, [start] * devices, [d[:1] for d in draws], short)
    warm_up = time.perf_counter() - started
    started = time.perf_counter()
    learned = stepper.train(*work)
    return {
        "seconds": time.perf_counter() - started,
        "warm_up_seconds": warm_up,
        "kernel": stepper.name,
        "weights": mean_weights([from_torch(list(phase.weights)) for phase in learned.phases]),
    }
