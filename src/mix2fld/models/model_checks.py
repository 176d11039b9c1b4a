"""What every model must satisfy, found out without computing anything."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.interpreters.partial_eval import dce_jaxpr

from mix2fld.base.errors import InputError, first_line
from mix2fld.types import Model, Weights

NO_STATE = (
    "a model here is its weights and nothing else, because that is what devices send and "
    "average; use a module without such state, e.g. GroupNorm in place of BatchNorm, or name a "
    "part with trained: the state then stays as it is"
)


def weight_shapes(model: Model) -> tuple[tuple[int, ...], ...]:
    """The shape of every weight tensor, in the order in which a payload carries them."""
    if model.torch is not None:
        return model.torch.shapes
    return tuple(leaf.shape for leaf in jax.tree.leaves(_abstract_weights(model)))


def weight_names(model: Model) -> tuple[str, ...]:
    """The name of every weight tensor, in the same order: its place in the tree, with dots."""
    if model.torch is not None:
        return model.torch.names
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(_abstract_weights(model))]
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path in paths)
    return tuple(name.removeprefix(".") for name in names)  # Equinox's are .layers[0].weight


def check_model(
    model: Model,
    sample_shape: tuple[int, ...],
    outputs: int,
    dtype: str = "float32",
    batch_size: int = 2,
    wanted: str = "",
) -> None:
    """Raise ``InputError`` unless outputs are [B, O] floats and every weight can be learned.

    Weights are float32, and the gradient of each depends on something. ``wanted`` says in words of
    the task why there must be so many outputs.
    ``dtype`` is that of stored samples, ``batch_size`` that of a training step: in training, some
    PyTorch modules take no batch of one.
    """
    if model.torch is not None:
        from mix2fld.models.torch_checks import ModuleTrial, check_torch

        trial = ModuleTrial(sample_shape, outputs, dtype, batch_size, wanted)
        check_torch(model.name, model.torch, trial)
        return
    if model.state:
        raise InputError(f"model {model.name}: has state in {', '.join(model.state)}; {NO_STATE}")
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
        _check_logits(model, weights, inputs, outputs, wanted)
    _check_gradients(model, weights, inputs)


def _check_logits(
    model: Model, weights: Weights, inputs: jax.ShapeDtypeStruct, outputs: int, wanted: str
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
    check_output_shape(model.name, shape, (batch_shape[0], outputs), wanted)


def check_output_shape(
    title: str, shape: tuple[int, ...], due: tuple[int, int], wanted: str = ""
) -> None:
    """Raise ``InputError`` unless the outputs of a batch have the shape that is due, [B, O]."""
    batch, outputs = due
    if shape[:-1] == (batch,) and shape[-1] != outputs:
        why = wanted or f"the dataset has {outputs} labels"
        raise InputError(f"model {title} returns {shape[-1]} outputs, {why}")
    if shape != due:
        raise InputError(
            f"model {title}: returns logits of shape {list(shape)} for {batch} samples, must be "
            f"{list(due)}"
        )


def _check_gradients(model: Model, weights: Weights, inputs: jax.ShapeDtypeStruct) -> None:
    """Refuse a weight whose gradient is a constant: the loss does not depend on it."""

    def loss(weights: Weights, inputs: Array) -> Array:
        return -jax.nn.log_softmax(model.apply(weights, inputs))[:, 0].mean()

    try:
        traced = jax.make_jaxpr(jax.grad(loss))(weights, inputs).jaxpr
    except Exception as error:
        raise InputError(f"model {model.name}: has no gradient ({first_line(error)})") from None
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(weights)]
    for place, path in enumerate(paths):
        only = [place == other for other in range(len(paths))]
        _, used = dce_jaxpr(traced, only)
        if not any(used):
            raise InputError(
                f"model {model.name}: weight {jax.tree_util.keystr(path)} never gets a gradient, "
                "since the outputs do not depend on it; leave it out, or use it"
            )


def _abstract_weights(model: Model) -> Weights:
    try:
        return jax.eval_shape(model.init, jax.random.key(0))
    except Exception as error:
        raise InputError(
            f"model {model.name}: cannot be initialised ({first_line(error)})"
        ) from None
