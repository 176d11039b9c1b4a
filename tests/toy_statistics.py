"""Features of toy samples, and statistics of them."""

from typing import Any

import numpy as np

from mix2fld.tasks.class_statistics import measure_statistics
from mix2fld.types import Statistics


def some_features(rng: np.random.Generator, count: int = 60) -> tuple[Any, Any]:
    """Features of three labels in four dimensions, and the labels."""
    labels = rng.integers(0, 3, count).astype(np.int32)
    return rng.normal(size=(count, 4)) + 2 * np.eye(3, 4)[labels], labels


class Plain:
    """Features that are the inputs."""

    def measure(self, inputs: Any) -> Any:
        return inputs


def statistics_of(found: Any, labels: Any) -> Statistics:
    return measure_statistics(Plain(), found, labels, 3)  # type: ignore[arg-type]
