"""Models: two plain functions each, by name or custom; or a PyTorch module.

What needs JAX is imported on first use: the processes that train PyTorch modules do without.
"""

from typing import TYPE_CHECKING

from mix2fld.base.lazy import names_of

if TYPE_CHECKING:
    from mix2fld.models.adapters import from_equinox, from_flax, from_nnx
    from mix2fld.models.builders import MODELS, Builder, make_model
    from mix2fld.models.model_checks import check_model, weight_names, weight_shapes
    from mix2fld.models.networks import cifar_cnn, mlp, paper_cnn, signal_cnn
    from mix2fld.models.pytorch import from_torch

__all__ = [
    "MODELS",
    "Builder",
    "check_model",
    "cifar_cnn",
    "from_equinox",
    "from_flax",
    "from_nnx",
    "from_torch",
    "make_model",
    "mlp",
    "paper_cnn",
    "signal_cnn",
    "weight_names",
    "weight_shapes",
]

_HOMES = {
    "MODELS": "builders",
    "Builder": "builders",
    "make_model": "builders",
    "check_model": "model_checks",
    "weight_names": "model_checks",
    "weight_shapes": "model_checks",
    "cifar_cnn": "networks",
    "mlp": "networks",
    "paper_cnn": "networks",
    "signal_cnn": "networks",
    "from_equinox": "adapters",
    "from_flax": "adapters",
    "from_nnx": "adapters",
    "from_torch": "pytorch",
}
__getattr__ = names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
