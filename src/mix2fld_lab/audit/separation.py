"""Separation: a small network, trained on public samples, that takes a mix of two apart.

It is given the mix, both labels, the mixing ratio, and the interval that the range of samples
leaves for the minor part in every place. It answers with the minor part inside that interval; the
dominant part follows by subtraction, so that both always add up to what was uploaded.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mix2fld.base.streams import integer, stream
from mix2fld_lab.attacks.unmixing import Candidates, Floats

WIDTH = 512
BATCH = 64
LEARNING_RATE = 1e-3
RATIOS = (0.05, 0.5)
"""Mixing ratios that training mixes are drawn from: one network for all of them."""
STEPS_AT_ONCE = 50
Weights = list[dict[str, Any]]


class Query(NamedTuple):
    """Mixes that are to be taken apart."""

    mixes: Any  # [m, v], within [0, 1]
    labels: Any  # [m, 2], minor and dominant
    ratio: Any  # [m], weight of the minor part


class Constituents(NamedTuple):
    """What the attacker takes the two constituents for, within [0, 1]."""

    minor: Floats  # [m, v]
    dominant: Floats  # [m, v]


def train_separator(
    public: Candidates,
    num_labels: int,
    steps: int,
    seed: int,
    told: Callable[[int], None] = lambda _: None,
) -> Weights:
    """A separator, trained on mixes of public samples; ``told`` hears how many steps are done."""
    schedule = optax.cosine_decay_schedule(LEARNING_RATE, steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    weights = _initial(integer(seed, "separator"), public.values.shape[1], num_labels)
    state = optimizer.init(weights)
    rng = stream(seed, "separator-mixes")

    def loss(weights: Weights, query: Query, minor: Any) -> Any:
        return jnp.mean((_minor_part(weights, query, num_labels) - minor) ** 2)

    @jax.jit
    def step(weights: Weights, state: Any, query: Query, minor: Any) -> tuple[Weights, Any]:
        change, state = optimizer.update(jax.grad(loss)(weights, query, minor), state)
        return optax.apply_updates(weights, change), state

    for number in range(steps):
        query, parts = _draw_mixes(rng, public)
        weights, state = step(weights, state, query, parts.minor)
        if (number + 1) % STEPS_AT_ONCE == 0 or number + 1 == steps:
            told(number + 1)
    return weights


def separate(weights: Weights, query: Query, num_labels: int) -> Constituents:
    """Both constituents of every mix."""
    minor = np.asarray(_minor_part(weights, Query(*map(jnp.asarray, query)), num_labels))
    ratio = np.asarray(query.ratio)[:, None]
    dominant = (np.asarray(query.mixes) - ratio * minor) / (1 - ratio)
    return Constituents(minor, np.clip(dominant, 0, 1).astype(np.float32))


def _draw_mixes(rng: np.random.Generator, public: Candidates) -> tuple[Query, Constituents]:
    """Mixes of two public samples with different labels, and what they are made of."""
    pairs = rng.integers(len(public.labels), size=(2 * BATCH, 2))
    pairs = pairs[public.labels[pairs[:, 0]] != public.labels[pairs[:, 1]]][:BATCH]
    ratio = rng.uniform(*RATIOS, size=len(pairs)).astype(np.float32)
    minor, dominant = public.values[pairs[:, 0]], public.values[pairs[:, 1]]
    mixes = ratio[:, None] * minor + (1 - ratio[:, None]) * dominant
    return Query(mixes, public.labels[pairs], ratio), Constituents(minor, dominant)


def _initial(seed: int, values: int, num_labels: int) -> Weights:
    keys = jax.random.split(jax.random.key(seed), 4)
    sizes = [(3 * values + 2 * num_labels + 1, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)]
    make = jax.nn.initializers.he_normal()
    layers = [
        {"w": make(key, size), "b": jnp.zeros(size[1])}
        for key, size in zip(keys[:3], sizes, strict=True)
    ]
    return [*layers, {"w": make(keys[3], (WIDTH, values)) * 0.1, "b": jnp.zeros(values)}]


def _minor_part(weights: Weights, query: Query, num_labels: int) -> Any:
    """The minor part, within the interval that the range of samples leaves for it."""
    ratio = query.ratio[:, None]
    low = jnp.clip((query.mixes - (1 - ratio)) / ratio, 0, 1)
    high = jnp.clip(query.mixes / ratio, 0, 1)
    high = jnp.maximum(low, high)
    named = jax.nn.one_hot(query.labels, num_labels).reshape(len(query.mixes), -1)
    hidden = jnp.concatenate([query.mixes, low, high, named, ratio], axis=1)
    first, *inner, last = weights
    hidden = jax.nn.relu(hidden @ first["w"] + first["b"])
    for layer in inner:
        hidden = hidden + jax.nn.relu(hidden @ layer["w"] + layer["b"])
    return low + (high - low) * jax.nn.sigmoid(hidden @ last["w"] + last["b"])
