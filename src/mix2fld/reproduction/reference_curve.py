"""The learning curve of the reference device, as recorded in a run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def reference_curve(run: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simulated seconds and accuracy in %; the accuracy holds until a download changes it."""
    curve = run["curve"]
    seconds: list[float] = []
    accuracies: list[float] = []
    for event, accuracy, *clock in zip(
        curve["event"], curve["accuracy"], curve["communication"], curve["computing"], strict=True
    ):
        if event == "download":
            seconds.append(sum(clock))
            accuracies.append(accuracies[-1])
        seconds.append(sum(clock))
        accuracies.append(100 * accuracy)
    return np.array(seconds), np.array(accuracies)
