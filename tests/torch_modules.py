"""PyTorch modules that the tests train, by name on the command line too."""

from typing import Any

import torch
from torch import nn

SampleShape = tuple[int, int, int]


def perceptron(sample_shape: SampleShape, num_labels: int) -> nn.Module:
    """The package's ``mlp`` with eight hidden units, in PyTorch."""
    height, width, channels = sample_shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(height * width * channels, 8),
        nn.ReLU(),
        nn.Linear(8, num_labels),
    )


def small_cnn(sample_shape: SampleShape, num_labels: int) -> nn.Module:
    """The package's ``paper_cnn`` in PyTorch."""
    height, width, channels = sample_shape
    return nn.Sequential(
        nn.Conv2d(channels, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 6, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * (height // 2) * (width // 2), num_labels),
    )


def with_dropout(sample_shape: SampleShape, num_labels: int) -> nn.Module:
    """A module that draws random numbers in its steps."""
    module = perceptron(sample_shape, num_labels)
    module.insert(2, nn.Dropout(0.5))
    return module


def with_batch_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))


def with_statistics(sample_shape: SampleShape, num_labels: int) -> nn.Module:
    """A module that is not only its parameters."""
    module = perceptron(sample_shape, num_labels)
    module.insert(2, nn.BatchNorm1d(8))
    return module


class Broken(nn.Module):
    """Fails on its third batch, which no check sees."""

    def __init__(self, sample_shape: SampleShape, num_labels: int) -> None:
        super().__init__()
        self.inner = perceptron(sample_shape, num_labels)
        self.batches = 0

    def forward(self, inputs: torch.Tensor) -> Any:
        if self.training:
            self.batches += 1
        if self.batches > 2:
            raise ValueError("I am tired")
        return self.inner(inputs)


def not_a_module(sample_shape: SampleShape, num_labels: int) -> Any:
    return [sample_shape, num_labels]
