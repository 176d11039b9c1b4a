"""Modules of other libraries as a ``Model``; each library is imported only when it is asked for."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from mix2fld.base.errors import InputError, first_line
from mix2fld.types import Model, Weights

NO_STATE = (
    "a model here is its weights and nothing else, because that is what devices send and "
    "average; use a module without such state, e.g. GroupNorm in place of BatchNorm"
)


@dataclass(frozen=True)
class OfModule:
    """A function of a module, equal to the same of an equal module: they share compiled code."""

    module: Any
    """All that decides what the function computes."""
    purpose: str
    function: Callable[..., Any] = field(compare=False)

    def __call__(self, *args: Any) -> Any:
        """What the function returns."""
        return self.function(*args)


def from_flax(
    module: Any,
    sample_shape: tuple[int, ...],
    name: str | None = None,
    dtype: str = "float32",
) -> Model:
    """A ``flax.linen`` module that maps samples [B, ...] to logits [B, N_L].

    ``dtype`` is int32 for one that takes token ids.
    """
    linen = library("flax.linen", "flax")
    if not isinstance(module, linen.Module):
        raise InputError(
            field="module",
            value=f"{module!r}",
            hint="must be a flax.linen module; for flax.nnx there is from_nnx",
        )
    title = name or type(module).__name__
    blank = jnp.zeros((1, *sample_shape), dtype)
    state = sorted(set(_shapes(title, lambda key: module.init(key, blank))) - {"params"})
    if state:
        raise InputError(f"model {title}: has state in {', '.join(state)}; {NO_STATE}")

    def init(key: Array) -> Weights:
        return module.init(key, blank)["params"]

    def apply(weights: Weights, images: Array) -> Array:
        logits: Array = module.apply({"params": weights}, images)
        return logits

    return _model(title, init, apply, (module, sample_shape, dtype))


def from_nnx(make: Callable[[Any], Any], name: str | None = None) -> Model:
    """A ``flax.nnx`` module, ``make(rngs)``, that maps samples [B, ...] to logits [B, N_L]."""
    nnx = library("flax.nnx", "flax")

    title = name or str(getattr(make, "__name__", "nnx module"))
    shape = _shapes(title, lambda key: make(nnx.Rngs(key)), nnx.eval_shape)
    graph, weights, state = nnx.split(shape, nnx.Param, ...)
    if jax.tree.leaves(state):
        parts = ", ".join(sorted(str(part) for part in state))
        raise InputError(f"model {title}: has state in {parts}; {NO_STATE}")

    def init(key: Array) -> Weights:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(weights: Weights, images: Array) -> Array:
        logits: Array = nnx.merge(graph, nnx.State(weights))(images)
        return logits

    return _model(title, init, apply, (graph, _described(weights)))


def from_equinox(make: Callable[[Array], Any], name: str | None = None) -> Model:
    """An Equinox module, ``make(key)``, that maps one sample [...] to logits [N_L].

    Its weights become a dictionary by their place in the module, such as ``.layers[0].weight``.
    """
    equinox = library("equinox", "equinox")
    title = name or str(getattr(make, "__name__", "equinox module"))
    shape = _shapes(title, make, equinox.filter_eval_shape)
    arrays, static = equinox.partition(shape, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    places = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(arrays)]
    structure = jax.tree.structure(arrays)

    def init(key: Array) -> Weights:
        leaves = jax.tree.leaves(equinox.filter(make(key), equinox.is_array))
        return dict(zip(places, leaves, strict=True))

    def apply(weights: Weights, images: Array) -> Array:
        arrays = jax.tree.unflatten(structure, [weights[place] for place in places])
        logits: Array = jax.vmap(equinox.combine(arrays, static))(images)
        return logits

    return _model(title, init, apply, (structure, _described(arrays), *_described(static)))


def library(module: str, package: str) -> ModuleType:
    """A library that only some models need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{module} is not installed: pip install {package}") from None


def _model(
    title: str, init: Callable[..., Any], apply: Callable[..., Any], parts: tuple[Any, ...]
) -> Model:
    """The model of a module that these parts describe; one that has no hash is equal to no other.

    Whether initial weights are drawn alike is not compared: nothing that is compiled draws them.
    """
    try:
        hash(parts)
    except TypeError:
        parts = (object(),)
    return Model(title, OfModule(parts, "init", init), OfModule(parts, "apply", apply))


def _described(tree: Any) -> tuple[Any, ...]:
    """A tree as something with a hash."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = (jax.ShapeDtypeStruct, jax.Array)
    described = [(leaf.shape, leaf.dtype) if isinstance(leaf, arrays) else leaf for leaf in leaves]
    return structure, *described


def _shapes(
    title: str,
    init: Callable[[Array], Any],
    eval_shape: Callable[..., Any] = jax.eval_shape,
) -> Any:
    """What ``init`` would give, with every failure of the user's module as an ``InputError``."""
    try:
        return eval_shape(init, jax.random.key(0))
    except Exception as error:
        raise InputError(f"model {title}: cannot be initialised ({first_line(error)})") from None
