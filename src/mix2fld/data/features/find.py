"""The network that a setting names: known by name, an ONNX file, or a custom function."""

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.custom_code import custom_code, import_custom
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.base.folders import expand_home
from mix2fld.data.features.catalogue import NETWORKS, NamedNetwork
from mix2fld.data.features.network import Floats, Network, OnnxGraph, made_network
from mix2fld.data.features.onnx_network import Session, onnx_network
from mix2fld.data.samples import as_fed
from mix2fld.dataset import FrozenNetwork, SampleFormat

NONE = "none"
"""The setting of a run that feeds samples to its model as they are."""


def find_network(name: str, shape: tuple[int, ...], dtype: str, rate: int = 0) -> Network:
    """The network of that name for samples as they are stored, ready to be applied.

    ``rate`` is that of recordings, samples a second, if it is known.
    """
    if name in NETWORKS:
        known = NETWORKS[name]
        _check_kind(known, shape, dtype, rate)
        about = FrozenNetwork(name, known.digest, shape, dtype)
        apply, graph = _loaded(name), None
        if isinstance(apply, Session):
            graph = OnnxGraph(apply.content, scaled=apply.kind is np.float32, turned=False)
        return Network(about, known.size, apply, graph)
    if name.endswith(".onnx"):
        path = expand_home(Path(name), "features")
        return onnx_network(path, name, shape, dtype)
    if ":" in name:
        return _own_network(name, shape, dtype)
    raise InputError(
        field="features",
        value=f"{name!r}",
        hint="no such network, and neither an .onnx file nor package.module:function; "
        f"{did_you_mean(name, [*NETWORKS, NONE])}",
    )


def feature_format(name: str, shape: tuple[int, ...], dtype: str) -> SampleFormat:
    """What the vectors are, without loading a network known by name; their range is not known."""
    if name in NETWORKS:
        known = NETWORKS[name]
        _check_kind(known, shape, dtype, rate=0)
        about, size = FrozenNetwork(name, known.digest, shape, dtype), known.size
    else:
        network = find_network(name, shape, dtype)
        about, size = network.about, network.size
    return SampleFormat((size,), "float32", network=about)


@lru_cache(maxsize=4)
def _loaded(name: str) -> Any:
    return NETWORKS[name].load()


def _check_kind(known: NamedNetwork, shape: tuple[int, ...], dtype: str, rate: int) -> None:
    wanted, suits = {
        "images": ("uint8 images [H, W, 1] or [H, W, 3]", _is_image(shape, dtype)),
        "sound": (
            f"float32 recordings [T] or [T, 1] of {known.rate:,} samples a second",
            dtype == "float32" and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)),
        ),
        "text": ("text as UTF-8 bytes, uint8 [L]", dtype == "uint8" and len(shape) == 1),
    }[known.takes]
    if not suits:
        raise InputError(
            field="features",
            value=known.name,
            hint=f"takes {wanted}; samples are {dtype} {list(shape)}",
        )
    if rate and known.rate and rate != known.rate:
        raise InputError(
            field="features",
            value=known.name,
            hint=f"takes {wanted}; these have {rate:,}, so resample them",
        )


def _is_image(shape: tuple[int, ...], dtype: str) -> bool:
    return dtype == "uint8" and len(shape) == 3 and shape[2] in (1, 3)


def _own_network(name: str, shape: tuple[int, ...], dtype: str) -> Network:
    module_name, _, function_name = name.partition(":")
    with custom_code("features", name, "fails as function(sample_shape)"):
        module = import_custom(module_name, f"features = {name}")
        made = getattr(module, function_name)(shape)
    file = getattr(module, "__file__", None)
    code = Path(file).read_bytes() if file else b""
    return network_of(made, name, shape, dtype, code)


def network_of(
    made: Any, name: str, shape: tuple[int, ...], dtype: str, code: bytes = b""
) -> Network:
    """A ``torch.nn.Module``, or a function of samples [n, ...] as a model is fed them."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.nn.Module):
        for tensor in made.state_dict().values():
            code += tensor.detach().cpu().numpy().tobytes()
        return made_network(name, _digest(repr(made), code), shape, dtype, _torch(torch, made))
    if not callable(made):
        raise InputError(
            field="features",
            value=name,
            hint="must return a torch.nn.Module, or a function of samples [n, ...] that returns "
            f"vectors [n, F]; not {type(made).__name__}",
        )

    def apply(samples: NDArray[Any]) -> Floats:
        found: Floats = made(as_fed(samples))
        return found

    return made_network(name, _digest(name, code), shape, dtype, apply)


def _torch(torch: Any, module: Any) -> Any:
    """A module when testing; it is fed images and signals channels first, as PyTorch's layers."""
    module.eval()

    def apply(samples: NDArray[Any]) -> Floats:
        fed = as_fed(samples)
        turned = np.ascontiguousarray(np.moveaxis(fed, -1, 1)) if fed.ndim > 2 else fed
        with torch.inference_mode():
            found = module(torch.from_numpy(turned))
        vectors: Floats = found.reshape(len(found), -1).cpu().numpy()
        return vectors

    return apply


def _digest(name: str, code: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\0" + code).hexdigest()
