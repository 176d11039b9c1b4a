"""Advantage actor-critic agents on CartPole, side by side in one compiled loop.

An agent runs an episode, then takes one Adam step on it: policy gradient with the return less the
critic's estimate, the critic's squared error, and a little entropy.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from mix2fld_lab.rl.cartpole import MOST_ANGLE, MOST_STEPS, MOST_X, START, State, has_fallen, step

HIDDEN, ACTIONS, NUMBERS = 24, 2, 4
RATE, DISTIL_RATE = 0.005, 0.002
DISCOUNT, VALUE_WEIGHT, ENTROPY = 0.99, 0.5, 0.01
BINS = 9
"""Of each number of a state: proxies are the cells of this grid."""
REACH = np.array([MOST_X, 3.0, MOST_ANGLE, 3.0], np.float32)
"""The grid spans each number from minus this to this."""
PROXIES = BINS**NUMBERS
SMALL = 1e-8
Weights = Any
optimizer = optax.adam(RATE)
distiller = optax.adam(DISTIL_RATE)


class Agent(NamedTuple):
    """One agent, or a row of them along the first axis."""

    weights: Weights
    memory: Any
    """Of Adam."""
    half_length: Any
    """Of its pole."""


class Episodes(NamedTuple):
    """What a local phase leaves: returns, proxy sums, and the states of its last episode."""

    returns: Any  # [E]
    proxy_sums: Any  # [P], sum of the probability of a push to the right
    proxy_counts: Any  # [P]
    states: Any  # [500, 4]
    policies: Any  # [500], probabilities of a push to the right
    used: Any  # [500], steps that were taken


def initial_weights(key: Array) -> Weights:
    """Actor and critic, each with two hidden layers; the outputs start near zero."""
    sizes = (NUMBERS, HIDDEN, HIDDEN)
    found = {}
    for part, width in (("actor", ACTIONS), ("critic", 1)):
        for place, (inputs, outputs) in enumerate(
            ((sizes[0], sizes[1]), (sizes[1], sizes[2]), (sizes[2], width))
        ):
            key, own = jax.random.split(key)
            scale = jnp.sqrt(2 / inputs) if place < 2 else 0.01
            found[f"{part}{place}"] = {
                "bias": jnp.zeros(outputs),
                "kernel": scale * jax.random.normal(own, (inputs, outputs)),
            }
    return found


def _outputs(weights: Weights, part: str, states: Array) -> Array:
    maps = states / REACH
    for place in range(2):
        layer = weights[f"{part}{place}"]
        maps = jnp.tanh(maps @ layer["kernel"] + layer["bias"])
    last = weights[f"{part}2"]
    return maps @ last["kernel"] + last["bias"]


def logits(weights: Weights, states: Array) -> Array:
    """Of both pushes."""
    return _outputs(weights, "actor", states)


def values(weights: Weights, states: Array) -> Array:
    """The critic's estimates of returns."""
    return _outputs(weights, "critic", states)[..., 0]


def proxy_of(states: Array) -> Array:
    """The number of the cell in which each state [..., 4] lies."""
    cells = jnp.clip((states / REACH + 1) / 2 * BINS, 0, BINS - 1).astype(jnp.int32)
    return cells @ jnp.array([BINS**place for place in range(NUMBERS)])


def proxy_states() -> np.ndarray:
    """The middle of each cell, [P, 4], in the order of their numbers."""
    axes = np.stack([np.arange(PROXIES) // BINS**place % BINS for place in range(NUMBERS)], axis=1)
    return ((2 * axes + 1) / BINS - 1).astype(np.float32) * REACH


def _play(weights: Weights, half_length: Array, key: Array) -> tuple[Array, Array, Array, Any]:
    """An episode: states [500, 4], actions, probabilities of a push to the right, steps taken."""
    begin_key, key = jax.random.split(key)
    begin = jax.random.uniform(begin_key, (NUMBERS,), minval=-START, maxval=START)
    noise = jax.random.uniform(key, (MOST_STEPS,))
    empty = jnp.zeros((MOST_STEPS, NUMBERS)), jnp.zeros(MOST_STEPS), jnp.zeros(MOST_STEPS)

    def going(carry: Any) -> Array:
        place, state, _ = carry
        return (place < MOST_STEPS) & ~has_fallen(State(*state))

    def go(carry: Any) -> Any:
        place, state, (states, actions, chances) = carry
        chance = jax.nn.softmax(logits(weights, state))[1]
        action = (noise[place] < chance).astype(jnp.float32)
        after = jnp.stack(step(jnp, State(*state), action, half_length))
        kept = states.at[place].set(state), actions.at[place].set(action)
        return place + 1, after, (*kept, chances.at[place].set(chance))

    steps, _, (states, actions, chances) = jax.lax.while_loop(going, go, (0, begin, empty))
    return states, actions, chances, steps


def _loss(weights: Weights, states: Array, actions: Array, used: Array) -> Array:
    total = used.sum()
    follow = lambda after, mask: (mask + DISCOUNT * after * mask,) * 2  # noqa: E731
    _, returns = jax.lax.scan(follow, 0.0, used, reverse=True)
    estimates = values(weights, states)
    gains = (returns - jax.lax.stop_gradient(estimates)) * used
    spread = jnp.sqrt((gains**2).sum() / total) + SMALL
    logs = jax.nn.log_softmax(logits(weights, states))
    chosen = jnp.where(actions > 0, logs[:, 1], logs[:, 0])
    policy = -(used * chosen * gains / spread).sum() / total
    critic = (used * (estimates - returns) ** 2).sum() / total / (1 / (1 - DISCOUNT)) ** 2
    entropy = -(used[:, None] * jnp.exp(logs) * logs).sum() / total
    return policy + VALUE_WEIGHT * critic - ENTROPY * entropy


def _episode(agent: Agent, key: Array) -> tuple[Agent, Episodes]:
    states, actions, chances, steps = _play(agent.weights, agent.half_length, key)
    used = (jnp.arange(MOST_STEPS) < steps).astype(jnp.float32)
    gradient = jax.grad(_loss)(agent.weights, states, actions, used)
    change, memory = optimizer.update(gradient, agent.memory, agent.weights)
    weights = optax.apply_updates(agent.weights, change)
    cells = proxy_of(states)
    sums = jnp.zeros(PROXIES).at[cells].add(used * chances)
    counts = jnp.zeros(PROXIES).at[cells].add(used)
    done = Episodes(steps.astype(jnp.float32), sums, counts, states, chances, used)
    return Agent(weights, memory, agent.half_length), done


@partial(jax.jit, static_argnums=2)
@partial(jax.vmap, in_axes=(0, 0, None))
def local_phase(agent: Agent, key: Array, episodes: int) -> tuple[Agent, Episodes]:
    """So many episodes of each agent [A], with a step after each."""

    def one(carry: Any, key: Array) -> Any:
        agent, sums, counts, _ = carry
        agent, done = _episode(agent, key)
        sums, counts = sums + done.proxy_sums, counts + done.proxy_counts
        return (agent, sums, counts, done), done.returns

    begun = jax.eval_shape(_episode, agent, key)[1]
    nothing = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), begun)
    carry = (agent, nothing.proxy_sums, nothing.proxy_counts, nothing)
    carry, returns = jax.lax.scan(one, carry, jax.random.split(key, episodes))
    agent, sums, counts, last = carry
    return agent, last._replace(returns=returns, proxy_sums=sums, proxy_counts=counts)


def _distil_loss(weights: Weights, states: Array, taught: Array, heard: Array) -> Array:
    logs = jax.nn.log_softmax(logits(weights, states))
    return -heard * (taught * logs[:, 1] + (1 - taught) * logs[:, 0]).mean()


def _distil(weights: Weights, states: Array, taught: Array, heard: Array, steps: int) -> Weights:
    def one(carry: Any, _: None) -> Any:
        weights, memory = carry
        gradient = jax.grad(_distil_loss)(weights, states, taught, heard)
        change, memory = distiller.update(gradient, memory, weights)
        return (optax.apply_updates(weights, change), memory), None

    return jax.lax.scan(one, (weights, distiller.init(weights)), None, steps)[0][0]


distil_one = jax.jit(_distil, static_argnums=4)
"""A policy learns what it is taught for states [n, 4]; ``heard`` is 1, or 0 to change nothing."""
distil_all = jax.jit(jax.vmap(_distil, in_axes=(0, None, None, 0, None)), static_argnums=4)
"""The same for each agent [A]."""
distil_own = jax.jit(jax.vmap(_distil, in_axes=(0, 0, 0, 0, None)), static_argnums=4)
"""The same, each agent with states of its own [A, n, 4]."""


def make_agents(key: Array, half_lengths: np.ndarray) -> Agent:
    """All agents with the same initial weights."""
    weights = initial_weights(key)
    count = len(half_lengths)
    rows = jax.tree.map(lambda part: jnp.broadcast_to(part, (count, *part.shape)), weights)
    return Agent(rows, jax.vmap(optimizer.init)(rows), jnp.asarray(half_lengths, jnp.float32))
