"""A PyTorch module in this process, with its weights as plain arrays in a fixed order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mix2fld.data.samples import as_fed
from mix2fld.types import Tensors, TorchModule

SAME_FOR_ALL = 0
"""Seeds what a module draws when it is made and that is no weight, such as a frozen layer."""


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Within the block PyTorch's random numbers are those of ``seed``; outside of it as before."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def made_with(seed: int, make: Callable[[], Any]) -> Any:
    """What ``make`` makes with the random numbers of ``seed``."""
    with drawing_from(seed):
        return make()


def named_tensors(module: Any) -> dict[str, Any]:
    """Every parameter and buffer by its name; one that is used twice has its first name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def arrays_of(tensors: list[Any]) -> Tensors:
    """Copies of tensors as NumPy arrays."""
    return tuple(np.array(tensor.detach().cpu().numpy()) for tensor in tensors)


class TorchNetwork:
    """One module, whose weights are replaced again and again."""

    def __init__(self, recipe: TorchModule, device: str = "cpu") -> None:
        self.module = made_with(SAME_FOR_ALL, recipe.make).to(device)
        self.device = device
        named = named_tensors(self.module)
        self._weights = [named[name] for name in recipe.names]
        self.parameters = [tensor for tensor in self._weights if tensor.requires_grad]
        self._channels_first = recipe.channels_first
        self._buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]

    def load(self, weights: Tensors) -> None:
        """Take these weights; all else is again as it was made."""
        with torch.no_grad():
            for buffer, as_made in self._buffers:
                buffer.copy_(as_made)
            for tensor, value in zip(self._weights, weights, strict=True):
                tensor.copy_(torch.tensor(value))

    def trained_of(self, tensors: Tensors | None) -> list[Any] | None:
        """Of arrays in the order of the weights, those of the parameters."""
        if tensors is None:
            return None
        pairs = zip(self._weights, tensors, strict=True)
        return [torch.tensor(own, device=self.device) for w, own in pairs if w.requires_grad]

    def weights(self) -> Tensors:
        """A copy of the weights."""
        return arrays_of(self._weights)

    def feed(self, fed: NDArray[Any], batch_axes: int = 1) -> Any:
        """What ``as_fed`` made of samples, behind some axes of batches, as the module takes it."""
        tensor = torch.from_numpy(fed).to(self.device)
        if self._channels_first and fed.ndim - batch_axes > 1:
            tensor = tensor.movedim(-1, batch_axes).contiguous()
        return tensor

    def logits(self, inputs: NDArray[Any]) -> Any:
        """The outputs of a batch of samples [B, ...] when testing."""
        self.module.eval()
        with torch.inference_mode():
            return self.module(self.feed(as_fed(inputs)))
