"""What a model says about samples: the logits of many weights on the same candidates."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.models.fast import FastApply
from mix2fld.tasks.sgd import unit_pixels
from mix2fld.tasks.xla import TEST_BATCH
from mix2fld.types import Inputs, Model, Tensors


def logits(model: Model, inputs: Inputs, weights: Sequence[Tensors]) -> NDArray[np.float32]:
    """Logits of every model on every sample: [models, samples, N_L]."""
    if model.torch is not None:
        fed = np.asarray(unit_pixels(jnp.asarray(inputs)))
        return np.stack([np.asarray(model.apply(each, fed)) for each in weights])
    structure = jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
    padding = np.zeros((-len(inputs) % TEST_BATCH, *inputs.shape[1:]), inputs.dtype)
    batches = np.concatenate([inputs, padding]).reshape(-1, TEST_BATCH, *inputs.shape[1:])
    apply = FastApply(model.apply)
    found = [np.asarray(_predict(apply, structure, tuple(w), batches)) for w in weights]
    return np.stack(found).reshape(len(weights), -1, found[0].shape[-1])[:, : len(inputs)]


@partial(jax.jit, static_argnums=(0, 1))
def _predict(apply: FastApply, structure: Any, tensors: Tensors, batches: Any) -> Any:
    tree = jax.tree.unflatten(structure, tensors)
    return jax.lax.map(lambda batch: apply(tree, unit_pixels(batch)), batches)
