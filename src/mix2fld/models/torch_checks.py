"""What a PyTorch module must satisfy, found out with a batch or two of noise."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mix2fld.errors import InputError
from mix2fld.models.adapters import NO_STATE
from mix2fld.models.model_checks import check_logit_shape, first_line
from mix2fld.models.torch_network import SAME_FOR_ALL, TorchNetwork, drawing_from
from mix2fld.types import TorchModule


def check_torch(
    title: str, recipe: TorchModule, sample_shape: tuple[int, ...], num_labels: int
) -> None:
    """Raise ``InputError`` unless logits are [B, N_L] floats and every weight has a gradient."""
    with drawing_from(SAME_FOR_ALL):
        trial = _Trial(title, TorchNetwork(recipe), sample_shape, num_labels)
        for size in (1, 2):
            trial.test(size)
        trial.step(2)
    trial.check_gradients(recipe.names)
    if not recipe.carries_buffers:
        trial.check_buffers()


class _Trial:
    """A module on noise; every failure of the user's code is an ``InputError``."""

    def __init__(
        self, title: str, network: TorchNetwork, sample_shape: tuple[int, ...], num_labels: int
    ) -> None:
        self._title, self._network = title, network
        self._sample_shape, self._num_labels = sample_shape, num_labels
        self._reached = [False] * len(network.parameters)
        self._buffers = {name: b.clone() for name, b in network.module.named_buffers()}

    def test(self, size: int) -> None:
        """Twice the same batch when testing: twice the same logits, of the right shape."""
        self._network.module.eval()
        inputs = self._noise(size)
        first, second = self._logits(inputs), self._logits(inputs)
        self._reach(first)
        if not torch.equal(first.nan_to_num(), second.nan_to_num()):
            raise InputError(
                f"model {self._title}: gives different outputs for the same samples in eval mode; "
                "it must keep nothing from one batch to the next, and draw nothing when testing"
            )

    def step(self, size: int) -> None:
        """The same way as in a training step."""
        self._network.module.train()
        self._reach(self._logits(self._noise(size)))

    def check_gradients(self, names: tuple[str, ...]) -> None:
        """Raise ``InputError`` for a parameter that no output depends on."""
        for name, reached in zip(names, self._reached, strict=False):
            if not reached:
                raise InputError(
                    f"model {self._title}: parameter {name} never gets a gradient; use it in "
                    "forward, remove it, or freeze it (requires_grad = False), so that it is not "
                    "sent"
                )

    def check_buffers(self) -> None:
        """Raise ``InputError`` for state beside the weights; a constant is none."""
        for name, buffer in self._network.module.named_buffers():
            if not torch.equal(buffer, self._buffers[name]):
                raise InputError(
                    f"model {self._title}: buffer {name} changes in training; {NO_STATE}; or send "
                    'and average it with the weights: from_torch(..., buffers="carry")'
                )

    def _noise(self, size: int) -> NDArray[np.float32]:
        rng = np.random.default_rng(SAME_FOR_ALL)
        return rng.random((size, *self._sample_shape), np.float32)

    def _logits(self, inputs: NDArray[np.float32]) -> Any:
        network = self._network
        try:
            logits = network.module(network.feed(np.array(inputs)))
        except Exception as error:
            mode = "training" if network.module.training else "eval"
            raise InputError(
                f"model {self._title}: fails in {mode} mode on a batch of shape "
                f"{list(network.feed(inputs).shape)} ({first_line(error)})"
            ) from None
        if not isinstance(logits, torch.Tensor) or logits.dtype != torch.float32:
            kind = logits.dtype if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise InputError(
                f"model {self._title}: must return one tensor of float32 logits, not {kind}"
            )
        check_logit_shape(self._title, tuple(logits.shape), len(inputs), self._num_labels)
        return logits

    def _reach(self, logits: Any) -> None:
        if not logits.requires_grad:
            return
        gradients = torch.autograd.grad(
            logits.sum(), self._network.parameters, allow_unused=True, materialize_grads=False
        )
        found = zip(self._reached, gradients, strict=True)
        self._reached = [before or gradient is not None for before, gradient in found]
