"""Federated reinforcement learning: the environment to the digit, payloads to the bit."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mix2fld.codecs import Encoded
from mix2fld_lab.rl import experiment
from mix2fld_lab.rl.agents import make_agents
from mix2fld_lab.rl.cartpole import CARTPOLE, State, has_fallen, step
from mix2fld_lab.rl.environment import Environment
from mix2fld_lab.rl.exchange import rows_of, with_rows
from mix2fld_lab.rl.experiment import AGENTS, SETTINGS, episodes_until_solved, run_experiment
from mix2fld_lab.rl.glucose import GLUCOSE
from mix2fld_lab.rl.page import interval, page
from mix2fld_lab.rl.proxies import (
    Mix2FRD,
    decode_proxies,
    encode_proxies,
    mean_memory,
    preferred,
)
from mix2fld_lab.rl.table import EXCHANGES


@pytest.mark.parametrize("length", [0.5, 0.25, 0.75])
def test_an_episode_is_that_of_gymnasium_to_the_digit(length: float) -> None:
    env = gymnasium.make("CartPole-v1").unwrapped
    env.length, env.polemass_length = length, env.masspole * length
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.reset(seed=int(rng.integers(1000)))
        mine, fallen = State(*(np.float64(x) for x in env.state)), False
        while not fallen:
            action = int(rng.integers(2))
            _, _, fallen, _, _ = env.step(action)
            mine = step(np, mine, np.float64(action), length)
            np.testing.assert_array_equal(np.array(mine), np.array(env.state, np.float64))
            assert bool(has_fallen(mine)) == fallen


def test_the_compiled_step_is_the_same_in_single_precision() -> None:
    rng = np.random.default_rng(1)
    states = rng.uniform(-1, 1, (50, CARTPOLE.numbers)).astype(np.float32)
    actions = rng.integers(2, size=50)
    compiled = jax.jit(jax.vmap(lambda s, a: jnp.stack(step(jnp, State(*s), a))))
    found = compiled(states, actions.astype(np.float32))
    for state, action, after in zip(states.astype(np.float64), actions, found, strict=True):
        np.testing.assert_allclose(after, step(np, State(*state), action), rtol=0, atol=3e-6)


@pytest.mark.parametrize("world", [CARTPOLE, GLUCOSE])
def test_a_proxy_state_lies_in_its_own_cell(world: Environment) -> None:
    cells = np.asarray(world.proxy_of(jnp.asarray(world.proxy_states)))
    np.testing.assert_array_equal(cells, np.arange(world.proxies))
    assert int(world.proxy_of(jnp.asarray(100 * world.span))) == world.proxies - 1


LAST = CARTPOLE.proxies - 1


@pytest.mark.parametrize("world", [CARTPOLE, GLUCOSE])
@pytest.mark.parametrize("visited", [[], [0], [3, 77, LAST], list(range(200))])
def test_proxy_memories_are_carried_to_the_bit(world: Environment, visited: list[int]) -> None:
    """Of three actions, two probabilities are carried."""
    policies = np.zeros((world.proxies, world.actions - 1), np.float32)
    which = np.zeros(world.proxies, np.bool_)
    rng = np.random.default_rng(0)
    policies[visited] = rng.random((len(visited), world.actions - 1), np.float32)
    which[visited] = True
    sent = encode_proxies(world, policies, which)
    own = 4 * (world.actions - 1)
    assert sent.bits == len(visited) * (13 + 8 * own)
    assert len(sent.data) == -(-len(visited) * 13 // 8) + own * len(visited)
    again, known = decode_proxies(world, *sent)
    np.testing.assert_array_equal(again, policies)
    np.testing.assert_array_equal(known, which)


def test_a_mean_memory_counts_those_who_visited() -> None:
    def memory(values: dict[int, float]) -> Encoded:
        policies = np.zeros((CARTPOLE.proxies, 1), np.float32)
        which = np.zeros(CARTPOLE.proxies, np.bool_)
        policies[list(values), 0], which[list(values)] = list(values.values()), True
        return encode_proxies(CARTPOLE, policies, which)

    inbox = {0: memory({1: 0.5, 2: 0.25}), 3: memory({2: 0.75})}
    policies, known = mean_memory(CARTPOLE, inbox)
    assert policies[[1, 2], 0].tolist() == [0.5, 0.5]
    assert np.flatnonzero(known).tolist() == [1, 2]


def test_the_preferred_action_is_the_likeliest() -> None:
    of_three = np.array([[0.2, 0.3], [0.6, 0.1], [0.1, 0.8], [0.5, 0.0]], np.float32)
    assert preferred(of_three).tolist() == [0, 1, 2, 0]
    assert preferred(np.array([[0.4], [0.6]], np.float32)).tolist() == [0, 1]


def test_weights_go_to_those_who_hear() -> None:
    weights = make_agents(CARTPOLE, jax.random.PRNGKey(0), np.full(3, 0.5)).weights
    rows = rows_of(weights)
    other = rows[:1] + 1
    who = np.array([True, False, True])
    found = rows_of(with_rows(weights, other, who))
    np.testing.assert_array_equal(found[[0, 2]], np.repeat(other, 2, axis=0))
    np.testing.assert_array_equal(found[1], rows[1])


class _Of:
    """A round of which only the world, the seed and the number are asked."""

    seed, number = 0, 1

    def __init__(self, world: Environment) -> None:
        self.world = world


@pytest.mark.parametrize(("world", "labels"), [(CARTPOLE, (0, 1)), (GLUCOSE, (0, 2))])
def test_mixes_of_two_agents_give_their_states_back(
    world: Environment, labels: tuple[int, int]
) -> None:
    """If both agents mix the same two states with swapped labels, unmixing is exact."""
    left, right = np.array([0.1, -0.2, 0.05, 0.3]), np.array([-0.4, 0.6, -0.1, -0.2])
    own = Mix2FRD()
    mixed = [0.1 * left + 0.9 * right, 0.1 * right + 0.9 * left]
    states: list[NDArray] = [mixed[0][None], mixed[1][None]]
    pairs = [np.array([labels]), np.array([labels[::-1]])]
    found = own._unmixed(_Of(world), states, pairs, [np.array([4]), np.array([7])])
    assert found is not None
    made, of_each = found
    np.testing.assert_allclose(made[of_each == labels[0]][0], left, atol=1e-6)
    np.testing.assert_allclose(made[of_each == labels[1]][0], right, atol=1e-6)
    assert own._unmixed(_Of(world), states, pairs, [np.array([4]), np.array([4])]) is None
    alike = [pairs[0], pairs[0]]
    assert own._unmixed(_Of(world), states, alike, [np.array([4]), np.array([7])]) is None


def test_solved_is_when_the_mean_of_the_last_episodes_is_high() -> None:
    returns = np.concatenate([np.full(30, 100.0), np.full(40, 500.0)])
    assert episodes_until_solved(returns, 475) == 30 + 19  # 19 of 20 at 500, one at 100: 480
    assert episodes_until_solved(np.full(70, 470.0), 475) is None
    assert interval([1.0, 3.0]) == "2 ± 13"


@pytest.mark.long
@pytest.mark.parametrize("name", list(EXCHANGES))
def test_every_exchange_runs_and_charges_what_it_carries(name: str, monkeypatch) -> None:
    carried: list[Encoded] = []
    cls = type(EXCHANGES[name])
    upload = cls.upload

    def spied(self, *given):
        carried.append(upload(self, *given))
        return carried[-1]

    monkeypatch.setattr(cls, "upload", spied)
    monkeypatch.setattr(experiment, "EPISODES_A_ROUND", 5)
    record = run_experiment(name, SETTINGS["differ"], 0, episodes=10)
    assert len(record["returns"]) == 10
    assert sum(one["bits_up"] for one in record["rounds"]) == sum(sent.bits for sent in carried)
    for sent in carried:
        assert 0 <= 8 * len(sent.data) - sent.bits < 8 * 3  # whole bytes of up to three parts
    again = run_experiment(name, SETTINGS["differ"], 0, episodes=10)
    assert again == record
    assert len(record["last"]) == AGENTS
    assert EXCHANGES[name].title in page([record, {**record, "seed": 1}])
