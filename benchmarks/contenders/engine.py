"""This engine's local phase alone."""

import time
from typing import Any

import jax
import numpy as np

from benchmarks.work import deal, draw, initial_weights, mean_weights, paper_learner, weight_tree
from mix2fld.batching import begin_all, on_every_core, steps_all
from mix2fld.learning import label_loss, one_hot


def measure(devices: int, steps: int) -> dict[str, Any]:
    """``batching.steps_all`` as the engine calls it, in one piece."""
    dataset, parts = deal(devices)
    learner, teachers = paper_learner(), np.zeros((devices, 10, 10), np.float32)
    images = on_every_core(dataset.train_images)
    targets = on_every_core(one_hot(dataset.train_labels, 10))
    rows = np.stack([part[drawn] for part, drawn in zip(parts, draw(parts, steps), strict=True)])
    draws = rows[:, :, None].astype(np.int32)
    stacked = [np.stack([tensor] * devices) for tensor in initial_weights()]
    phase = begin_all(learner, 10, weight_tree(stacked))

    def local_phase() -> Any:
        return steps_all(learner, label_loss, phase, images, targets, teachers, draws)

    started = time.perf_counter()
    local_phase()
    first = time.perf_counter() - started
    started = time.perf_counter()
    trained = local_phase()
    seconds = time.perf_counter() - started
    of_devices = [[leaf[d] for leaf in jax.tree.leaves(trained.weights)] for d in range(devices)]
    return {
        "seconds": seconds,
        "warm_up_seconds": first - seconds,
        "weights": mean_weights(of_devices),
    }
