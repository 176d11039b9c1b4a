"""Memories of proxies: what visited states say of a policy, averaged, mixed or unmixed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.codecs import Encoded
from mix2fld.codecs.bits import from_bits, to_bits
from mix2fld.protocols.inverse_mixup import inverse_ratios
from mix2fld_lab.rl.agents import Agent, distil_all, distil_one, distil_own, policy
from mix2fld_lab.rl.environment import Environment
from mix2fld_lab.rl.exchange import (
    NOTHING,
    Exchange,
    Floats,
    Round,
    encode_floats,
    rows_of,
    with_rows,
)

FLOAT_BITS = 32
FEW_STEPS, MANY_STEPS = 5, 50
"""Of distillation, of each agent after a download."""
SERVER_STEPS = 200
"""Of the server's conversion."""
LESSONS = 1000
"""States that a policy is taught at once: always as many, so that it is compiled once."""
CODE_TOP = 255
"""Of a number of a mixed state, in eight bits."""


def memory_bits(world: Environment) -> int:
    """Of one visited proxy: its number, and the probabilities of all actions but the first."""
    return world.index_bits + FLOAT_BITS * world.policy_numbers


def encode_proxies(world: Environment, policies: Floats, visited: NDArray[np.bool_]) -> Encoded:
    """The number of each visited proxy, then the policies [P, actions - 1] there."""
    which = np.flatnonzero(visited)
    numbers = np.packbits(to_bits(which.astype(np.uint32), world.index_bits)).tobytes()
    sent = np.asarray(policies[which], "<f4").tobytes()
    return Encoded(numbers + sent, len(which) * memory_bits(world))


def decode_proxies(world: Environment, data: bytes, bits: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Policies [P, actions - 1] and which proxies were visited [P]."""
    count = bits // memory_bits(world)
    end = -(-count * world.index_bits // 8)
    read = np.unpackbits(np.frombuffer(data[:end], np.uint8), count=count * world.index_bits)
    which = from_bits(read, world.index_bits).astype(np.int64)
    policies = np.zeros((world.proxies, world.policy_numbers), np.float32)
    visited = np.zeros(world.proxies, np.bool_)
    policies[which] = np.frombuffer(data[end:], "<f4").reshape(count, world.policy_numbers)
    visited[which] = True
    return policies, visited


@dataclass(frozen=True)
class FRD(Exchange):
    """Proxy memories up, their mean down; agents learn it."""

    title: str = "FRD"
    steps: int = FEW_STEPS

    def upload(self, of: Round, agent: int, server: Any) -> Encoded:
        return encode_proxies(of.world, *of.own_memory(agent))

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        return server, encode_proxies(of.world, *mean_memory(of.world, inbox))

    def receive(self, of: Round, sent: Encoded, who: NDArray[np.bool_]) -> Agent:
        policies, known = decode_proxies(of.world, *sent)
        rng = stream(of.seed, "lessons", of.number)
        which = rng.choice(np.flatnonzero(known), size=LESSONS)
        lessons = self.lessons(rng, of.world.proxy_states, policies, which)
        return _taught(of, *lessons, who, self.steps)

    def lessons(
        self, rng: np.random.Generator, states: Floats, policies: Floats, which: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """States and policies, of known proxies."""
        return states[which], policies[which]


@dataclass(frozen=True)
class MixFRD(FRD):
    """Half of what an agent learns are mixes of two proxies; nothing more is sent."""

    title: str = "MixFRD"

    def lessons(
        self, rng: np.random.Generator, states: Floats, policies: Floats, which: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        drawn = np.where(np.arange(LESSONS) % 2, rng.random(LESSONS), 1.0).astype(np.float32)
        share, other = drawn[:, None], rng.permutation(which)
        mixed = share * states[which] + (1 - share) * states[other]
        return mixed, share * policies[which] + (1 - share) * policies[other]


@dataclass(frozen=True)
class Mix2FRD(Exchange):
    """Proxy memories and mixed states up; the server unmixes and trains a policy, which comes down.

    A mix has two states of an agent's last episode for which it prefers different actions: these
    are their labels. Of mixes of two agents with swapped labels, the server makes states of one
    label each (Eq. 7), and a policy learns the mean policy of the proxy in which such a state lies;
    in an unknown one, the label. That policy comes down: an agent takes some steps towards it on
    states of its own, or has its actor ``replaced`` by it, as a device of Mix2FLD has its model.
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
        memory = encode_proxies(of.world, *of.own_memory(agent))
        mixed = self._mixed(of, agent)
        head = np.array([memory.bits // memory_bits(of.world)], ">u2").tobytes()
        data = head + memory.data + mixed.data
        return Encoded(data, 16 + memory.bits + mixed.bits)

    def _mixed(self, of: Round, agent: int) -> Encoded:
        states, policies = of.steps(agent)
        labels, span = preferred(policies), of.world.span
        pairs = list(combinations(np.unique(labels), 2))
        if not pairs:
            return NOTHING
        rng = stream(of.seed, "seeds", of.number, agent)
        pair = np.array(pairs)[rng.integers(len(pairs), size=self.mixes)]
        swapped = rng.integers(2, size=self.mixes)  # whether the second has the smaller share
        picks = np.zeros((self.mixes, 2), np.int64)
        for side in range(2):
            for label in np.unique(pair[:, side]):
                here = pair[:, side] == label
                own = np.flatnonzero(labels == label)
                picks[here, side] = own[rng.integers(len(own), size=here.sum())]
        rows = np.arange(self.mixes)
        minor, major = picks[rows, swapped], picks[rows, 1 - swapped]
        mixed = self.ratio * states[minor] + (1 - self.ratio) * states[major]
        codes = np.rint((np.clip(mixed / span, -1, 1) + 1) / 2 * CODE_TOP).astype(np.uint8)
        places = _label_pairs(of.world)
        of_each = np.array(
            [
                places.index((one[turn], one[1 - turn]))
                for one, turn in zip(pair, swapped, strict=True)
            ]
        )
        width = _pair_bits(of.world)
        named = np.packbits(to_bits(of_each.astype(np.uint32), width)).tobytes()
        return Encoded(codes.tobytes() + named, self.mixes * (8 * of.world.numbers + width))

    def combine(self, of: Round, inbox: Mapping[int, Encoded], server: Any) -> tuple[Any, Encoded]:
        memories, states, pairs, whose = {}, [], [], []
        world, size = of.world, self.mixes * of.world.numbers
        for agent, sent in sorted(inbox.items()):
            count = int(np.frombuffer(sent.data[:2], ">u2")[0])
            end = 2 + -(-count * world.index_bits // 8) + 4 * count * world.policy_numbers
            memories[agent] = Encoded(sent.data[2:end], count * memory_bits(world))
            mixed = sent.data[end:]
            if mixed:
                codes = np.frombuffer(mixed[:size], np.uint8).reshape(-1, world.numbers)
                states.append((2 * codes / CODE_TOP - 1) * world.span)
                width = _pair_bits(world)
                read = np.unpackbits(
                    np.frombuffer(mixed[size:], np.uint8), count=self.mixes * width
                )
                named = from_bits(read, width).astype(np.int64)
                pairs.append(np.array(_label_pairs(world))[named])
                whose.append(np.full(self.mixes, agent))
        policies, known = mean_memory(world, memories)
        unmixed = self._unmixed(of, states, pairs, whose)
        if unmixed is None:
            return server, NOTHING
        made, labels = unmixed
        rng = stream(of.seed, "conversion", of.number)
        some = rng.integers(len(made), size=LESSONS)
        made, labels = made[some], labels[some]
        cells = np.asarray(world.proxy_of(jnp.asarray(made)))
        certain = np.eye(world.actions, dtype=np.float32)[labels, 1:]
        taught = np.where(known[cells, None], policies[cells], certain).astype(np.float32)
        actor = distil_one(world, server, made, taught, np.float32(1), SERVER_STEPS)
        return actor, encode_floats(rows_of(jax.tree.map(lambda part: part[None], actor))[0])

    def _unmixed(
        self, of: Round, states: list[Any], pairs: list[Any], whose: list[Any]
    ) -> tuple[Floats, NDArray[np.int64]] | None:
        """States of one label each, from mixes of different agents, and these labels.

        ``pairs`` has the labels of the smaller and of the larger share of each mix.
        """
        if len(states) < 2:
            return None
        rows, pair, agent = (np.concatenate(part) for part in (states, pairs, whose))
        rng = stream(of.seed, "pairs", of.number)
        made, labels = [], []
        for two in combinations(range(of.world.actions), 2):
            one = rng.permutation(np.flatnonzero((pair == two).all(axis=1)))
            other = rng.permutation(np.flatnonzero((pair == two[::-1]).all(axis=1)))
            if not (len(one) and len(other)):
                continue
            most = max(len(one), len(other))
            one, other = np.resize(one, most), np.resize(other, most)
            apart = agent[one] != agent[other]
            mixed = np.stack([rows[one[apart]], rows[other[apart]]], axis=1)
            made.append(np.einsum("na,gaf->gnf", inverse_ratios(self.ratios), mixed))
            labels.append(np.tile(two, len(mixed)))
        found = np.concatenate([each.reshape(-1, of.world.numbers) for each in made] or [[]])
        if not len(found):
            return None
        within = np.clip(found, -2 * of.world.span, 2 * of.world.span).astype(np.float32)
        return within, np.concatenate(labels)

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
        taught = jax.vmap(partial(policy, of.world))(teacher, jnp.asarray(states))
        heard = who.astype(np.float32)
        actor = distil_own(of.world, _actor(weights), states, taught, heard, FEW_STEPS)
        return of.agents._replace(weights={**weights, **actor})


def preferred(policies: Floats) -> NDArray[np.int64]:
    """The likeliest action, of policies [n, actions - 1]; of two alike, the first."""
    first = 1 - policies.sum(axis=1, keepdims=True)
    return np.concatenate([first, policies], axis=1).argmax(axis=1)


def _label_pairs(world: Environment) -> list[tuple[int, int]]:
    """Labels of the smaller and of the larger share: all that a mix can have."""
    return list(permutations(range(world.actions), 2))


def _pair_bits(world: Environment) -> int:
    return (len(_label_pairs(world)) - 1).bit_length()


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
        numbers = of.world.numbers
        rows = np.frombuffer(sent.data, "<f4").reshape(-1, numbers + of.world.policy_numbers)
        rng = stream(of.seed, "replayed", of.number)
        some = rows[rng.integers(len(rows), size=LESSONS)]
        return _taught(of, some[:, :numbers], some[:, numbers:], who, MANY_STEPS)


def mean_memory(
    world: Environment, inbox: Mapping[int, Encoded]
) -> tuple[Floats, NDArray[np.bool_]]:
    """The mean policy of each proxy over those who visited it, and which proxies were visited."""
    found = [decode_proxies(world, *inbox[agent]) for agent in sorted(inbox)]
    visits = np.sum([visited for _, visited in found], axis=0)
    sums = np.sum([own for own, _ in found], axis=0)  # zero where an agent never was
    return (sums / np.maximum(visits, 1)[:, None]).astype(np.float32), visits > 0


def _actor(weights: Any) -> Any:
    return {name: part for name, part in weights.items() if name.startswith("actor")}


def _taught(
    of: Round, states: Floats, policies: Floats, who: NDArray[np.bool_], steps: int
) -> Agent:
    weights, heard = of.agents.weights, who.astype(np.float32)
    actor = distil_all(of.world, _actor(weights), states, policies, heard, steps)
    return of.agents._replace(weights={**weights, **actor})
