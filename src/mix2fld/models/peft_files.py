"""Adapters as files that the package ``peft`` reads. Neither it nor PyTorch is needed."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic, writing

PREFIX = "base_model.model."


def save_adapters(weights: Mapping[str, NDArray[np.float32]], folder: Path | str) -> None:
    """Write the adapters among weights by name, as PEFT reads them.

    The scale of the product is 1: ``lora_alpha`` is the rank.
    """
    pairs = sorted(name.removesuffix(".lora_A.weight") for name in weights if ".lora_A." in name)
    if not pairs:
        raise InputError(
            field="trained", hint="holds no adapters of a PyTorch module; must be lora:RANK"
        )
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
    named = {PREFIX + name: np.ascontiguousarray(value) for name, value in weights.items()}
    folder = Path(folder)
    with writing("out", folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "adapter_model.safetensors", save(named))
        write_atomic(folder / "adapter_config.json", json.dumps(config, indent=2).encode())
