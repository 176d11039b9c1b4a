"""Divergence: found in the round where it happens, and said with the device and likely cause."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config, mixing_condition
from mix2fld.errors import InputError
from mix2fld.types import Weights

LARGEST_WEIGHT = 1e6
"""No model that learns has such weights; one that diverges passes them on its way to infinity."""
NEAR_CHANCE = 1.25
"""Accuracy up to this many times that of guessing is no better than guessing."""
LARGEST_COUNT = 1 << 24
"""Up to here float32 counts by ones."""
WORTH_A_WORD = 10.0
"""Condition number from which unmixing is named as a likely cause."""


def check_devices(
    config: Config,
    devices: Sequence[int],
    weights: Weights,
    outputs: NDArray[np.float32],
    round_number: int,
) -> None:
    """Stop if a device diverged; ``weights`` [d, ...] and ``outputs`` [d, N_L, N_L] of devices."""
    largest = np.max([_largest(leaf) for leaf in [*jax.tree.leaves(weights), outputs]], axis=0)
    wrong = ~(largest <= LARGEST_WEIGHT)  # so that NaN counts as wrong
    if wrong.any():
        row = int(np.argmax(wrong))
        causes = [_smaller_rate(config)]
        if config.learning.distillation_weight > 1:
            causes.append(
                f"a smaller distillation_weight than {config.learning.distillation_weight:g}"
            )
        if config.learning.distillation_loss == "printed":
            causes.append("distillation_loss = printed has no lower bound: use cross-entropy")
        raise InputError(
            f"learning_rate = {config.learning.learning_rate:g}: the weights of device "
            f"{devices[row]} diverged in round {round_number}; {' or '.join(causes)}"
        )


def check_server(config: Config, weights: Weights | None, unmixes: bool, round_number: int) -> None:
    """Stop if the server's model diverged; ``unmixes`` if it learns from unmixed samples."""
    leaves = jax.tree.leaves(weights)
    largest = max((float(_largest(leaf[None])[0]) for leaf in leaves), default=0.0)
    if largest <= LARGEST_WEIGHT:
        return
    causes = [_smaller_rate(config)]
    condition = mixing_condition(config.seeding.ratios)
    if unmixes and condition > WORTH_A_WORD:
        ratios = ", ".join(f"{ratio:g}" for ratio in config.seeding.mixing_ratio)
        causes.append(
            f"move mixing_ratio = {ratios} away from equal ratios: its condition number "
            f"{condition:.3g} is what unmixing can amplify a pixel by"
        )
    raise InputError(
        f"learning_rate = {config.learning.learning_rate:g}: the server's model diverged in "
        f"round {round_number}; {' or '.join(causes)}"
    )


def warn_if_chance_level(config: Config, num_labels: int, accuracy: float) -> str | None:
    """What to tell of a run whose devices learned nothing, though all numbers are finite."""
    if accuracy > NEAR_CHANCE / num_labels:
        return None
    learning = config.learning
    return (
        f"{config.run_name}: with an accuracy of {100 * accuracy:.1f} % its devices are no better "
        f"than guessing one of {num_labels} labels; learning_rate = {learning.learning_rate:g} may "
        f"be too large or too small, or local_steps = {learning.local_steps} too few"
    )


def check_countable(config: Config) -> None:
    """Refuse a local phase that is too long to count its labels exactly."""
    learning = config.learning
    drawn = learning.local_steps * learning.batch_size
    if drawn > LARGEST_COUNT:
        raise InputError(
            f"local_steps = {learning.local_steps}: {drawn:,} samples in a round, with batch_size "
            f"= {learning.batch_size}, are more than the {LARGEST_COUNT:,} that are counted exactly"
        )


def _largest(stacked: Any) -> NDArray[np.float32]:
    """The largest absolute value of each row [d]; NaN if there is one."""
    rows = np.asarray(stacked).reshape(len(stacked), -1)
    return np.max(np.abs(rows), axis=1, initial=0)


def _smaller_rate(config: Config) -> str:
    return f"use a smaller learning_rate than {config.learning.learning_rate:g}"
