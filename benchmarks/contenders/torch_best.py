"""The best PyTorch for this work: one compiled step for all devices of a process.

``torch.func`` takes the gradient of one device and ``vmap`` batches it; convolutions are matrix
products over shifted views; ``torch.compile`` fuses the rest; one process to a core.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from benchmarks.torch_work import device_samples, from_torch, measure_in_processes, to_torch
from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work

UNROLLED = 1  # steps in one compiled call


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores, one thread each."""
    return measure_in_processes(train, CORES, devices, steps)


def train(work: Work) -> list[Tensors]:
    """All devices of the share side by side."""
    devices, step = range(len(work.draws)), compiled_step()
    samples = [device_samples(work, device) for device in devices]
    images = torch.stack([pixels for pixels, _ in samples])  # [D, n, 1, 28, 28]
    labels = torch.stack([truth for _, truth in samples])  # [D, n]
    every, draws = torch.arange(len(work.draws)), torch.tensor(work.draws.T.copy()).long()
    weights = [torch.stack([tensor] * len(work.draws)) for tensor in to_torch(work.weights)]
    with torch.no_grad():
        for chosen in draws.unbind():
            weights = step(weights, images, labels, every, chosen)
    return [from_torch([tensor[device] for tensor in weights]) for device in devices]


@lru_cache
def compiled_step() -> Any:
    """A step of every device; weights [D, ...], images [D, n, 1, 28, 28], chosen [D]."""
    gradients = torch.func.vmap(torch.func.grad(loss))

    def step(
        weights: list[Tensor], images: Tensor, labels: Tensor, every: Tensor, chosen: Tensor
    ) -> list[Tensor]:
        by_weights = gradients(weights, images[every, chosen], labels[every, chosen])
        return [w - LEARNING_RATE * g for w, g in zip(weights, by_weights, strict=True)]

    return torch.compile(step, fullgraph=True, dynamic=False)


def loss(weights: list[Tensor], image: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of one device's network on one image [1, 28, 28]."""
    kernel1, bias1, kernel2, bias2, kernel3, bias3 = weights
    maps = convolution(image, kernel1, bias1).relu()
    maps = maps.reshape(12, 14, 2, 14, 2).amax((2, 4))
    maps = convolution(maps, kernel2, bias2).relu()
    return cross_entropy((kernel3 @ maps.reshape(-1) + bias3)[None], label[None])


def convolution(image: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """[C, H, W] -> [O, H, W] as a matrix product with the nine shifted images."""
    channels, height, width = image.shape
    padded = pad(image, (1, 1, 1, 1))
    shifted = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    patches = torch.stack(shifted, 1).reshape(channels * 9, height * width)
    product = kernel.reshape(len(bias), channels * 9) @ patches + bias[:, None]
    return product.reshape(-1, height, width)
