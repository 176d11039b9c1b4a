"""What agents exchange after a local phase: bytes up, what the server makes of them, bytes down.

Each exchange is a class with both halves. Whatever is sent is encoded, and its bits are counted.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.codecs import Encoded, RotatedUpdate
from mix2fld.dataset import SampleFormat
from mix2fld.types import Dimensions
from mix2fld_lab.rl.agents import Agent, Episodes
from mix2fld_lab.rl.environment import Environment

Floats = NDArray[np.float32]
NOTHING = Encoded(b"", 0)


def rows_of(weights: Any) -> Floats:
    """The weights of all agents, one row each."""
    leaves = jax.tree.leaves(weights)
    return np.concatenate([np.asarray(part).reshape(len(part), -1) for part in leaves], axis=1)


def with_rows(weights: Any, rows: Floats, who: NDArray[np.bool_]) -> Any:
    """The weights of all agents, those of some replaced by rows."""
    leaves, tree = jax.tree.flatten(weights)
    ends = np.cumsum([part[0].size for part in leaves])[:-1]
    found = []
    for part, row in zip(leaves, np.split(rows, ends, axis=1), strict=True):
        kept = np.array(part)
        kept[who] = row.reshape(-1, *part.shape[1:])[who if len(row) == len(kept) else 0]
        found.append(jnp.asarray(kept))
    return jax.tree.unflatten(tree, found)


def encode_floats(values: Floats) -> Encoded:
    """Float32, little-endian."""
    data = np.asarray(values, "<f4").tobytes()
    return Encoded(data, 8 * len(data))


@dataclass(frozen=True)
class Round:
    """A local phase that is over."""

    world: Environment
    seed: int
    number: int
    agents: Agent
    done: Episodes

    def own_memory(self, agent: int) -> tuple[Floats, NDArray[np.bool_]]:
        """The policy [P, actions - 1] of an agent in each proxy, averaged over the steps there."""
        counts = np.asarray(self.done.proxy_counts[agent])
        sums = np.asarray(self.done.proxy_sums[agent])
        return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32), counts > 0

    def steps(self, agent: int) -> tuple[Floats, Floats]:
        """States and policies of an agent's last episode."""
        used = np.asarray(self.done.used[agent]) > 0
        states, policies = (np.asarray(p[agent]) for p in (self.done.states, self.done.policies))
        return states[used], policies[used]


class Exchange(ABC):
    """One way to learn together."""

    title: str

    def start(self, agents: Agent) -> Any:
        """What the server keeps."""
        return None

    @abstractmethod
    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        """What an agent sends."""

    @abstractmethod
    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        """What the server keeps, and what it multicasts; ``inbox`` is not empty."""

    @abstractmethod
    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        """The agents, of which those have what was sent."""

    def begin(self, server: Any, agents: Agent) -> Any:
        """What the server keeps, when agents begin the next phase with these weights."""
        return server


class Alone(Exchange):
    """Nothing is sent."""

    title = "alone"

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        return NOTHING

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        return server, NOTHING

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        return of.agents


class FRL(Exchange):
    """Weights of actor and critic up, their mean down."""

    title = "FRL"

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        return encode_floats(rows_of(of.agents.weights)[agent])

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        rows = np.stack([np.frombuffer(inbox[d].data, "<f4") for d in sorted(inbox)])
        return server, encode_floats(rows.mean(axis=0))

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        rows = np.frombuffer(sent.data, "<f4")[None]
        return of.agents._replace(weights=with_rows(of.agents.weights, rows, who))


@dataclass(frozen=True)
class MurmurRL(FRL):
    """What the weights moved by, in few bits."""

    bits: int = 1500
    title = "Murmur"

    def start(self, agents: Agent) -> Floats:
        """The model that all agents start from, and what each agent starts a phase from."""
        rows = rows_of(agents.weights)
        return np.concatenate([rows[:1], rows])

    def upload(self, of: Round, agent: int, server: Floats) -> Encoded:
        update = rows_of(of.agents.weights)[agent] - server[1 + agent]
        codes = self._codec.compress(update, self._draws(of, agent), None)
        return self._codec.encode(codes, _dims(of.world, len(update)))

    def combine(
        self, of: Round, inbox: Mapping[int, Encoded], server: Floats
    ) -> tuple[Floats, Encoded]:
        size, updates, norms = server.shape[1], [], []
        for agent in sorted(inbox):
            codes = self._codec.decode(inbox[agent].data, _dims(of.world, size))
            found = self._codec.restore(codes, self._draws(of, agent), size)
            updates.append(found.update)
            norms.append(np.sqrt(found.captured) * np.linalg.norm(found.update))
        mean = np.mean(updates, axis=0)
        longest = 1.5 * float(np.sqrt(np.mean(np.square(norms))))
        mean *= min(1.0, longest / max(float(np.linalg.norm(mean)), 1e-12))
        after = server.copy()
        after[0] += mean
        return after, encode_floats(after[0])

    def begin(self, server: Floats, agents: Agent) -> Floats:
        return np.concatenate([server[:1], rows_of(agents.weights)])

    @property
    def _codec(self) -> RotatedUpdate:
        return RotatedUpdate(largest_per_group=True, bits=self.bits)

    def _draws(self, of: Round, agent: int) -> np.random.Generator:
        return stream(of.seed, "update", of.number, agent)


def _dims(world: Environment, weights: int) -> Dimensions:
    samples = SampleFormat((world.numbers,), "float32", -1.0, 1.0)
    return Dimensions(((weights,),), world.actions, samples, 1, 8, (world.numbers,))
