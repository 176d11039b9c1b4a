"""Output-to-model conversion, Eq. 5: the server's student learns from seeds and mean outputs."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.losses import distillation_loss
from mix2fld.learning.stepper import Draws, Start, draw_samples
from mix2fld.learning.task import Task
from mix2fld.streams import integer, stream
from mix2fld.types import Samples, SeedSet, Tensors


def convert(
    weights: Tensors | None,
    outputs: NDArray[np.float32],
    seeds: SeedSet,
    task: Task,
    round_number: int,
) -> Tensors:
    """K_s steps of Eq. 5 from the last global model, or from an untrained one (decision 6)."""
    learning = task.config.learning
    if learning.student_start == "fresh":
        weights = task.untrained_student(round_number)
    elif weights is None:
        weights = task.common_weights
    draws = draw_samples(
        stream(task.seed, "conversion", round_number),
        len(seeds.targets),
        learning.server_steps,
        learning.batch_size,
    )
    samples, draws = _needed(seeds, draws)
    randomness = partial(integer, task.seed, "student model", round_number)
    start = Start(weights, outputs, randomness=randomness)
    return task.stepper.train_one(distillation_loss, samples, start, draws)


def _needed(seeds: SeedSet, draws: Draws) -> tuple[Samples, Draws]:
    """All samples; or one for each draw, where these are fewer, and the draws that name them."""
    if draws.size >= len(seeds.targets):
        return Samples(seeds.inputs, seeds.targets), draws
    rows = draws.ravel()
    numbers = np.arange(len(rows), dtype=np.int32).reshape(draws.shape)
    return Samples(seeds.make(rows), seeds.targets[rows]), numbers
