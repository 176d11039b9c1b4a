"""A network in an ONNX file, computed by onnxruntime with one thread for each sample."""

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.features.network import Floats, Network, OnnxGraph, made_network
from mix2fld.data.place_errors import one_line
from mix2fld.data.samples import as_fed

_KINDS = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}


class Session:
    """The computation of one ONNX file with a single input; safe for threads."""

    def __init__(self, content: bytes, name: str) -> None:
        runtime = _runtime(name)
        self.content = content
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = runtime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise InputError(
                field="features", value=name, hint=f"is no ONNX file to run ({one_line(error)})"
            ) from None
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _KINDS:
            found = ", ".join(f"{each.name} {each.type}" for each in inputs)
            raise InputError(
                field="features",
                value=name,
                hint=f"takes {found}; must take one input of float, uint8 or int32",
            )
        self._input = inputs[0].name
        self.kind = _KINDS[inputs[0].type]
        self.shape: list[int | str | None] = inputs[0].shape

    def __call__(self, batch: NDArray[Any]) -> Floats:
        """The first output for one batch."""
        found: Floats = self._session.run(None, {self._input: np.ascontiguousarray(batch)})[0]
        return found


def onnx_network(path: Path, name: str, shape: tuple[int, ...], dtype: str) -> Network:
    """The network in a user's file, for samples of this shape.

    It is fed float32 as a model is, or uint8 or int32 as stored; images [H, W, C] channels first
    where the file says so, or says nothing.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            field="features", value=path, hint=f"cannot be read ({error.strerror})"
        ) from None
    session = Session(content, name)
    turned = _channels_first(session.shape, shape, name)

    def apply(samples: NDArray[Any]) -> Floats:
        fed = as_fed(samples) if session.kind is np.float32 else samples
        found = session(np.moveaxis(fed, -1, 1) if turned else fed)
        return found.reshape(len(found), -1) if found.ndim > 2 else found

    graph = OnnxGraph(content, scaled=session.kind is np.float32, turned=turned)
    return made_network(name, hashlib.sha256(content).hexdigest(), shape, dtype, apply, graph)


def _channels_first(wanted: list[int | str | None], shape: tuple[int, ...], name: str) -> bool:
    turned = (shape[-1], *shape[:-1])
    if len(shape) > 1 and _fits(wanted[1:], turned):
        return True
    if _fits(wanted[1:], shape):
        return False
    raise InputError(
        field="features",
        value=name,
        hint=f"takes {wanted[1:]} for a sample; those of the data are {list(shape)}",
    )


def _fits(wanted: list[int | str | None], shape: tuple[int, ...]) -> bool:
    sizes = zip(wanted, shape, strict=False)
    return len(wanted) == len(shape) and all(
        size == own for size, own in sizes if isinstance(size, int)
    )


def _runtime(name: str) -> ModuleType:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            field="features",
            value=name,
            hint="onnxruntime is not installed: pip install 'mix2fld[features]'",
        ) from None
    return onnxruntime
