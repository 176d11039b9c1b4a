"""How much of an update each candidate explains, by the last linear layer of a model.

A step on sample x adds a multiple of the layer's inputs under x, its features, to every row of the
kernel. So an update is a sum of features, of samples that were trained on, and the coefficients of
all candidates follow from ridge regression. Others in the same pool are no noise then: what they
explain is not ascribed to a candidate.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from mix2fld.base.errors import Mix2fldError
from mix2fld.tasks.features import HeadPlace, find_head
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.sgd import unit_pixels
from mix2fld.types import Inputs, Model, Tensors

RIDGE = 0.01
"""In parts of the mean squared length of features."""
AT_ONCE = 250
Floats = NDArray[np.floating]


def head_of(learning: Learning, model: Model) -> HeadPlace | None:
    """The last, linear layer of a model; None if it does not end in one, or is of PyTorch."""
    try:
        return None if model.torch is not None else find_head(learning)
    except Mix2fldError:
        return None


def coefficients(
    model: Model, head: HeadPlace, inputs: Inputs, begun: Tensors, uploads: Sequence[Tensors]
) -> NDArray[np.float64]:
    """Of every candidate in the update of every row of the head, by model: [models, n, N_L].

    Features change while a device trains: they are taken as half way between both ends.
    """
    first = features(model, head, inputs, begun)
    found = []
    for weights in uploads:
        between = 0.5 * (first + features(model, head, inputs, weights))
        update = _rows(weights, head) - _rows(begun, head)
        found.append(explain(between, update))
    return np.stack(found)


def explain(between: Floats, update: Floats) -> NDArray[np.float64]:
    """Ridge coefficients of samples with features [n, F] in updates [N_L, F]: [n, N_L].

    (B Bᵀ + λI)⁻¹ B = B (Bᵀ B + λI)⁻¹: the smaller of both systems is solved.
    """
    if len(between) <= between.shape[1]:
        return _solve_ridge(between @ between.T, between @ update.T, len(between))
    by_feature = _solve_ridge(between.T @ between, update.T, len(between))
    return between.astype(np.float64) @ by_feature


def _solve_ridge(moments: Floats, right: Floats, samples: int) -> NDArray[np.float64]:
    ridge = RIDGE * max(float(moments.trace()) / samples, float(np.finfo(np.float32).tiny))
    found: NDArray[np.float64] = solve(
        moments.astype(np.float64) + ridge * np.eye(len(moments)), right, assume_a="pos"
    )
    return found


def features(
    model: Model, head: HeadPlace, inputs: Inputs, weights: Tensors
) -> NDArray[np.float32]:
    """What the head multiplies, for each sample: the derivative of a logit by its row, [n, F]."""
    structure = jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
    padding = np.zeros((-len(inputs) % AT_ONCE, *inputs.shape[1:]), inputs.dtype)
    batches = np.concatenate([inputs, padding]).reshape(-1, AT_ONCE, *inputs.shape[1:])
    found = _derivatives(model.apply, structure, head, tuple(weights), batches)
    return np.asarray(found).reshape(len(batches) * AT_ONCE, -1)[: len(inputs)]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _derivatives(
    apply: Any, structure: Any, head: HeadPlace, tensors: Tensors, batches: Inputs
) -> jax.Array:
    kernel = jnp.asarray(_rows(tensors, head))

    def first_logit(row: jax.Array, sample: jax.Array) -> jax.Array:
        changed = kernel.at[0].set(row)
        every: list[Any] = list(tensors)
        every[head.kernel] = changed.T if head.transposed else changed
        output: jax.Array = apply(jax.tree.unflatten(structure, every), unit_pixels(sample[None]))
        return output[0, 0]

    derivative = jax.vmap(jax.grad(first_logit), in_axes=(None, 0))
    return jax.lax.map(lambda batch: derivative(kernel[0], batch), batches)


def _rows(weights: Tensors, head: HeadPlace) -> Floats:
    kernel = weights[head.kernel]
    return kernel.T if head.transposed else kernel
