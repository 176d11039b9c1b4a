"""This engine's local phase alone."""

import time
from typing import Any

import jax
import numpy as np
from mix2fld.learning.steps import label_loss, one_hot

from benchmarks.work import deal, draw, initial_weights, mean_weights, paper_learner, weight_tree
from mix2fld.learning.xla import Trainer


def measure(devices: int, steps: int, kernel: str = "auto") -> dict[str, Any]:
    """``Trainer.steps`` as the engine calls it, in one piece."""
    dataset, parts = deal(devices)
    targets = one_hot(dataset.train_labels, 10)
    trainer = Trainer(paper_learner(kernel), label_loss, dataset.train_images, targets)
    teachers = np.zeros((devices, 10, 10), np.float32)
    rows = np.stack([part[drawn] for part, drawn in zip(parts, draw(parts, steps), strict=True)])
    draws = rows[:, :, None].astype(np.int32)
    stacked = [np.stack([tensor] * devices) for tensor in initial_weights()]
    phase = trainer.begin(weight_tree(stacked))

    started = time.perf_counter()
    trainer.steps(phase, teachers, draws)
    first = time.perf_counter() - started
    started = time.perf_counter()
    trained = trainer.steps(phase, teachers, draws)
    seconds = time.perf_counter() - started
    of_devices = [[leaf[d] for leaf in jax.tree.leaves(trained.weights)] for d in range(devices)]
    return {
        "seconds": seconds,
        "warm_up_seconds": max(0.0, first - seconds),
        "kernel": "xla" if trainer.learner.kernel is None else "native",
        "weights": mean_weights(of_devices),
    }
