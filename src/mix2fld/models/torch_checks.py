"""What a PyTorch module must satisfy, found out with a few batches of noise."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, first_line
from mix2fld.data.samples import as_fed
from mix2fld.models.model_checks import NO_STATE, check_output_shape
from mix2fld.models.torch_network import SAME_FOR_ALL, TorchNetwork, drawing_from
from mix2fld.types import TorchModule


class ModuleTrial(NamedTuple):
    """What a module is tried with."""

    sample_shape: tuple[int, ...]
    outputs: int
    dtype: str
    batch_size: int
    wanted: str = ""

    def noise(self, size: int) -> NDArray[Any]:
        """A batch as a model is fed it; of token ids only the first is known to be one."""
        shape = (size, *self.sample_shape)
        if self.dtype == "int32":
            return np.zeros(shape, np.int32)
        return np.random.default_rng(SAME_FOR_ALL).random(shape, np.float32)


def check_torch(title: str, recipe: TorchModule, trial: ModuleTrial) -> None:
    """Raise ``InputError`` unless logits are [B, N_L] floats and every weight has a gradient.

    The module is tested and trained; its outputs, gradients and buffers are looked at, not their
    values.
    """
    with drawing_from(SAME_FOR_ALL):
        network = TorchNetwork(recipe)
        before = {name: buffer.clone() for name, buffer in network.module.named_buffers()}
        network.module.eval()
        outputs = [_tested(title, network, trial, size) for size in (1, 2)]
        network.module.train()
        outputs.append(_logits(title, network, trial, 2))
        if not recipe.carries_buffers:
            _check_buffers(title, network, before)
        if trial.batch_size == 1:  # which BatchNorm does not take
            outputs.append(_logits(title, network, trial, 1))
    _check_gradients(title, recipe, network, outputs)


def _tested(title: str, network: TorchNetwork, trial: ModuleTrial, size: int) -> Any:
    """The logits of a batch when testing: twice the same."""
    first, second = (_logits(title, network, trial, size) for _ in range(2))
    if not torch.equal(first.nan_to_num(), second.nan_to_num()):
        raise InputError(
            f"model {title}: returns different outputs for the same samples in eval mode; it must "
            "keep nothing from one batch to the next, and draw nothing when testing"
        )
    return first


def _logits(title: str, network: TorchNetwork, trial: ModuleTrial, size: int) -> Any:
    batch = network.feed(as_fed(trial.noise(size)))
    try:
        logits = network.module(batch)
    except Exception as error:
        mode = "training" if network.module.training else "eval"
        raise InputError(
            f"model {title}: fails in {mode} mode on a {str(batch.dtype).removeprefix('torch.')} "
            f"batch of shape {list(batch.shape)} ({first_line(error)})"
        ) from None
    if not isinstance(logits, torch.Tensor) or logits.dtype != torch.float32:
        kind = logits.dtype if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"model {title}: must return one tensor of float32 logits, not {kind}")
    check_output_shape(title, tuple(logits.shape), (size, trial.outputs), trial.wanted)
    return logits


def _check_gradients(
    title: str, recipe: TorchModule, network: TorchNetwork, outputs: list[Any]
) -> None:
    """Raise ``InputError`` for a parameter that no output depends on."""
    reached = [False] * len(network.parameters)
    for logits in outputs:
        if logits.requires_grad:
            found = torch.autograd.grad(logits.sum(), network.parameters, allow_unused=True)
            reached = [a or b is not None for a, b in zip(reached, found, strict=True)]
    for name, has_gradient in zip(recipe.names, reached, strict=False):
        if not has_gradient:
            raise InputError(
                f"model {title}: parameter {name} never gets a gradient; use it in forward, remove "
                "it, or freeze it (requires_grad = False), so that it is not sent"
            )


def _check_buffers(title: str, network: TorchNetwork, before: dict[str, Any]) -> None:
    """Raise ``InputError`` for state beside the weights; a constant is none."""
    for name, buffer in network.module.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise InputError(
                f"model {title}: buffer {name} changes in training; {NO_STATE}; or send and "
                'average it with the weights: from_torch(..., buffers="carry")'
            )
