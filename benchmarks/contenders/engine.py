"""This engine's local phase alone."""

import time
from typing import Any

import jax
import numpy as np

from benchmarks.work import Work, mean_weights, paper_learner, paper_work, weight_tree
from mix2fld.batching import begin_all, on_every_core, steps_all
from mix2fld.learning import label_loss, one_hot


def measure(devices: int, steps: int) -> dict[str, Any]:
    """``batching.steps_all`` as the engine calls it, in one piece."""
    work = paper_work(devices, steps)
    learner, teachers = paper_learner(), np.zeros((devices, 10, 10), np.float32)
    images = on_every_core(work.images.reshape(-1, *work.images.shape[2:]))
    targets = on_every_core(one_hot(work.labels.reshape(-1), 10))
    draws, phase = rows_of_all(work), begin_all(learner, 10, _stacked(work))

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


def rows_of_all(work: Work) -> Any:
    """The draws as rows of all devices' samples together: [D, K, 1]."""
    devices, samples = work.labels.shape
    first_rows = samples * np.arange(devices, dtype=np.int32)[:, None]
    return (work.draws + first_rows)[:, :, None]


def _stacked(work: Work) -> Any:
    copies = [np.stack([tensor] * len(work.draws)) for tensor in work.weights]
    return weight_tree(copies)
