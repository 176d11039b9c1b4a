"""Networks of layers, found in what a JAX model computes, for machine code that trains them.

The function is traced, and its operations are read one after the other as what they are in such a
network: convolutions and linear layers with their biases, ReLU, group normalisation, maximum
pooling, means over pixels, sums. Whatever else occurs, the model is none of these and XLA trains
it. What has been found must give the model's own logits.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mix2fld.models.layer_reader import LayerReader
from mix2fld.models.layer_symbols import NotLayersError
from mix2fld.native.network import NetworkKernel, Program, network_kernel
from mix2fld.types import Model

TRIED = 2
"""Samples on which logits are compared."""
TOLERANCE = 1e-3
"""Of the largest logit."""


@lru_cache(maxsize=32)
def layer_kernel(model: Model, sample_shape: tuple[int, ...]) -> NetworkKernel | None:
    """The machine code of a model that is a network of layers; None for others, or none here."""
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0))
        program = _program(model, shapes, sample_shape)
    except NotLayersError:
        return None
    kernel = network_kernel(program)
    return kernel if kernel and _agrees(kernel, model, shapes, sample_shape) else None


def _program(model: Model, shapes: Any, sample_shape: tuple[int, ...]) -> Program:
    images = jax.ShapeDtypeStruct((TRIED, *sample_shape), jnp.float32)
    traced = jax.make_jaxpr(model.apply)(shapes, images)
    reader = LayerReader([leaf.shape for leaf in jax.tree.leaves(shapes)], TRIED, sample_shape)
    return reader.program(traced)


def _agrees(
    kernel: NetworkKernel, model: Model, shapes: Any, sample_shape: tuple[int, ...]
) -> bool:
    """Whether both give the same logits for the same random weights and samples."""
    rng = np.random.default_rng(0)
    leaves, structure = jax.tree.flatten(shapes)
    weights = [
        np.asarray(rng.normal(size=leaf.shape) / max(1, leaf.size) ** 0.25, np.float32)
        for leaf in leaves
    ]
    images = rng.random((TRIED, *sample_shape), np.float32)
    expected = np.asarray(jax.jit(model.apply)(jax.tree.unflatten(structure, weights), images))
    found = kernel.logits(tuple(weights), images)
    return bool(
        found.shape == expected.shape
        and np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
    )
