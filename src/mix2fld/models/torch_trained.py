"""Parts of a PyTorch module that are trained; LoRA as its users know it (PEFT's names)."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic, writing
from mix2fld.models.pytorch import from_torch
from mix2fld.models.torch_network import SAME_FOR_ALL, made_with
from mix2fld.models.trained import HEAD, NORMS, checked, lora_rank, matching
from mix2fld.types import Model, TorchModule

NORMALISATIONS = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.GroupNorm,
    torch.nn.LayerNorm,
)
PEFT_PREFIX = "base_model.model."


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


def save_adapters(weights: dict[str, NDArray[np.float32]], folder: Path | str) -> None:
    """Write the adapters of a run with ``trained = lora:...`` as PEFT reads them.

    ``weights`` are those by name, such as ``result.weights``. The scale of the product is 1:
    ``lora_alpha`` is the rank.
    """
    pairs = sorted(name.removesuffix(".lora_A.weight") for name in weights if ".lora_A." in name)
    if not pairs:
        raise InputError(field="weights", hint="hold no adapters; train with trained = lora:RANK")
    rank = len(weights[f"{pairs[0]}.lora_A.weight"])
    rest = sorted({n.rpartition(".")[0] for n in weights if ".lora_" not in n})
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": pairs,
        "modules_to_save": rest,
        "task_type": None,
        "inference_mode": True,
    }
    named = {PEFT_PREFIX + name: np.ascontiguousarray(value) for name, value in weights.items()}
    folder = Path(folder)
    with writing("out", folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "adapter_model.safetensors", save(named))
        write_atomic(folder / "adapter_config.json", json.dumps(config, indent=2).encode())


def merged(weights: dict[str, NDArray[np.float32]], base: dict[str, Any]) -> dict[str, Any]:
    """A ``state_dict`` of the module without adapters: products added, other weights replaced."""
    found = dict(base)
    for name, value in weights.items():
        if name.endswith(".lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            moved = weights[f"{layer}.lora_B.weight"] @ value
            found[f"{layer}.weight"] = found[f"{layer}.weight"] + torch.from_numpy(moved)
        elif not name.endswith(".lora_B.weight"):
            found[name] = torch.from_numpy(np.array(value))
    return found
