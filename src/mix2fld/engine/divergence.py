"""Divergence: found in the round where it happens, and said with the device and likely cause."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import mixing_condition
from mix2fld.base.errors import Mix2fldError
from mix2fld.types import Local, Tensors

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

LARGEST_WEIGHT = 1e6
"""No model that learns has such weights; one that diverges passes them on its way to infinity."""
FLOAT32 = np.dtype(np.float32)
CONDITION_WARNING = 10.0
"""Condition number from which unmixing is named as a likely cause."""


class DivergedError(Mix2fldError):
    """The weights of a device grew without bound in its local phase."""


class GlobalRefusedError(Mix2fldError):
    """No device that was asked can train from the global model."""


def global_refused(round_number: int, devices: int) -> GlobalRefusedError:
    """What to say when every device that was asked diverged."""
    return GlobalRefusedError(
        f"round {round_number}: all {devices} devices that were asked diverge from the global model"
    )


def without_diverged(local: Mapping[int, Local]) -> dict[int, Local]:
    """What the devices learned that did not diverge."""
    return {
        device: result
        for device, result in local.items()
        if largest((*result.weights, result.outputs)) <= LARGEST_WEIGHT
    }


def check_devices(
    config: "Config", local: Mapping[int, Local], round_number: int, rate: float
) -> None:
    """Stop if a device diverged in its local phase, which had this learning rate."""
    for device, result in local.items():
        if not exceeds((*result.weights, result.outputs)):
            continue
        causes = [_smaller_rate(rate)]
        if config.learning.distillation_weight > 1:
            causes.append(
                f"a smaller distillation_weight than {config.learning.distillation_weight:g}"
            )
        if config.learning.distillation_loss == "printed":
            causes.append("distillation_loss = printed has no lower bound: use cross-entropy")
        raise DivergedError(
            f"learning_rate = {rate:g}: the weights of device {device} diverged in round "
            f"{round_number}; {' or '.join(causes)}"
        )


def check_server(
    config: "Config", weights: Tensors | None, unmixes: bool, round_number: int, rate: float
) -> None:
    """Stop if the server's model diverged; ``unmixes`` if it learns from unmixed samples.

    ``rate`` is the learning rate of the side that trained: the server, or else the devices.
    """
    if not exceeds(weights or ()):
        return
    causes = [_smaller_rate(rate)]
    condition = mixing_condition(config.seeding.ratios)
    if unmixes and condition > CONDITION_WARNING:
        ratios = ", ".join(f"{ratio:g}" for ratio in config.seeding.mixing_ratio)
        causes.append(
            f"move mixing_ratio = {ratios} away from equal ratios: its condition number "
            f"{condition:.3g} is what unmixing can amplify a value by"
        )
    raise DivergedError(
        f"learning_rate = {rate:g}: the server's model diverged in round {round_number}; "
        f"{' or '.join(causes)}"
    )


def exceeds(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether a value is NaN or above the largest weight; mostly, the norm of all says no."""
    squares = 0.0
    for array in arrays:
        if array.dtype is not FLOAT32:
            break
        squares += float(np.vdot(array, array))
    else:
        if squares <= LARGEST_WEIGHT**2 / 2:
            return False
    return not largest(arrays) <= LARGEST_WEIGHT


def largest(arrays: Iterable[NDArray[Any]]) -> float:
    """The largest absolute value; NaN if there is one."""
    return float(np.max([np.max(np.abs(array), initial=0) for array in arrays], initial=0))


def _smaller_rate(rate: float) -> str:
    return f"use a smaller learning_rate than {rate:g}"
