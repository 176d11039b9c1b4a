"""Speed of reinforcement learning: the compiled loop against a plain PyTorch + gymnasium loop.

Both play CartPole-v1 with the same network, the same loss and one Adam step an episode. What counts
are steps of the environment a second of processor time, which other work on the machine does not
change much: of ten agents here, of one agent there.
"""

import json
import os
import time
from pathlib import Path

import gymnasium
import jax
import numpy as np
import torch
import tyro

from benchmarks import machine
from mix2fld.base.files import write_atomic
from mix2fld_lab.rl.agents import (
    DISCOUNT,
    ENTROPY,
    HIDDEN,
    VALUE_WEIGHT,
    local_phase,
    make_agents,
)
from mix2fld_lab.rl.cartpole import CARTPOLE, HALF_LENGTH
from mix2fld_lab.rl.experiment import AGENTS

RECORD = Path(__file__).parent.parent / "results" / "bench" / "rl.json"


def network(outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(4, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs),
    )  # fmt: skip


def plain_steps(episodes: int) -> int:
    """Steps of one agent in a plain loop."""
    env, actor, critic = gymnasium.make("CartPole-v1"), network(2), network(1)
    adam = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=CARTPOLE.rate)
    total, reach = 0, torch.tensor(CARTPOLE.span)
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        states, actions, done = [], [], False
        while not done:
            states.append(torch.as_tensor(state) / reach)
            with torch.no_grad():
                chances = torch.softmax(actor(states[-1]), -1)
            actions.append(int(torch.multinomial(chances, 1)))
            state, _, fallen, late, _ = env.step(actions[-1])
            done = fallen or late
        returns, after = [], 0.0
        for _ in actions:
            after = 1 + DISCOUNT * after
            returns.append(after)
        aims = torch.tensor(returns[::-1])
        seen = torch.stack(states)
        estimates, logs = critic(seen)[:, 0], torch.log_softmax(actor(seen), -1)
        gains = aims - estimates.detach()
        chosen = logs[torch.arange(len(actions)), torch.tensor(actions)]
        policy = -(chosen * gains / gains.pow(2).mean().sqrt()).mean()
        value = (estimates - aims).pow(2).mean() * (1 - DISCOUNT) ** 2
        entropy = -(logs.exp() * logs).sum(-1).mean()
        adam.zero_grad()
        (policy + VALUE_WEIGHT * value - ENTROPY * entropy).backward()
        adam.step()
        total += len(actions)
    return total


def compiled_steps(episodes: int) -> int:
    """Steps of all agents in the compiled loop."""
    agents = make_agents(CARTPOLE, jax.random.PRNGKey(0), np.full(AGENTS, HALF_LENGTH))
    keys = jax.random.split(jax.random.PRNGKey(1), AGENTS)
    _, done = local_phase(CARTPOLE, agents, keys, episodes)
    return int(np.asarray(done.returns).sum())


def main(episodes: int = 200, plain_episodes: int = 100, record: Path = RECORD) -> None:
    """Measure both, after what has to be compiled; print and record steps a processor second."""
    torch.set_num_threads(1)  # faster than several for so small a network
    compiled_steps(episodes)
    rates, busy = [], os.getloadavg()[0]
    for play, count in ((compiled_steps, episodes), (plain_steps, plain_episodes)):
        started = time.process_time()
        steps = play(count)
        rates.append(steps / (time.process_time() - started))
    found = {
        "compiled": {"agents": AGENTS, "episodes": episodes, "steps_s": round(rates[0])},
        "plain": {"agents": 1, "episodes": plain_episodes, "steps_s": round(rates[1])},
    }
    whole = {"machine": machine.describe(), "load": busy, **found}
    write_atomic(record, (json.dumps(whole, indent=1) + "\n").encode())
    print(f"compiled loop: {rates[0]:,.0f} steps a second, {AGENTS} agents")
    print(f"PyTorch + gymnasium: {rates[1]:,.0f} steps a second, one agent")
    print(f"ratio: {rates[0] / rates[1]:.1f}")


if __name__ == "__main__":
    tyro.cli(main)
