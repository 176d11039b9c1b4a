"""The frozen front of a JAX model, found among the operations that its function is traced to."""

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr, Literal
from numpy.typing import NDArray

from mix2fld.data.features.network import Floats, Network
from mix2fld.data.samples import as_fed
from mix2fld.dataset import FrozenNetwork
from mix2fld.models.frozen_front import SplitModel, as_vector, parts_of, small_enough
from mix2fld.types import Model, Weights

WORK = ("dot_general", "conv_general_dilated")
"""Operations of which a front must have one to be worth its vectors."""


def split_jax(model: Model, shape: tuple[int, ...], dtype: str) -> SplitModel | None:
    """The front and the back; None if weights are used from the first product on."""
    kind = jnp.int32 if dtype == "int32" else jnp.float32
    abstract = jax.eval_shape(model.init, jax.random.key(0))
    leaves, structure = jax.tree.flatten(abstract)

    def of_one(sample: Array, *weights: Array) -> Array:
        logits: Array = model.apply(jax.tree.unflatten(structure, weights), sample[None])
        return logits[0]

    whole = jax.make_jaxpr(of_one)(jax.ShapeDtypeStruct(shape, kind), *leaves)
    given, *weights = whole.jaxpr.invars
    early, late = {given: None}, dict.fromkeys(weights)
    front, back = [], []
    for operation in whole.jaxpr.eqns:
        used = _variables(operation.invars)
        if used & late.keys():
            late.update(dict.fromkeys(operation.outvars))
            back.append(operation)
        elif used & early.keys():
            early.update(dict.fromkeys(operation.outvars))
            front.append(operation)
        else:  # of constants
            front.append(operation)
            back.append(operation)
    read = _variables(whole.jaxpr.outvars).union(*(_variables(each.invars) for each in back))
    crossing = [own for own in early if own in read]
    shapes = tuple(tuple(own.aval.shape) for own in crossing)
    floats = all(own.aval.dtype == jnp.float32 for own in crossing)
    if not any(name in str(each) for each in front for name in WORK):
        return None
    if not floats or not small_enough(shapes, shape):
        return None
    run_front = _function(whole, [given], crossing, front)
    run_back = _function(whole, [*crossing, *weights], whole.jaxpr.outvars, back)
    compiled = jax.jit(run_front)

    def vectors(samples: NDArray[Any]) -> Floats:
        return as_vector([np.asarray(part) for part in compiled(jnp.asarray(as_fed(samples)[0]))])

    parts: Any = parts_of(shapes)

    def apply(weights: Weights, rows: Array) -> Array:
        own = jax.tree.leaves(weights)
        found: Array = jax.vmap(lambda *one: run_back(*one, *own)[0])(*parts(rows))
        return found

    told = hashlib.sha256(str(whole).encode())
    for constant in whole.consts:
        told.update(np.asarray(constant).tobytes())
    about = FrozenNetwork(f"{model.name} (front)", told.hexdigest(), shape, dtype)
    size = sum(map(math.prod, shapes))
    return SplitModel(Network(about, size, vectors), Model(model.name, model.init, apply))


def _variables(values: Iterable[Any]) -> set[Any]:
    """All of them that are no literals."""
    return {own for own in values if not isinstance(own, Literal)}


def _function(
    whole: ClosedJaxpr, given: list[Any], wanted: list[Any], operations: list[Any]
) -> Any:
    """Some operations of a function as one of their own."""
    told = whole.jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    jaxpr = whole.jaxpr.replace(invars=given, outvars=wanted, eqns=operations, debug_info=told)
    return lambda *values: jax.core.eval_jaxpr(jaxpr, whole.consts, *values)
