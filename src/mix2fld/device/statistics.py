"""The statistics that a device uploads once, and the model that it could make of its own."""

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.class_statistics import closed_form_network, measure_statistics
from mix2fld.learning.features import fixed_features
from mix2fld.learning.task import Sizes, Task
from mix2fld.types import Inputs, Statistics, Tensors


def own_statistics(
    rng: np.random.Generator, inputs: Inputs, labels: NDArray[np.int32], sizes: Sizes
) -> Statistics:
    """Counts, sums and scatter of fixed features of all samples of a device."""
    del rng
    if not isinstance(sizes, Task):
        raise TypeError("statistics need the model of a run, not its sizes alone")
    return measure_statistics(fixed_features(sizes), inputs, labels, sizes.dims.num_labels)


def own_closed_form(inputs: Inputs, labels: NDArray[np.int32], task: Task) -> Tensors:
    """Fixed features with the head that follows from the device's own statistics."""
    features = fixed_features(task)
    own = measure_statistics(features, inputs, labels, task.dims.num_labels)
    return closed_form_network(features, [own])
