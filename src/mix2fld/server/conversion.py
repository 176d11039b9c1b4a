"""Output-to-model conversion, Eq. 5: the server's student learns from seeds and mean outputs."""

from functools import partial

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from mix2fld.learning.steps import (
    Learner,
    begin_phase,
    distillation_loss,
    draw_samples,
    has_kernel,
    kernel_steps,
    sgd_steps,
)
from mix2fld.learning.task import Task
from mix2fld.streams import stream
from mix2fld.types import SeedSet, Weights


def convert(
    weights: Weights | None,
    outputs: NDArray[np.float32],
    seeds: SeedSet,
    task: Task,
    round_number: int,
) -> Weights:
    """K_s steps of Eq. 5 from the last global model, or from an untrained one (decision 6)."""
    learning = task.config.learning
    if learning.student_start == "fresh":
        weights = task.untrained_student(round_number)
    elif weights is None:
        weights = task.common_weights()
    draws = draw_samples(
        stream(task.seed, "conversion", round_number),
        len(seeds.targets),
        learning.server_steps,
        learning.batch_size,
    )
    if has_kernel(task.learner, distillation_loss):
        phase = begin_phase(task.learner, weights, task.dims.num_labels)
        return kernel_steps(
            task.learner, distillation_loss, phase, seeds.images, seeds.targets, outputs, draws
        ).weights
    trained = _student_steps(task.learner, weights, seeds.images, seeds.targets, outputs, draws)
    return jax.tree.map(np.asarray, trained)


@partial(jax.jit, static_argnums=0)
def _student_steps(
    learner: Learner, weights: Weights, images: Array, targets: Array, outputs: Array, draws: Array
) -> Weights:
    phase = begin_phase(learner, weights, targets.shape[1])
    return sgd_steps(learner, distillation_loss, phase, images, targets, outputs, draws).weights
