"""Speed of reinforcement learning: the compiled loop against a plain PyTorch + gymnasium loop.

Both play CartPole-v1 with the same network, the same loss and one Adam step an episode. What counts
are steps of the environment a second: of ten agents here, of one agent there, on the same cores.
"""

import time

import gymnasium
import jax
import numpy as np
import torch
import tyro

from mix2fld_lab.rl.agents import (
    DISCOUNT,
    ENTROPY,
    HIDDEN,
    RATE,
    REACH,
    VALUE_WEIGHT,
    local_phase,
    make_agents,
)
from mix2fld_lab.rl.experiment import AGENTS


def network(outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(4, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs),
    )  # fmt: skip


def plain_steps(episodes: int) -> int:
    """Steps of one agent in a plain loop."""
    env, actor, critic = gymnasium.make("CartPole-v1"), network(2), network(1)
    adam = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=RATE)
    total, reach = 0, torch.tensor(REACH)
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
    agents = make_agents(jax.random.PRNGKey(0), np.full(AGENTS, 0.5))
    keys = jax.random.split(jax.random.PRNGKey(1), AGENTS)
    _, done = local_phase(agents, keys, episodes)
    return int(np.asarray(done.returns).sum())


def main(episodes: int = 200, plain_episodes: int = 100) -> None:
    """Print steps a second of both, and their ratio; compiling is not counted."""
    torch.set_num_threads(1)  # faster than several for so small a network
    compiled_steps(episodes)
    rates = []
    for play, count in ((compiled_steps, episodes), (plain_steps, plain_episodes)):
        started = time.perf_counter()
        steps = play(count)
        rates.append(steps / (time.perf_counter() - started))
    print(f"compiled loop: {rates[0]:,.0f} steps/s, {AGENTS} agents")
    print(f"PyTorch + gymnasium: {rates[1]:,.0f} steps/s, one agent")
    print(f"ratio: {rates[0] / rates[1]:.1f}")


if __name__ == "__main__":
    tyro.cli(main)
