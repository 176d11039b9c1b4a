"""One experiment of federated reinforcement learning over the paper's link, and its record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.config.settings import Config
from mix2fld.engine.energy import Busy, Power
from mix2fld.links import make_link
from mix2fld_lab.rl.agents import local_phase, make_agents
from mix2fld_lab.rl.cartpole import CARTPOLE, HALF_LENGTH
from mix2fld_lab.rl.environment import Environment
from mix2fld_lab.rl.exchange import Round, rows_of
from mix2fld_lab.rl.glucose import GLUCOSE, adults
from mix2fld_lab.rl.table import EXCHANGES

EPISODES, EPISODES_A_ROUND, AGENTS = 500, 25, 10
SOLVED_OVER = 20
"""An agent has solved the task when the mean return of so many episodes is high enough."""
STEP_SECONDS = 1e-4
"""Stated computing time of a step of the environment and of training."""


@dataclass(frozen=True)
class Setting:
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
        Setting(
            "same",
            "CartPole, ten agents with the same pole",
            CARTPOLE,
            _poles(HALF_LENGTH, HALF_LENGTH),
        ),
        Setting(
            "differ",
            "CartPole, ten agents with poles from 0.25 to 0.75 (half length)",
            CARTPOLE,
            _poles(0.25, 0.75),
        ),
        Setting("glucose", "Blood glucose, ten adults with type 1 diabetes", GLUCOSE, adults),
    )
}


def run_experiment(
    name: str, setting: Setting, seed: int, episodes: int = EPISODES
) -> dict[str, Any]:
    """Returns of every episode, bits, seconds and joules of every round."""
    exchange = EXCHANGES[name]
    config = Config.of(devices=AGENTS, link=setting.link, seed=seed)
    link, power = make_link(config, AGENTS), Power.from_config(config)
    state = link.start(AGENTS, stream(seed, "link"))
    world = setting.world
    agents = make_agents(world, jax.random.PRNGKey(integer(seed, "weights", 0)), setting.traits())
    server = exchange.start(agents)
    returns: list[Any] = []
    rounds: list[dict[str, Any]] = []
    joules = np.zeros(AGENTS)
    for number in range(1, episodes // EPISODES_A_ROUND + 1):
        keys = jax.random.split(jax.random.PRNGKey(integer(seed, "episodes", number)), AGENTS)
        agents, done = local_phase(world, agents, keys, EPISODES_A_ROUND)
        returns.append(np.asarray(done.returns))
        of = Round(world, seed, number, agents, done)
        sent = [exchange.upload(of, agent, server) for agent in range(AGENTS)]
        bits = np.array([one.bits for one in sent], np.int64)
        rng = stream(seed, "uplink", number)
        up, state = link.transmit("uplink", bits, rng, state)
        inbox = {agent: one for agent, one in enumerate(sent) if one.bits and up.delivered[agent]}
        received, down_slots = np.zeros(AGENTS, np.bool_), np.zeros(AGENTS)
        down_bits = 0
        if inbox:
            server, answer = exchange.combine(of, inbox, server)
            down_bits = answer.bits
            each = np.full(AGENTS, down_bits, np.int64)
            down, state = link.transmit("downlink", each, stream(seed, "downlink", number), state)
            received = down.delivered & (each > 0)
            down_slots = down.slots.astype(np.float64)
            if received.any():
                agents = exchange.receive(of, answer, received)
                if name == "murmur":
                    server = _begun(server, agents, received)
        if name == "murmur":
            server = _begun(server, agents, ~received)
        slot = link.slot_seconds
        computing = STEP_SECONDS * np.asarray(done.lengths, np.float64).sum(axis=1)
        seconds = slot * (up.slots.max(initial=0) + down_slots.max(initial=0))
        sending = np.where(bits > 0, up.slots * slot, 0.0).astype(np.float64)
        busy = Busy(sending, down_slots * slot, computing)
        joules += power.spent(busy, float(seconds + computing.max())).total
        rounds.append(
            {
                "bits_up": int(bits.sum()),
                "bits_down": int(down_bits),
                "delivered": len(inbox),
                "received": int(received.sum()),
                "seconds": float(seconds),
                "computing": float(computing.max()),
            }
        )
    table = np.concatenate(returns, axis=1)  # [A, episodes]
    return {
        "protocol": name,
        "setting": setting.name,
        "seed": seed,
        "returns": table.mean(axis=0).round(2).tolist(),
        "last": table[:, -50:].mean(axis=1).round(2).tolist(),
        "solved": [episodes_until_solved(row, world.solved) for row in table],
        "joules": float(joules.mean()),
        "rounds": rounds,
    }


def _begun(server: NDArray[np.float32], agents: Any, who: NDArray[np.bool_]) -> Any:
    """What agents begin their next phase from: what their updates are relative to."""
    after = server.copy()
    after[1:][who] = rows_of(agents.weights)[who]
    return after


def episodes_until_solved(returns: NDArray[np.float32], enough: float) -> int | None:
    """The number of the first episode at which the mean of the last ones is high enough."""
    if len(returns) < SOLVED_OVER:
        return None
    means = np.convolve(returns, np.ones(SOLVED_OVER) / SOLVED_OVER, "valid")
    found = np.flatnonzero(means >= enough)
    return int(found[0]) + SOLVED_OVER if len(found) else None
