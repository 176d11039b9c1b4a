"""Advantage actor-critic agents, side by side in one compiled loop.

An agent runs an episode, then takes one Adam step on it: policy gradient with the return less the
critic's estimate, the critic's squared error, and a little entropy.
"""

from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from mix2fld_lab.rl.environment import Environment

HIDDEN = 24
DISTIL_RATE = 0.002
DISCOUNT, VALUE_WEIGHT, ENTROPY = 0.99, 0.5, 0.01
SMALL = 1e-8
Weights = Any
optimizer = lru_cache(optax.adam)
distiller = optax.adam(DISTIL_RATE)


class Agent(NamedTuple):
    """One agent, or a row of them along the first axis."""

    weights: Weights
    memory: Any
    """Of Adam."""
    trait: Any
    """What it differs in, such as the length of its pole."""


class Episodes(NamedTuple):
    """What a local phase leaves: returns, proxy sums, and what was seen in its last episode."""

    returns: Any  # [E]
    lengths: Any  # [E], steps
    proxy_sums: Any  # [P, actions - 1], sums of the probabilities of all actions but the first
    proxy_counts: Any  # [P]
    states: Any  # [longest, numbers], what the agent saw
    policies: Any  # [longest, actions - 1]
    used: Any  # [longest], steps that were taken


def initial_weights(world: Environment, key: Array) -> Weights:
    """Actor and critic, each with two hidden layers; the outputs start near zero."""
    found = {}
    for part, width in (("actor", world.actions), ("critic", 1)):
        sizes = (world.numbers, HIDDEN, HIDDEN, width)
        for place, (inputs, outputs) in enumerate(pairwise(sizes)):
            key, own = jax.random.split(key)
            scale = jnp.sqrt(2 / inputs) if place < 2 else 0.01
            found[f"{part}{place}"] = {
                "bias": jnp.zeros(outputs),
                "kernel": scale * jax.random.normal(own, (inputs, outputs)),
            }
    return found


def _outputs(world: Environment, weights: Weights, part: str, states: Array) -> Array:
    maps = states / world.span
    for place in range(2):
        layer = weights[f"{part}{place}"]
        maps = jnp.tanh(maps @ layer["kernel"] + layer["bias"])
    last = weights[f"{part}2"]
    return maps @ last["kernel"] + last["bias"]


def logits(world: Environment, weights: Weights, states: Array) -> Array:
    """Of all actions."""
    return _outputs(world, weights, "actor", states)


def values(world: Environment, weights: Weights, states: Array) -> Array:
    """The critic's estimates of returns."""
    return _outputs(world, weights, "critic", states)[..., 0]


def policy(world: Environment, weights: Weights, states: Array) -> Array:
    """The probabilities of all actions but the first."""
    return jax.nn.softmax(logits(world, weights, states))[..., 1:]


class _Episode(NamedTuple):
    """What an agent saw, did, was likely to do and got in each step; zeros after the last."""

    states: Array
    actions: Array
    policies: Array
    rewards: Array
    steps: Array


def _run(world: Environment, weights: Weights, trait: Array, key: Array) -> _Episode:
    begin_key, key = jax.random.split(key)
    noise = jax.random.uniform(key, (world.longest,))
    empty = (
        jnp.zeros((world.longest, world.numbers)),
        jnp.zeros(world.longest),
        jnp.zeros((world.longest, world.policy_numbers)),
        jnp.zeros(world.longest),
    )

    def going(carry: Any) -> Array:
        place, state, _ = carry
        return (place < world.longest) & ~world.is_over(state)

    def go(carry: Any) -> Any:
        place, state, (states, actions, policies, rewards) = carry
        seen = world.seen(state)
        own = policy(world, weights, seen)
        from_here = jnp.cumsum(own[::-1])[::-1]  # of this action or a later one
        action = (noise[place] < from_here).sum().astype(jnp.float32)
        after = world.step(state, action, trait)
        kept = (
            states.at[place].set(seen),
            actions.at[place].set(action),
            policies.at[place].set(own),
            rewards.at[place].set(world.reward(after)),
        )
        return place + 1, after, kept

    begun: Any = (0, world.start(begin_key, trait), empty)
    steps, _, kept = jax.lax.while_loop(going, go, begun)
    states, actions, policies, rewards = kept
    return _Episode(states, actions, policies, rewards, steps)


def _loss(world: Environment, weights: Weights, seen: _Episode, used: Array) -> Array:
    total = used.sum()
    follow = lambda after, now: (now[0] + DISCOUNT * after * now[1],) * 2  # noqa: E731
    _, returns = jax.lax.scan(follow, 0.0, (seen.rewards, used), reverse=True)
    estimates = values(world, weights, seen.states)
    gains = (returns - jax.lax.stop_gradient(estimates)) * used
    spread = jnp.sqrt((gains**2).sum() / total) + SMALL
    logs = jax.nn.log_softmax(logits(world, weights, seen.states))
    which = seen.actions.astype(jnp.int32)[:, None]
    chosen = jnp.take_along_axis(logs, which, axis=1)[:, 0]
    surrogate = -(used * chosen * gains / spread).sum() / total
    critic = (used * (estimates - returns) ** 2).sum() / total / (1 / (1 - DISCOUNT)) ** 2
    entropy = -(used[:, None] * jnp.exp(logs) * logs).sum() / total
    return surrogate + VALUE_WEIGHT * critic - ENTROPY * entropy


def _episode(world: Environment, agent: Agent, key: Array) -> tuple[Agent, Episodes]:
    seen = _run(world, agent.weights, agent.trait, key)
    used = (jnp.arange(world.longest) < seen.steps).astype(jnp.float32)
    gradient = jax.grad(partial(_loss, world))(agent.weights, seen, used)
    change, memory = optimizer(world.rate).update(gradient, agent.memory, agent.weights)
    weights = optax.apply_updates(agent.weights, change)
    cells = world.proxy_of(seen.states)
    sums = jnp.zeros((world.proxies, world.policy_numbers))
    sums = sums.at[cells].add(used[:, None] * seen.policies)
    counts = jnp.zeros(world.proxies).at[cells].add(used)
    length = seen.steps.astype(jnp.float32)
    done = Episodes(seen.rewards.sum(), length, sums, counts, seen.states, seen.policies, used)
    return Agent(weights, memory, agent.trait), done


@partial(jax.jit, static_argnums=(0, 3))
@partial(jax.vmap, in_axes=(None, 0, 0, None))
def local_phase(
    world: Environment, agent: Agent, key: Array, episodes: int
) -> tuple[Agent, Episodes]:
    """So many episodes of each agent [A], with a step after each."""

    def one(carry: Any, key: Array) -> Any:
        agent, sums, counts, _ = carry
        agent, done = _episode(world, agent, key)
        sums, counts = sums + done.proxy_sums, counts + done.proxy_counts
        return (agent, sums, counts, done), (done.returns, done.lengths)

    begun = jax.eval_shape(partial(_episode, world), agent, key)[1]
    nothing = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), begun)
    carry = (agent, nothing.proxy_sums, nothing.proxy_counts, nothing)
    carry, (returns, lengths) = jax.lax.scan(one, carry, jax.random.split(key, episodes))
    agent, sums, counts, last = carry
    whole = last._replace(returns=returns, lengths=lengths, proxy_sums=sums, proxy_counts=counts)
    return agent, whole


def _distil_loss(
    world: Environment, weights: Weights, states: Array, taught: Array, heard: Array
) -> Array:
    logs = jax.nn.log_softmax(logits(world, weights, states))
    first = 1 - taught.sum(axis=1)
    return -heard * ((taught * logs[:, 1:]).sum(axis=1) + first * logs[:, 0]).mean()


def _distil(
    world: Environment, weights: Weights, states: Array, taught: Array, heard: Array, steps: int
) -> Weights:
    def one(carry: Any, _: None) -> Any:
        weights, memory = carry
        gradient = jax.grad(partial(_distil_loss, world))(weights, states, taught, heard)
        change, memory = distiller.update(gradient, memory, weights)
        return (optax.apply_updates(weights, change), memory), None

    return jax.lax.scan(one, (weights, distiller.init(weights)), None, steps)[0][0]


_STATIC = (0, 5)
distil_one = jax.jit(_distil, static_argnums=_STATIC)
"""A policy learns what it is taught for states [n, numbers]; ``heard`` is 1, or 0 for no change."""
distil_all = jax.jit(
    jax.vmap(_distil, in_axes=(None, 0, None, None, 0, None)), static_argnums=_STATIC
)
"""The same for each agent [A]."""
distil_own = jax.jit(jax.vmap(_distil, in_axes=(None, 0, 0, 0, 0, None)), static_argnums=_STATIC)
"""The same, each agent with states of its own [A, n, numbers]."""


def make_agents(world: Environment, key: Array, traits: Any) -> Agent:
    """All agents with the same initial weights; ``traits`` are arrays with a row for each."""
    weights = initial_weights(world, key)
    traits = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), traits)
    count = len(jax.tree.leaves(traits)[0])
    rows = jax.tree.map(lambda part: jnp.broadcast_to(part, (count, *part.shape)), weights)
    memory = jax.vmap(optimizer(world.rate).init)(rows)
    return Agent(rows, memory, traits)
