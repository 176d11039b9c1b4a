"""A trained model as an ONNX file, from samples as they are measured to probabilities."""

import io
import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.data.features.network import Network
from mix2fld.data.samples import in_units
from mix2fld.dataset import SampleFormat
from mix2fld.models.adapters import library
from mix2fld.models.onnx_features import behind_network
from mix2fld.models.onnx_graph import OPSET, onnx_graph
from mix2fld.types import Model, Tensors

TRIED = (1, 7)
"""Sizes of the batches on which a file is compared with the model."""


class Exported(NamedTuple):
    """A model with its weights and what its samples and outputs are."""

    model: Model
    weights: Tensors
    samples: SampleFormat
    about: dict[str, Any]
    by_label: bool
    network: Network | None = None
    """The frozen network before it; only one that is an ONNX graph."""

    @property
    def output(self) -> str:
        """The name of what comes out."""
        return "probabilities" if self.by_label else "outputs"


def onnx_file(
    exported: Exported, expected: Callable[[NDArray[Any]], NDArray[np.float32]]
) -> tuple[bytes, float]:
    """The file, and by how much ONNX Runtime differs from what is expected of samples."""
    onnx = library("onnx", "'mix2fld[onnx]'")
    runtime = library("onnxruntime", "'mix2fld[onnx]'")
    graph = _of_torch(exported) if exported.model.torch else _of_jax(exported)
    recorded = exported.samples
    if exported.network is not None:
        about = exported.network.about
        assert exported.network.graph is not None
        graph = behind_network(graph, exported.network.graph, about)
        recorded = SampleFormat(about.shape, about.dtype)
    onnx.helper.set_model_props(graph, {"mix2fld": json.dumps(exported.about)})
    onnx.checker.check_model(graph)
    data = graph.SerializeToString()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    differ = 0.0
    for size in TRIED:
        tried = _samples_to_try(recorded, size)
        (found,) = session.run(None, {"samples": tried})
        differ = max(differ, float(np.abs(found - expected(tried)).max()))
    return bytes(data), differ


def _of_jax(exported: Exported) -> Any:
    model, samples = exported.model, exported.samples
    structure = jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
    weights = jax.tree.unflatten(structure, [jnp.asarray(array) for array in exported.weights])

    def function(measured: Any) -> Any:
        outputs = model.apply(weights, _fed(measured, samples, jnp))
        return jax.nn.softmax(outputs) if exported.by_label else outputs

    return onnx_graph(function, samples.shape, samples.dtype, exported.output, model.name)


def _of_torch(exported: Exported) -> Any:
    import onnx
    import torch

    from mix2fld.models.torch_network import TorchNetwork

    recipe, samples = exported.model.torch, exported.samples
    assert recipe is not None
    network = TorchNetwork(recipe)
    network.load(exported.weights)
    first, rank = recipe.channels_first and len(samples.shape) > 1, len(samples.shape)

    class Measured(torch.nn.Module):  # type: ignore[misc]
        """The module on samples as they are measured."""

        def __init__(self) -> None:
            super().__init__()
            self.module = network.module.eval()
            self.mean, self.std = torch.tensor(samples.mean), torch.tensor(samples.std)

        def forward(self, measured: Any) -> Any:
            """Probabilities, or what the module returns."""
            fed = measured
            if samples.dtype == "uint8":
                fed = in_units(measured.float())
            elif samples.mean:
                fed = (measured - self.mean) / self.std
            if first:
                fed = fed.permute(0, rank, *range(1, rank))
            outputs = self.module(fed)
            return torch.softmax(outputs, 1) if exported.by_label else outputs

    file = io.BytesIO()
    tried = torch.from_numpy(_samples_to_try(samples, 2))
    with warnings.catch_warnings():  # of the exporter that needs no package beside onnx
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Measured().eval(), (tried,), file, dynamo=False, opset_version=OPSET,
            input_names=["samples"], output_names=[exported.output],
            dynamic_axes={"samples": {0: "batch"}, exported.output: {0: "batch"}},
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def _fed(measured: Any, samples: SampleFormat, numpy: Any) -> Any:
    """What the model is fed of samples as they are measured."""
    if samples.dtype == "uint8":
        return in_units(measured.astype(numpy.float32))
    if not samples.mean:
        return measured
    return (measured - numpy.array(samples.mean, numpy.float32)) / numpy.array(
        samples.std, numpy.float32
    )


def _samples_to_try(samples: SampleFormat, count: int) -> NDArray[Any]:
    """Random samples of this form, as they are measured."""
    rng, shape = np.random.default_rng(0), (count, *samples.shape)
    if samples.dtype != "float32":
        return rng.integers(0, 256 if samples.dtype == "uint8" else 2, shape).astype(samples.dtype)
    spread = rng.standard_normal(shape) * np.array(samples.std or 1.0)
    return (spread + np.array(samples.mean or 0.0)).astype(np.float32)
