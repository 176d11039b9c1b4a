"""Memories of proxies: what visited states say of a policy, averaged, mixed or unmixed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.codecs import Encoded
from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.protocols.inverse_mixup import inverse_ratios
from mix2fld_lab.rl.agents import (
    NUMBERS,
    PROXIES,
    REACH,
    Agent,
    distil_all,
    distil_one,
    distil_own,
    logits,
    proxy_of,
    proxy_states,
)
from mix2fld_lab.rl.exchange import (
    NOTHING,
    Exchange,
    Floats,
    Round,
    encode_floats,
    rows_of,
    with_rows,
)

FLOAT_BITS, INDEX_BITS = 32, (PROXIES - 1).bit_length()
FEW_STEPS, MANY_STEPS = 5, 50
"""Of distillation, of each agent after a download."""
SERVER_STEPS = 200
"""Of the server's conversion."""
LESSONS = 1000
"""States that a policy is taught at once: always as many, so that it is compiled once."""
CODE_TOP = 255
"""Of a number of a mixed state, in eight bits."""


def encode_proxies(policies: Floats, visited: NDArray[np.bool_]) -> Encoded:
    """The number of each visited proxy, then its policy: the probability of a push to the right."""
    which = np.flatnonzero(visited)
    numbers = np.packbits(to_bits(which.astype(np.uint32), INDEX_BITS)).tobytes()
    policy = np.asarray(policies[which], "<f4").tobytes()
    return Encoded(numbers + policy, len(which) * (INDEX_BITS + FLOAT_BITS))


def decode_proxies(data: bytes, bits: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Policies [P] and which proxies were visited [P]."""
    count = bits // (INDEX_BITS + FLOAT_BITS)
    end = -(-count * INDEX_BITS // 8)
    read = np.unpackbits(np.frombuffer(data[:end], np.uint8), count=count * INDEX_BITS)
    which = from_bits(read, INDEX_BITS).astype(np.int64)
    policies, visited = np.zeros(PROXIES, np.float32), np.zeros(PROXIES, np.bool_)
    policies[which], visited[which] = np.frombuffer(data[end:], "<f4"), True
    return policies, visited


@dataclass(frozen=True)
class FRD(Exchange):
    """Proxy memories up, their mean down; agents learn it."""

    title: str = "FRD"
    steps: int = FEW_STEPS

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        return encode_proxies(*of.own_memory(agent))

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        return server, encode_proxies(*mean_memory(inbox))

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        policies, known = decode_proxies(*sent)
        rng = stream(of.seed, "lessons", of.number)
        which = rng.choice(np.flatnonzero(known), size=LESSONS)
        return _taught(of.agents, *self.lessons(rng, policies, which), who, self.steps)

    def lessons(
        self, rng: np.random.Generator, policies: Floats, which: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """States and policies, of known proxies."""
        return proxy_states()[which], policies[which]


@dataclass(frozen=True)
class MixFRD(FRD):
    """Half of what an agent learns are mixes of two proxies; nothing more is sent."""

    title: str = "MixFRD"

    def lessons(
        self, rng: np.random.Generator, policies: Floats, which: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        share = np.where(np.arange(LESSONS) % 2, rng.random(LESSONS), 1.0).astype(np.float32)
        other, states = rng.permutation(which), proxy_states()
        mixed = share[:, None] * states[which] + (1 - share[:, None]) * states[other]
        return mixed, share * policies[which] + (1 - share) * policies[other]


@dataclass(frozen=True)
class Mix2FRD(Exchange):
    """Proxy memories and mixed states up; the server unmixes and trains a policy, which comes down.

    A mix has two states of an agent's last episode in which it pushes to different sides. Of mixes
    of two agents with swapped sides, the server makes states of one side each (Eq. 7), and a policy
    learns the mean policy of the proxy in which such a state lies; in an unknown one, the side.
    That policy comes down: an agent takes some steps towards it on states of its own, or has its
    actor ``replaced`` by it, as a device of Mix2FLD has its model.
    """

    title: str = "Mix2FRD"
    replaced: bool = False
    mixes: int = 100
    ratio: float = 0.1

    @property
    def ratios(self) -> tuple[float, float]:
        """Both shares of a mix."""
        return self.ratio, 1 - self.ratio

    def start(self, agents: Agent) -> Any:
        """The actor that all agents start from."""
        return jax.tree.map(lambda part: part[0], _actor(agents.weights))

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        memory = encode_proxies(*of.own_memory(agent))
        mixed = self._mixed(of, agent)
        head = np.array([memory.bits // (INDEX_BITS + FLOAT_BITS)], ">u2").tobytes()
        data = head + memory.data + mixed.data
        return Encoded(data, 16 + memory.bits + mixed.bits)

    def _mixed(self, of: Round, agent: int) -> Encoded:
        states, policies = of.steps(agent)
        sides = policies > 0.5
        left, right = np.flatnonzero(~sides), np.flatnonzero(sides)
        if not (len(left) and len(right)):
            return NOTHING
        rng = stream(of.seed, "seeds", of.number, agent)
        minor = rng.integers(2, size=self.mixes)  # the side of the smaller share
        a, b = (
            left[rng.integers(len(left), size=self.mixes)],
            right[rng.integers(len(right), size=self.mixes)],
        )
        first = np.where(minor[:, None] == 0, states[a], states[b])
        second = np.where(minor[:, None] == 0, states[b], states[a])
        mixed = self.ratio * first + (1 - self.ratio) * second
        codes = np.rint((np.clip(mixed / REACH, -1, 1) + 1) / 2 * CODE_TOP).astype(np.uint8)
        data = codes.tobytes() + np.packbits(minor.astype(np.uint8)).tobytes()
        return Encoded(data, self.mixes * (8 * NUMBERS + 1))

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        memories, states, sides, whose = {}, [], [], []
        for agent, sent in sorted(inbox.items()):
            count = int(np.frombuffer(sent.data[:2], ">u2")[0])
            bits = count * (INDEX_BITS + FLOAT_BITS)
            end = 2 + -(-count * INDEX_BITS // 8) + 4 * count
            memories[agent] = Encoded(sent.data[2:end], bits)
            mixed = sent.data[end:]
            if mixed:
                codes = np.frombuffer(mixed[: self.mixes * NUMBERS], np.uint8)
                states.append((2 * codes.reshape(-1, NUMBERS) / CODE_TOP - 1) * REACH)
                read = np.frombuffer(mixed[self.mixes * NUMBERS :], np.uint8)
                sides.append(np.unpackbits(read, count=self.mixes))
                whose.append(np.full(self.mixes, agent))
        policies, known = mean_memory(memories)
        unmixed = self._unmixed(of, states, sides, whose)
        if unmixed is None:
            return server, NOTHING
        made, labels = unmixed
        rng = stream(of.seed, "conversion", of.number)
        some = rng.integers(len(made), size=LESSONS)
        made, labels = made[some], labels[some]
        cells = np.asarray(proxy_of(jnp.asarray(made)))
        taught = np.where(known[cells], policies[cells], labels).astype(np.float32)
        actor = distil_one(server, made, taught, np.float32(1), SERVER_STEPS)
        return actor, encode_floats(rows_of(jax.tree.map(lambda part: part[None], actor))[0])

    def _unmixed(
        self, of: Round, states: list[Any], sides: list[Any], whose: list[Any]
    ) -> tuple[Floats, Floats] | None:
        """States of one side each, from mixes of different agents, and these sides."""
        if len(states) < 2:
            return None
        rows, side, agent = (np.concatenate(part) for part in (states, sides, whose))
        rng = stream(of.seed, "pairs", of.number)
        one = rng.permutation(np.flatnonzero(side == 0))
        other = rng.permutation(np.flatnonzero(side == 1))
        if not (len(one) and len(other)):
            return None
        pairs = max(len(one), len(other))
        one, other = np.resize(one, pairs), np.resize(other, pairs)
        apart = agent[one] != agent[other]
        mixed = np.stack([rows[one[apart]], rows[other[apart]]], axis=1)
        if not len(mixed):
            return None
        made = np.einsum("na,gaf->gnf", inverse_ratios(self.ratios), mixed)
        labels = np.tile(np.array([0.0, 1.0]), (len(made), 1))
        flat = np.clip(made.reshape(-1, NUMBERS), -2 * REACH, 2 * REACH)
        return flat.astype(np.float32), labels.ravel().astype(np.float32)

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        if not sent.bits:
            return of.agents
        weights, everybody = of.agents.weights, np.ones_like(who)
        row = np.frombuffer(sent.data, "<f4")[None]
        if self.replaced:
            actor = with_rows(_actor(weights), row, who)
            return of.agents._replace(weights={**weights, **actor})
        teacher = with_rows(_actor(weights), row, everybody)
        rng = stream(of.seed, "lessons", of.number)
        own = [of.steps(agent)[0] for agent in range(len(who))]
        states = np.stack([seen[rng.integers(len(seen), size=LESSONS)] for seen in own])
        taught = jax.nn.softmax(jax.vmap(logits)(teacher, jnp.asarray(states)))[..., 1]
        actor = distil_own(_actor(weights), states, taught, who.astype(np.float32), FEW_STEPS)
        return of.agents._replace(weights={**weights, **actor})


class RawDistillation(Exchange):
    """States and policies of the last episode up, all of them down: no privacy."""

    title = "raw memory"

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        states, policies = of.steps(agent)
        return encode_floats(np.column_stack([states, policies]))

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        rows = [np.frombuffer(inbox[agent].data, "<f4") for agent in sorted(inbox)]
        return server, encode_floats(np.concatenate(rows))

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        rows = np.frombuffer(sent.data, "<f4").reshape(-1, NUMBERS + 1)
        rng = stream(of.seed, "replayed", of.number)
        some = rows[rng.integers(len(rows), size=LESSONS)]
        return _taught(of.agents, some[:, :NUMBERS], some[:, NUMBERS], who, MANY_STEPS)


def mean_memory(inbox: Mapping[int, Encoded]) -> tuple[Floats, NDArray[np.bool_]]:
    """The mean policy of each proxy over those who visited it, and which proxies anybody did."""
    found = [decode_proxies(*inbox[agent]) for agent in sorted(inbox)]
    visits = np.sum([visited for _, visited in found], axis=0)
    sums = np.sum([np.where(visited, own, 0) for own, visited in found], axis=0)
    return (sums / np.maximum(visits, 1)).astype(np.float32), visits > 0


def _actor(weights: Any) -> Any:
    return {name: part for name, part in weights.items() if name.startswith("actor")}


def _taught(
    agents: Agent, states: Floats, policies: Floats, who: NDArray[np.bool_], steps: int
) -> Agent:
    actor = distil_all(_actor(agents.weights), states, policies, who.astype(np.float32), steps)
    return agents._replace(weights={**agents.weights, **actor})
