"""Models that the tests name on the command line, and how to compile what runs once."""

import jax.numpy as jnp

from mix2fld.models.networks import mlp
from mix2fld.types import Model

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""How to compile what runs once: the same operations, in two thirds of the time."""


def wrong_outputs(sample_shape: tuple[int, int, int], num_labels: int) -> Model:
    """Seven outputs, whatever the dataset has."""
    size = sample_shape[0] * sample_shape[1] * sample_shape[2]
    return Model(
        "wrong",
        lambda key: {"kernel": jnp.zeros((size, 7))},
        lambda weights, images: images.reshape(len(images), -1) @ weights["kernel"],
    )


def regression(sample_shape: tuple[int, int, int], num_labels: int) -> Model:
    """Multinomial regression: few weights, so that a run's files are small."""
    return mlp(sample_shape, num_labels, hidden=())
