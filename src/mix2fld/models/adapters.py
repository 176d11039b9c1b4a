"""Modules of other libraries as a ``Model``; each library is imported only when it is asked for."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from mix2fld.base.errors import InputError, first_line
from mix2fld.types import Model, Weights

SAME_FOR_ALL = 0
"""Seeds the state of a module, unless it comes with one."""


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
    variables: Mapping[str, Any] | None = None,
) -> Model:
    """A ``flax.linen`` module that maps samples [B, ...] to logits [B, N_L].

    ``dtype`` is int32 for one that takes token ids. ``variables`` are those of a pre-trained
    module, as its ``apply`` takes them. With ``trained`` other than all it may have state, such as
    BatchNorm's, which stays as it is: normalisations must take their own statistics.
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
    shapes = _shapes(title, lambda key: module.init(key, blank))
    state = tuple(sorted(set(shapes) - {"params"}))
    if variables is not None:
        _check_variables(title, variables, shapes)

    @cache
    def kept() -> dict[str, Any]:
        with jax.ensure_compile_time_eval():
            made = variables or module.init(jax.random.key(SAME_FOR_ALL), blank)
            return {name: jax.tree.map(jnp.asarray, made[name]) for name in state}

    def init(key: Array) -> Weights:
        if variables is not None:
            return jax.tree.map(jnp.asarray, variables["params"])
        return module.init(key, blank)["params"]

    def apply(weights: Weights, images: Array) -> Array:
        logits: Array = module.apply({"params": weights, **kept()}, images)
        return logits

    parts = (module, sample_shape, dtype) if variables is None else (object(),)
    return _model(title, init, apply, parts, state)


def _check_variables(title: str, given: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    """Refuse variables that are not those of the module."""
    found, wanted = ({name: dict(_named(tree[name])) for name in tree} for tree in (given, shapes))
    if found != wanted:
        raise InputError(
            field="variables",
            hint=f"do not fit model {title}: must have {', '.join(sorted(wanted))} with the shapes "
            "that its init returns",
        )


def _named(tree: Any) -> list[tuple[str, tuple[int, ...]]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), jnp.shape(leaf)) for path, leaf in leaves]


def from_nnx(make: Callable[[Any], Any], name: str | None = None) -> Model:
    """A ``flax.nnx`` module, ``make(rngs)``, that maps samples [B, ...] to logits [B, N_L].

    One with statistics of batches is in evaluation mode, and keeps those that it is made with:
    with ``trained`` other than all.
    """
    nnx = library("flax.nnx", "flax")

    title = name or str(getattr(make, "__name__", "nnx module"))
    shape = _shapes(title, lambda key: make(nnx.Rngs(key)), nnx.eval_shape)
    _, weights, statistics, state = nnx.split(shape, nnx.Param, nnx.BatchStat, ...)
    if jax.tree.leaves(state):
        parts = ", ".join(sorted(str(part) for part in state))
        raise InputError(
            f"model {title}: has state in {parts}, which nothing keeps; make it without such state"
        )
    own = ("nnx.BatchStat",) if jax.tree.leaves(statistics) else ()
    if own:
        shape.eval()
    graph = nnx.split(shape, nnx.Param, ...)[0]

    @cache
    def kept() -> Any:
        with jax.ensure_compile_time_eval():
            return nnx.state(make(nnx.Rngs(jax.random.key(SAME_FOR_ALL))), nnx.BatchStat)

    def init(key: Array) -> Weights:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(weights: Weights, images: Array) -> Array:
        more = (kept(),) if own else ()
        logits: Array = nnx.merge(graph, nnx.State(weights), *more)(images)
        return logits

    return _model(title, init, apply, (object(),) if own else (graph, _described(weights)), own)


def from_equinox(make: Callable[[Array], Any], name: str | None = None) -> Model:
    """An Equinox module, ``make(key)``, that maps one sample [...] to logits [N_L].

    Its weights become a dictionary by their place in the module, such as ``.layers[0].weight``. A
    module and its state, as ``equinox.nn.make_with_state`` returns them, take inference mode, and
    the state stays as it is made: with ``trained`` other than all.
    """
    equinox = library("equinox", "equinox")
    title = name or str(getattr(make, "__name__", "equinox module"))
    shape = _shapes(title, make, equinox.filter_eval_shape)
    stateful = isinstance(shape, tuple)
    if stateful:
        shape = equinox.nn.inference_mode(shape[0])
    arrays, static = equinox.partition(shape, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    places = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(arrays)]
    structure = jax.tree.structure(arrays)

    @cache
    def kept() -> Any:
        with jax.ensure_compile_time_eval():
            return make(jax.random.key(SAME_FOR_ALL))[1]

    def init(key: Array) -> Weights:
        made = make(key)
        module = equinox.nn.inference_mode(made[0]) if stateful else made
        return dict(
            zip(places, jax.tree.leaves(equinox.filter(module, equinox.is_array)), strict=True)
        )

    def apply(weights: Weights, images: Array) -> Array:
        arrays = jax.tree.unflatten(structure, [weights[place] for place in places])
        module = equinox.combine(arrays, static)
        one = (lambda image: module(image, kept())[0]) if stateful else module
        logits: Array = jax.vmap(one)(images)
        return logits

    if stateful:
        return _model(title, init, apply, (object(),), ("make_with_state",))
    return _model(title, init, apply, (structure, _described(arrays), *_described(static)))


def library(module: str, package: str) -> ModuleType:
    """A library that only some models need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{module} is not installed: pip install {package}") from None


def _model(
    title: str,
    init: Callable[..., Any],
    apply: Callable[..., Any],
    parts: tuple[Any, ...],
    state: tuple[str, ...] = (),
) -> Model:
    """The model of a module that these parts describe; one that has no hash is equal to no other.

    Whether initial weights are drawn alike is not compared: nothing that is compiled draws them.
    """
    try:
        hash(parts)
    except TypeError:
        parts = (object(),)
    return Model(title, OfModule(parts, "init", init), OfModule(parts, "apply", apply), state=state)


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
