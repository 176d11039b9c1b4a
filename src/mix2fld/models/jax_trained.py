"""Parts of a model of JAX that are trained; the rest is a constant of its function."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mix2fld.models.model_checks import weight_names, weight_shapes
from mix2fld.models.trained import HEAD, NORMS, checked, lora_rank, matching
from mix2fld.types import Model, Weights

SAME_FOR_ALL = 0
"""Seeds what is not trained, unless the model's own ``init`` has it from elsewhere."""


def only_trained_jax(model: Model, trained: str) -> Model:
    """The model with a dictionary of weights by name, in place of its tree."""
    names, shapes = (
        weight_names(model),
        dict(zip(weight_names(model), weight_shapes(model), strict=True)),
    )
    head = _head(names, shapes)
    rank = lora_rank(trained)
    if rank:
        low_rank = [n for n in names if len(shapes[n]) == 2 and n not in head]
        chosen = head
        checked(set(low_rank), names, trained)
    else:
        low_rank = []
        chosen = chosen_names(names, tuple(shapes.values()), trained)

    @cache
    def frozen() -> list[Array]:
        with jax.ensure_compile_time_eval():
            return jax.tree.leaves(model.init(jax.random.key(SAME_FOR_ALL)))

    def init(key: Array) -> Weights:
        drawn = dict(zip(names, jax.tree.leaves(model.init(key)), strict=True))
        weights = {name: drawn[name] for name in names if name in chosen}
        for place, name in enumerate(low_rank):
            rows, columns = shapes[name]
            normal = jax.random.normal(jax.random.fold_in(key, place), (rows, rank), jnp.float32)
            weights[f"{name}.lora_A"] = normal / math.sqrt(rows)
            weights[f"{name}.lora_B"] = jnp.zeros((rank, columns), jnp.float32)
        return weights

    structure = jax.tree.structure(jax.eval_shape(model.init, jax.random.key(SAME_FOR_ALL)))

    def whole(weights: Weights) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, own in zip(names, frozen(), strict=True):
            if name in chosen:
                found[name] = weights[name]
            elif name in low_rank:
                found[name] = own + weights[f"{name}.lora_A"] @ weights[f"{name}.lora_B"]
            else:
                found[name] = own
        return found

    def apply(weights: Weights, inputs: Array) -> Array:
        logits: Array = model.apply(
            jax.tree.unflatten(structure, [*whole(weights).values()]), inputs
        )
        return logits

    def merged(weights: Mapping[str, Any]) -> dict[str, Any]:
        found = whole({name: jnp.asarray(value) for name, value in weights.items()})
        return {name: np.asarray(found[name]) for name in sorted(found)}  # as a tree orders names

    return Model(model.name, init, apply, merged=merged if rank else None)


def chosen_names(
    names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], part: str
) -> set[str]:
    """The names that ``head``, ``norms`` or a pattern means."""
    if part == HEAD:
        return _head(names, dict(zip(names, shapes, strict=True)))
    return checked(_norms(names), names, part) if part == NORMS else matching(names, part)


def _head(names: tuple[str, ...], shapes: dict[str, tuple[int, ...]]) -> set[str]:
    """The last two-dimensional array and what lies beside it in the tree."""
    last = [name for name in names if len(shapes[name]) == 2][-1:] or list(names[-1:])
    layer = last[0].rpartition(".")[0]
    return {name for name in names if layer and name.rpartition(".")[0] == layer} or set(last)


def _norms(names: tuple[str, ...]) -> set[str]:
    """What lies in a layer that is called a normalisation, and all scales."""
    parts = {name: name.lower().split(".") for name in names}
    return {
        name
        for name, path in parts.items()
        if path[-1] == "scale" or any("norm" in part or part.startswith("bn") for part in path[:-1])
    }
