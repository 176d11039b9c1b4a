"""Parts of a PyTorch module that are trained; LoRA as its users know it (PEFT's names)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch

from mix2fld.models.pytorch import from_torch
from mix2fld.models.torch_network import SAME_FOR_ALL, made_with
from mix2fld.models.trained import HEAD, NORMS, checked, lora_rank, matching
from mix2fld.types import Model, TorchModule

NORMALISATIONS = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.GroupNorm,
    torch.nn.LayerNorm,
)


def only_trained_torch(model: Model, recipe: TorchModule, trained: str) -> Model:
    """The model with these of its parameters."""
    make = partial(made_trained, recipe.make, trained)
    first, carries = recipe.channels_first, recipe.carries_buffers
    buffers: Literal["carry", "refuse"] = "carry" if carries else "refuse"
    return from_torch(make, model.name, channels_first=first, buffers=buffers)


def made_trained(make: Callable[[], Any], trained: str) -> Any:
    """A new module in which only these parameters are trained.

    Normalisations by batches keep the statistics that they came with, also in training. All that
    is not trained is made with one seed, so that it is the same everywhere.
    """
    module = made_with(SAME_FOR_ALL, make)
    drawn = make()
    rank = lora_rank(trained)
    chosen = chosen_parameters(module, trained)
    with torch.no_grad():
        ours, others = dict(module.named_parameters()), dict(drawn.named_parameters())
        for name, parameter in ours.items():
            parameter.requires_grad_(name in chosen)
            if name in chosen:
                parameter.copy_(others[name])
    if rank:
        _add_low_rank(module, rank, chosen, trained)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.train = _stay_frozen.__get__(part)
            part.eval()
    return module


def _stay_frozen(part: Any, mode: bool = True) -> Any:
    """In place of ``train``: a normalisation that always takes its own statistics."""
    del mode
    part.training = False
    return part


def chosen_parameters(module: Any, trained: str) -> set[str]:
    """The names of the parameters that ``head``, ``norms`` or a pattern means."""
    names = [name for name, _ in module.named_parameters()]
    if trained == NORMS:
        found = {
            f"{name}.{own}" if name else own
            for name, part in module.named_modules()
            if isinstance(part, NORMALISATIONS)
            for own, _ in part.named_parameters(recurse=False)
        }
        return checked(found, names, trained)
    if trained == HEAD or lora_rank(trained):
        return checked(_head(module), names, trained)
    return matching(names, trained)


def _head(module: Any) -> set[str]:
    """The parameters of the last linear layer, or of the last layer that has some."""
    own = [
        (
            part,
            [
                f"{name}.{each}" if name else each
                for each, _ in part.named_parameters(recurse=False)
            ],
        )
        for name, part in module.named_modules()
    ]
    layers = [(part, names) for part, names in own if names]
    linear = [names for part, names in layers if isinstance(part, torch.nn.Linear)]
    return set((linear or [names for _, names in layers] or [[]])[-1])


class LowRank(torch.nn.Module):  # type: ignore[misc]
    """A frozen linear layer and a product of two small matrices beside it."""

    def __init__(self, base: Any, rank: int) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = torch.nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = torch.nn.Linear(rank, base.out_features, bias=False)
        torch.nn.init.zeros_(self.lora_B.weight)

    def forward(self, inputs: Any) -> Any:
        """What the layer returns, moved by the product."""
        return self.base_layer(inputs) + self.lora_B(self.lora_A(inputs))


def _add_low_rank(module: Any, rank: int, head: set[str], trained: str) -> None:
    layers = {
        name: part
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.Linear) and f"{name}.weight" not in head
    }
    checked(set(layers), [name for name, _ in module.named_parameters()], trained)
    for name, part in layers.items():
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, LowRank(part, rank))


def without_adapters(module: Any) -> Any:
    """The module with plain linear layers again, the products of adapters added to their weights.

    Its ``state_dict`` has the names that the module has without adapters.
    """
    layers = {name: part for name, part in module.named_modules() if isinstance(part, LowRank)}
    for name, part in layers.items():
        with torch.no_grad():
            part.base_layer.weight += part.lora_B.weight @ part.lora_A.weight
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, part.base_layer)
    return module
