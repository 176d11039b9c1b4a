"""One experiment of federated reinforcement learning over the paper's link, and its record."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.config.settings import Config
from mix2fld.engine.energy import Busy, Power
from mix2fld.links import make_link
from mix2fld_lab.rl.agents import Agent, Episodes, local_phase, make_agents
from mix2fld_lab.rl.cartpole import CARTPOLE, HALF_LENGTH
from mix2fld_lab.rl.environment import Environment
from mix2fld_lab.rl.exchange import Round
from mix2fld_lab.rl.glucose import GLUCOSE, adults
from mix2fld_lab.rl.table import EXCHANGES

EPISODES, EPISODES_A_ROUND, AGENTS = 500, 25, 10
SOLVED_OVER = 20
"""An agent has solved the task when the mean return of so many episodes is high enough."""
STEP_SECONDS = 1e-4
"""Stated computing time of a step of the environment and of training."""


@dataclass(frozen=True)
class RLSetting:
    """Where agents learn."""

    name: str
    words: str
    world: Environment
    traits: Callable[[], Any]
    """What agents differ in: arrays with a row for each."""
    link: str = "rayleigh"


def _poles(first: float, last: float) -> Callable[[], Any]:
    return lambda: np.linspace(first, last, AGENTS)


SETTINGS = {
    one.name: one
    for one in (
        RLSetting(
            "same",
            "CartPole, ten agents with the same pole",
            CARTPOLE,
            _poles(HALF_LENGTH, HALF_LENGTH),
        ),
        RLSetting(
            "differ",
            "CartPole, ten agents with poles from 0.25 to 0.75 (half length)",
            CARTPOLE,
            _poles(0.25, 0.75),
        ),
        RLSetting("glucose", "Blood glucose, ten adults with type 1 diabetes", GLUCOSE, adults),
    )
}


def run_experiment(
    name: str, setting: RLSetting, seed: int, episodes: int = EPISODES
) -> dict[str, Any]:
    """Returns of every episode, bits, seconds and joules of every round."""
    return run_experiments(name, setting, (seed,), episodes)[0]


def run_experiments(
    name: str, setting: RLSetting, seeds: Sequence[int], episodes: int = EPISODES
) -> list[dict[str, Any]]:
    """The records of several seeds, whose local phases are one compiled loop."""
    runs = [_Run(name, setting, seed) for seed in seeds]
    for number in range(1, episodes // EPISODES_A_ROUND + 1):
        agents = _joined([run.agents for run in runs])
        keys = jnp.concatenate([run.keys(number) for run in runs])
        agents, done = local_phase(setting.world, agents, keys, EPISODES_A_ROUND)
        for run, own, phase in zip(runs, _split(agents), _split(done), strict=True):
            run.exchange(number, own, phase)
    return [run.record() for run in runs]


def _joined(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *trees)


def _split(tree: Any) -> list[Any]:
    """The rows of each run's agents."""
    count = len(jax.tree.leaves(tree)[0]) // AGENTS
    rows = [slice(run * AGENTS, (run + 1) * AGENTS) for run in range(count)]
    return [jax.tree.map(operator.itemgetter(own), tree) for own in rows]


class _Run:
    """One seed: its agents, its server, its link, and what is recorded."""

    def __init__(self, name: str, setting: RLSetting, seed: int) -> None:
        config = Config.of(devices=AGENTS, link=setting.link, seed=seed)
        self.name, self.setting, self.seed = name, setting, seed
        self.link, self.power = make_link(config, AGENTS), Power.from_config(config)
        self.state = self.link.start(AGENTS, stream(seed, "link"))
        key = jax.random.PRNGKey(integer(seed, "weights", 0))
        self.agents = make_agents(setting.world, key, setting.traits())
        self.exchanged = EXCHANGES[name]
        self.server = self.exchanged.start(self.agents)
        self.returns: list[Any] = []
        self.rounds: list[dict[str, Any]] = []
        self.joules = np.zeros(AGENTS)

    def keys(self, number: int) -> Any:
        """The random keys of a round, one for each agent."""
        key = jax.random.PRNGKey(integer(self.seed, "episodes", number))
        return jax.random.split(key, AGENTS)

    def exchange(self, number: int, agents: Agent, done: Episodes) -> None:
        """What follows a local phase: uploads, the server's half, and the download."""
        self.agents = agents
        self.returns.append(np.asarray(done.returns))
        of = Round(self.setting.world, self.seed, number, agents, done)
        sent = [self.exchanged.upload(of, agent, self.server) for agent in range(AGENTS)]
        bits = np.array([one.bits for one in sent], np.int64)
        rng = stream(self.seed, "uplink", number)
        up, self.state = self.link.transmit("uplink", bits, rng, self.state)
        inbox = {agent: one for agent, one in enumerate(sent) if one.bits and up.delivered[agent]}
        received, down_slots, down_bits = np.zeros(AGENTS, np.bool_), np.zeros(AGENTS), 0
        if inbox:
            self.server, answer = self.exchanged.combine(of, inbox, self.server)
            down_bits = answer.bits
            each, rng = np.full(AGENTS, down_bits, np.int64), stream(self.seed, "downlink", number)
            down, self.state = self.link.transmit("downlink", each, rng, self.state)
            received = down.delivered & (each > 0)
            down_slots = down.slots.astype(np.float64)
            if received.any():
                self.agents = self.exchanged.receive(of, answer, received)
        self.server = self.exchanged.begin(self.server, self.agents)
        slot = self.link.slot_seconds
        computing = STEP_SECONDS * np.asarray(done.lengths, np.float64).sum(axis=1)
        seconds = slot * (up.slots.max(initial=0) + down_slots.max(initial=0))
        sending = np.where(bits > 0, up.slots * slot, 0.0).astype(np.float64)
        busy = Busy(sending, down_slots * slot, computing)
        self.joules += self.power.spent(busy, float(seconds + computing.max())).total
        self.rounds.append(
            {
                "bits_up": int(bits.sum()),
                "bits_down": int(down_bits),
                "delivered": len(inbox),
                "received": int(received.sum()),
                "seconds": float(seconds),
                "computing": float(computing.max()),
            }
        )

    def record(self) -> dict[str, Any]:
        """All that the page needs."""
        table = np.concatenate(self.returns, axis=1)  # [A, episodes]
        enough = self.setting.world.solved
        return {
            "protocol": self.name,
            "setting": self.setting.name,
            "seed": self.seed,
            "returns": table.mean(axis=0).round(2).tolist(),
            "last": table[:, -50:].mean(axis=1).round(2).tolist(),
            "solved": [episodes_until_solved(row, enough) for row in table],
            "joules": float(self.joules.mean()),
            "rounds": self.rounds,
        }


def episodes_until_solved(returns: NDArray[np.float32], enough: float) -> int | None:
    """The number of the first episode at which the mean of the last ones is high enough."""
    if len(returns) < SOLVED_OVER:
        return None
    means = np.convolve(returns, np.ones(SOLVED_OVER) / SOLVED_OVER, "valid")
    found = np.flatnonzero(means >= enough)
    return int(found[0]) + SOLVED_OVER if len(found) else None
