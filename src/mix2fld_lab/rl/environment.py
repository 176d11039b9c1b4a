"""What agents act in: equations, what an agent sees, rewards, and when the task is solved."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Environment:
    """An episodic task; its functions are for one agent, and are compiled into the loop."""

    title: str
    about: str
    """What an agent sees, does and gets."""
    actions: int
    reach: tuple[float, ...]
    """The grid of proxies spans each number that an agent sees from minus this to this."""
    bins: int
    """Of each number: proxies are the cells of this grid."""
    longest: int
    """Steps of an episode at most."""
    solved: float
    """The mean return from which on the task is solved."""
    start: Callable[[Array, Any], Any]
    """Of a random key and a trait (what an agent differs in): the first state."""
    step: Callable[[Any, Any, Any], Any]
    """Of a state, an action and a trait: the next state."""
    seen: Callable[[Any], Array]
    """Of a state: what an agent sees, one number for each in ``reach``."""
    is_over: Callable[[Any], Any]
    """Of a state: whether an episode ends there."""
    reward: Callable[[Any], Any]
    """Of the state after a step."""
    digits: int = 0
    """Decimals with which returns are shown."""
    rate: float = 0.005
    """Of an agent's Adam."""

    @property
    def numbers(self) -> int:
        """Of what an agent sees."""
        return len(self.reach)

    @property
    def proxies(self) -> int:
        """Cells of the grid."""
        return self.bins**self.numbers

    @property
    def index_bits(self) -> int:
        """Of the number of a proxy."""
        return (self.proxies - 1).bit_length()

    @property
    def policy_numbers(self) -> int:
        """Probabilities that tell a policy: of all actions but the first."""
        return self.actions - 1

    @property
    def span(self) -> NDArray[np.float32]:
        """``reach`` as an array."""
        return np.array(self.reach, np.float32)

    def proxy_of(self, seen: Array) -> Array:
        """The number of the cell in which each of [..., numbers] lies."""
        cells = jnp.clip((seen / self.span + 1) / 2 * self.bins, 0, self.bins - 1)
        places = jnp.array([self.bins**place for place in range(self.numbers)])
        return cells.astype(jnp.int32) @ places

    @cached_property
    def proxy_states(self) -> NDArray[np.float32]:
        """The middle of each cell, [P, numbers], in the order of their numbers."""
        which = np.arange(self.proxies)
        axes = [which // self.bins**place % self.bins for place in range(self.numbers)]
        middles: NDArray[np.float32] = ((2 * np.stack(axes, axis=1) + 1) / self.bins - 1).astype(
            np.float32
        ) * self.span
        return middles
