"""The best PyTorch that we could write for this work.

``torch.func`` takes the gradient of one device and ``vmap`` batches it over the devices of a
process; convolutions are matrix products, the first over patches unfolded once and for all with
the four pixels of each pooling window in four blocks; ``torch.compile`` makes one call of eight
steps; one process to a core. Each of these made it faster.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad, unfold

from benchmarks.processes import measure_in_processes
from benchmarks.torch_work import device_samples, from_torch, to_torch
from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work

UNROLLED = 8  # steps in one compiled call; all numbers of steps are multiples of it


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores."""
    return measure_in_processes(prepare, CORES, devices, steps, warm_up_steps=5 * UNROLLED)


def prepare(work: Work) -> Callable[[], list[Tensors]]:
    """All devices of the share side by side, on one thread."""
    torch.set_num_threads(1)
    devices, compiled = range(len(work.draws)), compiled_steps()
    samples = [device_samples(work, device) for device in devices]
    patches = torch.stack([window_patches(images) for images, _ in samples])
    labels = torch.stack([truth for _, truth in samples])
    every, draws = torch.arange(len(devices)), torch.tensor(work.draws.T.copy()).long()

    def train() -> list[Tensors]:
        weights = [torch.stack([tensor] * len(devices)) for tensor in to_torch(work.weights)]
        with torch.no_grad():
            for chosen in draws.split(UNROLLED):
                weights = compiled(weights, patches, labels, every, chosen)
        return [from_torch([tensor[device] for tensor in weights]) for device in devices]

    return train


@lru_cache
def compiled_steps() -> Any:
    """Steps of all devices: weights [D, ...], patches [D, n, 9, 784], chosen [UNROLLED, D]."""
    gradients = torch.func.vmap(torch.func.grad(loss))

    def steps(
        weights: list[Tensor], patches: Tensor, labels: Tensor, every: Tensor, chosen: Tensor
    ) -> list[Tensor]:
        for rows in chosen.unbind():
            by_weights = gradients(weights, patches[every, rows], labels[every, rows])
            weights = [w - LEARNING_RATE * g for w, g in zip(weights, by_weights, strict=True)]
        return weights

    return torch.compile(steps, fullgraph=True, dynamic=False)


def loss(weights: list[Tensor], patches: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of one device's network on one image, given as patches [9, 4 * 196]."""
    kernel1, bias1, kernel2, bias2, kernel3, bias3 = weights
    scores = (kernel1.reshape(12, 9) @ patches).reshape(12, 4, 196)
    best = first_max(first_max(scores[:, 0], scores[:, 1]), first_max(scores[:, 2], scores[:, 3]))
    maps = (best + bias1[:, None]).relu().reshape(12, 14, 14)
    maps = (kernel2.reshape(6, 108) @ shifted(maps) + bias2[:, None]).relu()
    return cross_entropy((kernel3 @ maps.reshape(-1) + bias3)[None], label[None])


def first_max(first: Tensor, second: Tensor) -> Tensor:
    """The larger one; of equal ones the first gets the gradient, as in a max-pool."""
    return torch.where(first >= second, first, second)


def shifted(maps: Tensor) -> Tensor:
    """Every pixel's 3 x 3 patch: [C, H, W] -> [9 C, H W]."""
    channels, height, width = maps.shape
    padded = pad(maps, (1, 1, 1, 1))
    views = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return torch.stack(views, 1).reshape(9 * channels, height * width)


def window_patches(images: Tensor) -> Tensor:
    """[n, 1, 28, 28] -> [n, 9, 4 * 196], the pixels of a pooling window 196 apart."""
    patches = unfold(images, 3, padding=1).reshape(-1, 9, 14, 2, 14, 2)
    return patches.permute(0, 1, 3, 5, 2, 4).reshape(-1, 9, 784).contiguous()
