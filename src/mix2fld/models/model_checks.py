"""What every model must satisfy, found out without computing anything."""

import jax
import jax.numpy as jnp

from mix2fld.errors import InputError
from mix2fld.types import Model, Weights


def weight_shapes(model: Model) -> tuple[tuple[int, ...], ...]:
    """The shape of every weight tensor, in the order of ``jax.tree.leaves``."""
    return tuple(leaf.shape for leaf in jax.tree.leaves(_abstract_weights(model)))


def check_model(
    model: Model, sample_shape: tuple[int, ...], num_labels: int, dtype: str = "float32"
) -> None:
    """Raise ``InputError`` unless all weights are float32 and the logits are [B, N_L] floats."""
    weights = _abstract_weights(model)
    leaves = jax.tree_util.tree_leaves_with_path(weights)
    if not leaves:
        raise InputError(f"model {model.name}: has no weights to train")
    for path, leaf in leaves:
        if leaf.dtype != jnp.float32:
            place = jax.tree_util.keystr(path)
            raise InputError(f"model {model.name}: weight {place} is {leaf.dtype}, not float32")
    for batch in (1, 2):
        kind = jnp.int32 if dtype == "int32" else jnp.float32
        inputs = jax.ShapeDtypeStruct((batch, *sample_shape), kind)
        _check_logits(model, weights, inputs, num_labels)


def _check_logits(
    model: Model, weights: Weights, inputs: jax.ShapeDtypeStruct, num_labels: int
) -> None:
    batch_shape = inputs.shape
    try:
        logits = jax.eval_shape(model.apply, weights, inputs)
    except Exception as error:
        raise InputError(
            f"model {model.name}: fails on {inputs.dtype} samples of shape {list(batch_shape)} "
            f"({first_line(error)})"
        ) from None
    shape, kind = getattr(logits, "shape", None), getattr(logits, "dtype", None)
    if shape is None or kind is None or not jnp.issubdtype(kind, jnp.floating):
        raise InputError(f"model {model.name}: must return one array of float logits, not {logits}")
    if shape[:-1] == batch_shape[:1] and shape[-1] != num_labels:
        raise InputError(
            f"model {model.name} returns {shape[-1]} outputs, the dataset has {num_labels} labels"
        )
    if shape != (batch_shape[0], num_labels):
        raise InputError(
            f"model {model.name}: returns logits of shape {list(shape)} for {batch_shape[0]} "
            f"samples, must be {[batch_shape[0], num_labels]}"
        )


def _abstract_weights(model: Model) -> Weights:
    try:
        return jax.eval_shape(model.init, jax.random.key(0))
    except Exception as error:
        raise InputError(
            f"model {model.name}: cannot be initialised ({first_line(error)})"
        ) from None


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
