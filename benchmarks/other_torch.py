"""The networks of ``other_models`` as a user of PyTorch writes them.

Layers have the names of the JAX versions, by which weights are taken over.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.other_models import LABELS, Tensors, jax_model

FLATTENED = {("usual", "Dense_0"): (7, 7, 64)}
"""Linear layers whose inputs JAX counts by row, column and channel; PyTorch by channel first."""


def paper() -> nn.Module:
    """Convolution to 12 channels, ReLU, max-pool 2, convolution to 6, ReLU, linear."""
    return _sequence(
        conv1=nn.Conv2d(1, 12, 3, padding=1), relu1=nn.ReLU(), pool=nn.MaxPool2d(2),
        conv2=nn.Conv2d(12, 6, 3, padding=1), relu2=nn.ReLU(), flatten=nn.Flatten(),
        linear=nn.Linear(1176, LABELS),
    )  # fmt: skip


def cifar() -> nn.Module:
    """Three convolutions to 32, 48 and 64 channels, the first two pooled, and a linear layer."""
    return _sequence(
        conv1=nn.Conv2d(3, 32, 3, padding=1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 48, 3, padding=1), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        conv3=nn.Conv2d(48, 64, 3, padding=1), relu3=nn.ReLU(), flatten=nn.Flatten(),
        linear=nn.Linear(4096, LABELS),
    )  # fmt: skip


def mlp() -> nn.Module:
    """200 hidden units."""
    return _sequence(
        flatten=nn.Flatten(), linear1=nn.Linear(784, 200), relu=nn.ReLU(),
        linear2=nn.Linear(200, LABELS),
    )  # fmt: skip


def usual() -> nn.Module:
    """Two 5 x 5 convolutions, each with a 2 x 2 max-pool, and 512 hidden units."""
    return _sequence(
        Conv_0=nn.Conv2d(1, 32, 5, padding=2), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        Conv_1=nn.Conv2d(32, 64, 5, padding=2), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(), Dense_0=nn.Linear(3136, 512), relu3=nn.ReLU(),
        Dense_1=nn.Linear(512, LABELS),
    )  # fmt: skip


class Block(nn.Module):
    """Two convolutions with group normalisation, and what goes past them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.Conv_0 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.GroupNorm_0 = nn.GroupNorm(8, width, eps=1e-6)
        self.Conv_1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.GroupNorm_1 = nn.GroupNorm(8, width, eps=1e-6)
        past = nn.Conv2d(channels, width, 1, stride, bias=False)
        self.Conv_2 = past if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, width, H / stride, W / stride]."""
        y = torch.relu(self.GroupNorm_0(self.Conv_0(x)))
        return torch.relu(self.Conv_2(x) + self.GroupNorm_1(self.Conv_1(y)))


def resnet() -> nn.Module:
    """ResNet-8 with group normalisation."""
    return _sequence(
        Conv_0=nn.Conv2d(3, 16, 3, padding=1, bias=False),
        GroupNorm_0=nn.GroupNorm(8, 16, eps=1e-6), relu=nn.ReLU(),
        Block_0=Block(16, 16, 1), Block_1=Block(16, 32, 2), Block_2=Block(32, 64, 2),
        mean=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), Dense_0=nn.Linear(64, LABELS),
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "paper": paper,
    "cifar": cifar,
    "mlp": mlp,
    "usual": usual,
    "resnet": resnet,
}


def _sequence(**layers: nn.Module) -> nn.Module:
    return nn.Sequential(OrderedDict(layers))


def load(name: str, network: nn.Module, tensors: Tensors) -> None:
    """Start a network from weights in payload order."""
    places = dict(zip(weight_names(name), tensors, strict=True))
    with torch.no_grad():
        for place, parameter in network.named_parameters():
            parameter.copy_(torch.tensor(np.ascontiguousarray(_to_torch(name, place, places))))


def dump(name: str, network: nn.Module) -> Tensors:
    """A network's weights in payload order."""
    parameters = {place: p.detach().numpy() for place, p in network.named_parameters()}
    return tuple(_from_torch(name, place, parameters[place]) for place in weight_names(name))


def weight_names(name: str) -> list[str]:
    """What PyTorch calls the weights, in payload order."""
    import jax

    shapes = jax.eval_shape(jax_model(name).init, jax.random.key(0))
    called = {"kernel": "weight", "scale": "weight", "bias": "bias"}
    paths = [
        [str(part.key) for part in path]
        for path, _ in jax.tree_util.tree_leaves_with_path(shapes)
    ]  # fmt: skip
    return [".".join([*path[:-1], called[path[-1]]]) for path in paths]


def _to_torch(name: str, place: str, places: dict[str, Any]) -> Any:
    tensor = places[place]
    layer = place.rpartition(".")[0]
    if tensor.ndim == 4:
        return tensor.transpose(3, 2, 0, 1)
    if tensor.ndim == 2 and layer.startswith("Dense"):
        rows = FLATTENED.get((name, layer))
        if rows is not None:
            tensor = tensor.reshape(*rows, -1).transpose(2, 0, 1, 3).reshape(tensor.shape)
        return tensor.T
    return tensor


def _from_torch(name: str, place: str, tensor: Any) -> Any:
    layer = place.rpartition(".")[0]
    if tensor.ndim == 4:
        return tensor.transpose(2, 3, 1, 0).copy()
    if tensor.ndim == 2 and layer.startswith("Dense"):
        rows = FLATTENED.get((name, layer))
        if rows is not None:
            height, width, channels = rows
            apart = tensor.T.reshape(channels, height, width, -1)
            return apart.transpose(1, 2, 0, 3).reshape(tensor.T.shape).copy()
        return tensor.T.copy()
    return tensor.copy()
