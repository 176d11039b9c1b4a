"""What the PyTorch contenders share: the paper's network, its data as tensors, a plain loop."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.work import LEARNING_RATE, Tensors, Work


def paper_network() -> nn.Sequential:
    """Convolution to 12 channels, ReLU, max-pool 2, convolution to 6, ReLU, linear."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 6, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * 14 * 14, 10),
    )


def to_torch(tensors: Tensors) -> list[Tensor]:
    """From payload order to the order of ``network.parameters()``: kernels [O, C, 3, 3] first."""
    kernels = [tensors[1].transpose(3, 2, 0, 1), tensors[3].transpose(3, 2, 0, 1), tensors[5]]
    biases = [tensors[0], tensors[2], tensors[4]]
    pairs = zip(kernels, biases, strict=True)
    return [torch.tensor(np.ascontiguousarray(array)) for pair in pairs for array in pair]


def from_torch(parameters: list[Any]) -> Tensors:
    """The way back."""
    arrays = [torch.as_tensor(tensor).detach().numpy().copy() for tensor in parameters]
    kernels = [arrays[0].transpose(2, 3, 1, 0), arrays[2].transpose(2, 3, 1, 0), arrays[4]]
    pairs = zip(arrays[1::2], kernels, strict=True)
    return [array for pair in pairs for array in pair]


def set_weights(network: nn.Module, tensors: Tensors) -> None:
    """Start a network from given weights."""
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), to_torch(tensors), strict=True):
            parameter.copy_(value)


def device_samples(work: Work, device: int) -> tuple[Tensor, Tensor]:
    """Images [n, 1, 28, 28] in [0, 1] and labels [n] of one device."""
    images = torch.tensor(work.images[device]).permute(0, 3, 1, 2).float() / 255
    return images.contiguous(), torch.tensor(work.labels[device]).long()


def plain_steps(network: nn.Module, images: Tensor, labels: Tensor, draws: list[int]) -> None:
    """The training loop that a PyTorch user writes, one sample a step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    for row in draws:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(images[row : row + 1]), labels[row : row + 1])
        loss.backward()
        optimizer.step()
