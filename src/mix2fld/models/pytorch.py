"""PyTorch modules as a ``Model``; PyTorch is imported only when it is asked for."""

import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError, first_line
from mix2fld.models.adapters import library
from mix2fld.types import Model, Tensors, TorchModule


def from_torch(
    make: Callable[[], Any],
    name: str | None = None,
    *,
    channels_first: bool = True,
    buffers: Literal["refuse", "carry"] = "refuse",
) -> Model:
    """A ``torch.nn.Module``, ``make()``, that maps a float32 batch to logits [B, N_L].

    Its weights are its parameters in the order of ``named_parameters()``; frozen ones
    (``requires_grad=False``) stay as they are made and are never sent. PyTorch's layers take
    channels first, so a sample [H, W, C] is fed as [C, H, W] and a signal [T, C] as [C, T];
    ``channels_first=False`` feeds samples as they are stored. Buffers that change in training, such
    as BatchNorm's, are refused; ``buffers="carry"`` makes all floating-point buffers weights, after
    the parameters: they are sent and averaged too.
    """
    _library()
    from mix2fld.models.torch_network import TorchNetwork

    if buffers not in ("refuse", "carry"):
        raise InputError(field="buffers", value=f"{buffers!r}", hint="must be refuse or carry")
    module = _make(make, name)
    title = name or type(module).__name__
    weights = _weights(title, module, carry=buffers == "carry")
    shapes = tuple(tuple(tensor.shape) for tensor in weights.values())
    recipe = TorchModule(make, tuple(weights), shapes, channels_first, buffers == "carry")

    @cache
    def network() -> TorchNetwork:
        return TorchNetwork(recipe)

    def apply(weights: Tensors, inputs: NDArray[Any]) -> NDArray[np.float32]:
        network().load(weights)
        logits: NDArray[np.float32] = network().logits(inputs).numpy()
        return logits

    return Model(title, partial(draw_weights, recipe), apply, torch=recipe)


def is_torch_module(built: Any) -> bool:
    """Whether this is a PyTorch module; PyTorch is not imported to find out."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(built, torch.nn.Module)


def draw_weights(recipe: TorchModule, seed: int) -> Tensors:
    """The weights of a module that is made with the random numbers of ``seed``."""
    from mix2fld.models.torch_network import arrays_of, made_with, named_tensors

    named = named_tensors(made_with(seed, recipe.make))
    return arrays_of([named[name] for name in recipe.names])


def _library() -> Any:
    return library("torch", "'mix2fld[torch]'")


def _make(make: Callable[[], Any], name: str | None) -> Any:
    """A new module; raises ``InputError`` if ``make`` does not make one."""
    from mix2fld.models.torch_network import SAME_FOR_ALL, made_with

    torch = _library()
    title = name or getattr(make, "__name__", type(make).__name__)
    if isinstance(make, torch.nn.Module) or not callable(make):
        raise InputError(
            f"model {title}: from_torch takes a function that makes a new module, such as "
            f"lambda: {type(make).__name__}(), not {type(make).__name__}"
        )
    try:
        first, second = (made_with(SAME_FOR_ALL, make) for _ in range(2))
    except Mix2fldError:
        raise
    except Exception as error:
        raise InputError(f"model {title}: cannot be initialised ({first_line(error)})") from None
    if not isinstance(first, torch.nn.Module):
        kind = type(first).__name__
        raise InputError(f"model {title}: make() must return a torch.nn.Module, not {kind}")
    if first is second:
        raise InputError(
            f"model {title}: make() returns the same module each time; it must make a new one"
        )
    return first


def _weights(title: str, module: Any, carry: bool) -> dict[str, Any]:
    """The tensors of a module that are its weights, by name; checks that they can be."""
    torch = _library()
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not weights:
        raise InputError(f"model {title}: has no weights to train")
    if carry:
        carried = {name: b for name, b in module.named_buffers() if b.is_floating_point()}
        weights.update(carried)
    for name, tensor in weights.items():
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise InputError(
                f"model {title}: the shape of weight {name} is not known before the first sample; "
                "use a layer that is given its sizes in place of a lazy one"
            )
        if tensor.dtype != torch.float32:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InputError(f"model {title}: weight {name} is {kind}, not float32")
    for (one, a), (other, b) in combinations(weights.items(), 2):
        if _overlap(a, b):
            raise InputError(
                f"model {title}: weights {one} and {other} share memory; to tie them, assign the "
                "same torch.nn.Parameter to both, which is then one weight"
            )
    return weights


def _overlap(one: Any, other: Any) -> bool:
    if not one.numel() or not other.numel():
        return False
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    (a, after_a), (b, after_b) = _extent(one), _extent(other)
    return a < after_b and b < after_a


def _extent(tensor: Any) -> tuple[int, int]:
    """The first element of the storage that a tensor uses, and the one after the last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    first = tensor.storage_offset()
    return first, first + 1 + sum((size - 1) * stride for size, stride in steps)
