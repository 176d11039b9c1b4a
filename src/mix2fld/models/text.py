"""A small recurrent network for token ids: an embedding, a gated recurrent unit, a linear layer."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from mix2fld.base.errors import InputError
from mix2fld.models.layers import linear
from mix2fld.types import Model, Weights

SampleShape = tuple[int, ...]
EMBEDDED, HIDDEN = 16, 64


def text_gru(sample_shape: SampleShape, num_labels: int, embedding: Any = None) -> Model:
    """Windows [T] of token ids below ``num_labels``, the next of which is the label.

    An ``embedding`` [N_L, E] that is given stays as it is: it is neither trained nor sent. Weights
    are normal with variance 1 / fan-in, biases zero; 18,549 of them for 37 tokens.
    """
    if len(sample_shape) != 1:
        raise InputError(
            field="model",
            value="text-gru",
            hint=f"samples are {list(sample_shape)}, but must be windows [T] of token ids",
        )
    fixed = None if embedding is None else jnp.asarray(embedding, jnp.float32)
    width = EMBEDDED if fixed is None else fixed.shape[1]

    def init(key: Array) -> Weights:
        keys = jax.random.split(key, 4)
        own = _drawn(keys[0], num_labels, width)
        return {
            **({"embedding": {"kernel": own}} if fixed is None else {}),
            "gru": {
                "bias": jnp.zeros(3 * HIDDEN, jnp.float32),
                "input": _drawn(keys[1], 3 * HIDDEN, width),
                "recurrent": _drawn(keys[2], 3 * HIDDEN, HIDDEN),
            },
            "linear": {
                "kernel": _drawn(keys[3], num_labels, HIDDEN),
                "bias": jnp.zeros(num_labels, jnp.float32),
            },
        }

    def apply(weights: Weights, windows: Array) -> Array:
        table = weights["embedding"]["kernel"] if fixed is None else fixed
        gru = weights["gru"]
        tokens = windows.astype(jnp.int32).T  # [T, B]
        drives = jnp.take(table @ gru["input"].T + gru["bias"], tokens, axis=0)
        start = jnp.zeros((windows.shape[0], HIDDEN), jnp.float32)
        last, _ = lax.scan(partial(_step, gru["recurrent"]), start, drives)
        return linear(**weights["linear"], features=last.T).T

    return Model("text-gru", init, apply)


def _step(recurrent: Array, state: Array, drive: Array) -> tuple[Array, None]:
    """One token: reset and update gates, and a candidate (Cho et al., 2014)."""
    pulls = state @ recurrent.T
    reset, update = (
        jax.nn.sigmoid(drive[:, part] + pulls[:, part])
        for part in (slice(0, HIDDEN), slice(HIDDEN, 2 * HIDDEN))
    )
    candidate = jnp.tanh(drive[:, 2 * HIDDEN :] + reset * pulls[:, 2 * HIDDEN :])
    return update * state + (1 - update) * candidate, None


def _drawn(key: Array, outputs: int, inputs: int) -> Array:
    return jax.random.normal(key, (outputs, inputs), jnp.float32) / math.sqrt(inputs)
