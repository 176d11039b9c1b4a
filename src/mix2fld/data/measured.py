"""The samples that models are measured on."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.data.partition import device_parts

if TYPE_CHECKING:
    from mix2fld.types import Dataset, Inputs

VALIDATION_SAMPLES = 10_000
"""Most samples of a validation split, unless ``test_samples`` says another number."""


def measured_samples(dataset: "Dataset", config: Config) -> "tuple[Inputs, NDArray[Any]]":
    """Samples and targets that models are measured on: test samples, or a validation split.

    The validation split is drawn from the training samples that no device of this run holds.
    """
    count = config.data.test_samples or None
    if config.data.measured_on == "test":
        return dataset.test_inputs[:count], dataset.test_values[:count]
    values = dataset.train_values
    held = np.concatenate(device_parts(dataset, config, every_label=False))
    free = np.setdiff1d(np.arange(len(values)), held)
    if not len(free):
        raise InputError(
            field="measured_on",
            value="validation",
            hint=f"the devices hold all {len(values):,} training samples; "
            "decrease devices or samples_per_device",
        )
    chosen = stream(config.seed, "validation").permutation(free)[: count or VALIDATION_SAMPLES]
    return dataset.train_inputs[chosen], values[chosen]
