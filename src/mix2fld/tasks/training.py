"""How a device trains beside the plain steps of the paper: free of uplink bits, for any protocol.

A protocol's row recommends it (``Training``); a config whose fields say something else than auto
overrides that; ``resolve`` gives what a run uses (``LocalTraining``).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.types import Tensors

if TYPE_CHECKING:
    from mix2fld.config.settings import Config, LearningConfig

PAPER_RATE = 0.01
DeviceModel = Literal["trained", "mean", "received"]


@dataclass(frozen=True)
class Training:
    """What a row of the protocol table recommends; the defaults are the paper's plain training."""

    logit_adjustment: float = 0.0
    scarce_adjustment: float | None = None
    """tau of a device with hardly any label; the more labels it holds, the nearer to the other."""
    rate_factors: tuple[float, float] = (1.0, 1.0)
    """The learning rates of the first and the last round, in units of the paper's."""
    device_model: DeviceModel = "trained"
    device_model_of_numbers: DeviceModel | None = None
    """Where targets are numbers, if it is another."""
    replay: float = 0.0


class LocalTraining(NamedTuple):
    """How the devices of one run train."""

    learning_rate: float  # of the first round
    final_learning_rate: float  # of the last round
    logit_adjustment: float  # tau
    prior_floor: float
    device_model: DeviceModel
    replay: float = 0.0  # probability that a step draws from the seeds of all devices
    scarce_adjustment: float | None = None  # tau of a device with hardly any label; None: the same

    def adjustment(self, prior: NDArray[np.float64]) -> float:
        """The tau of a device whose samples have these labels."""
        if self.scarce_adjustment is None:
            return self.logit_adjustment
        held = float(np.mean(prior > 0))
        return self.scarce_adjustment + held * (self.logit_adjustment - self.scarce_adjustment)


def base_rate(learning: "LearningConfig") -> float:
    """The step size that a protocol's schedule multiplies, and that of the server."""
    return PAPER_RATE if learning.learning_rate == "auto" else learning.learning_rate


def resolve(config: "Config", row: Training) -> LocalTraining:
    """What a run uses: the fields of its config, and what its row recommends where they are auto.

    A learning rate that the config names is that of every round, or up to a final one of a schedule
    from it; the row's own schedule counts only where neither is named.
    """
    learning = config.learning
    if learning.same_training:
        row = Training(replay=row.replay)
    first = last = base_rate(learning)
    if learning.final_learning_rate != "auto":
        last = learning.final_learning_rate
    elif learning.learning_rate == "auto":
        first, last = (factor * first for factor in row.rate_factors)
    adjustment, model = learning.logit_adjustment, learning.device_model
    replay = config.seeding.replay
    return LocalTraining(
        learning_rate=first,
        final_learning_rate=last,
        logit_adjustment=row.logit_adjustment if adjustment == "auto" else adjustment,
        prior_floor=learning.prior_floor,
        device_model=row.device_model if model == "auto" else model,
        replay=row.replay if replay == "auto" else replay,
        scarce_adjustment=row.scarce_adjustment if adjustment == "auto" else None,
    )


def rate_in_round(training: LocalTraining, round_number: int, rounds: int) -> float:
    """The learning rate of a round: geometric from that of the first to that of the last.

    Steps after the last round have its rate.
    """
    done = (min(round_number, rounds) - 1) / max(1, rounds - 1)
    ratio = training.final_learning_rate / training.learning_rate
    return float(training.learning_rate * ratio**done)


def label_prior(labels: NDArray[np.int32], num_labels: int) -> NDArray[np.float64]:
    """The frequency of each label among a device's samples [N_L]."""
    return np.bincount(labels, minlength=num_labels) / len(labels)


def logit_offset(
    training: LocalTraining, prior: NDArray[np.float64], samples: int = 0
) -> NDArray[np.float32] | None:
    """What the local loss adds to the logits [N_L]: tau log max(prior, floor); None without tau.

    Where tau follows the labels held, one that is missing among so many ``samples`` counts as one
    of them: otherwise nothing would say that it is not there, and the server would learn it late.

    A device then learns what tells labels apart, and not how frequent they are on it (FedLC,
    Zhang et al. 2022; logit adjustment, Menon et al. 2021).
    """
    if training.logit_adjustment == 0:
        return None
    floor = training.prior_floor
    if training.scarce_adjustment is not None and samples:
        floor = max(floor, 1 / samples)
    logs = np.log(np.maximum(prior, floor))
    return np.asarray(training.adjustment(prior) * logs, np.float32)


def model_in_use(training: LocalTraining, before: Tensors, after: Tensors) -> Tensors:
    """The model that a device uses after a local phase that began with ``before``."""
    if training.device_model == "trained":
        return after
    if training.device_model == "received":
        return before
    half = np.float32(0.5)
    return tuple(half * (a + b) for a, b in zip(before, after, strict=True))
