"""The file of models that devices have after their last steps."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.types import Tensors

Tuned = Mapping[int, Tensors]
"""The model of each device after its last steps; empty without any."""


def write_finetuned(path: Path, tuned: Tuned) -> None:
    """A file of all models, array by array."""
    arrays = {
        f"{device}.{place}": np.ascontiguousarray(array)
        for device, weights in tuned.items()
        for place, array in enumerate(weights)
    }
    write_atomic(path, save(arrays))


def read_finetuned(path: Path, device: int, arrays: int) -> Tensors:
    """The model of one device in such a file."""
    try:
        with safe_open(path, framework="numpy") as file:
            return tuple(file.get_tensor(f"{device}.{place}") for place in range(arrays))
    except Exception as error:  # of damaged bytes
        raise InputError(field="run", value=path, hint=f"is damaged ({error})") from None
