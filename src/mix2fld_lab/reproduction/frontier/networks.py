"""Larger networks than the built-in ones, to see what the number of weights changes."""

from mix2fld.models.networks import SampleShape, mlp
from mix2fld.types import Model


def wide_mlp(sample_shape: SampleShape, num_labels: int) -> Model:
    """One hidden layer of 512; 407,050 weights for MNIST."""
    return mlp(sample_shape, num_labels, hidden=(512,))


def large_mlp(sample_shape: SampleShape, num_labels: int) -> Model:
    """Hidden layers of 1,024 and 800; 1,631,850 weights for MNIST."""
    return mlp(sample_shape, num_labels, hidden=(1024, 800))
