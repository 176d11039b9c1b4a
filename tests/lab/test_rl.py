"""Federated reinforcement learning: the environment to the digit, payloads to the bit."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mix2fld.codecs import Encoded
from mix2fld_lab.rl import experiment
from mix2fld_lab.rl.agents import NUMBERS, PROXIES, REACH, make_agents, proxy_of, proxy_states
from mix2fld_lab.rl.cartpole import State, has_fallen, step
from mix2fld_lab.rl.exchange import rows_of, with_rows
from mix2fld_lab.rl.experiment import AGENTS, SETTINGS, episodes_until_solved, run_experiment
from mix2fld_lab.rl.page import interval, page
from mix2fld_lab.rl.proxies import INDEX_BITS, Mix2FRD, decode_proxies, encode_proxies, mean_memory
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
    states = rng.uniform(-1, 1, (50, NUMBERS)).astype(np.float32)
    actions = rng.integers(2, size=50)
    compiled = jax.jit(jax.vmap(lambda s, a: jnp.stack(step(jnp, State(*s), a))))
    found = compiled(states, actions.astype(np.float32))
    for state, action, after in zip(states.astype(np.float64), actions, found, strict=True):
        np.testing.assert_allclose(after, step(np, State(*state), action), rtol=0, atol=3e-6)


def test_a_proxy_state_lies_in_its_own_cell() -> None:
    cells = np.asarray(proxy_of(jnp.asarray(proxy_states())))
    np.testing.assert_array_equal(cells, np.arange(PROXIES))
    assert int(proxy_of(jnp.asarray(100 * REACH))) == PROXIES - 1


@pytest.mark.parametrize("visited", [[], [0], [3, 77, PROXIES - 1], list(range(200))])
def test_proxy_memories_are_carried_to_the_bit(visited: list[int]) -> None:
    policies, which = np.zeros(PROXIES, np.float32), np.zeros(PROXIES, np.bool_)
    policies[visited] = np.random.default_rng(0).random(len(visited), np.float32)
    which[visited] = True
    sent = encode_proxies(policies, which)
    assert sent.bits == len(visited) * (INDEX_BITS + 32)
    assert len(sent.data) == -(-len(visited) * INDEX_BITS // 8) + 4 * len(visited)
    again, known = decode_proxies(*sent)
    np.testing.assert_array_equal(again, policies)
    np.testing.assert_array_equal(known, which)


def test_a_mean_memory_counts_those_who_visited() -> None:
    def memory(values: dict[int, float]) -> Encoded:
        policies, which = np.zeros(PROXIES, np.float32), np.zeros(PROXIES, np.bool_)
        policies[list(values)], which[list(values)] = list(values.values()), True
        return encode_proxies(policies, which)

    policies, known = mean_memory({0: memory({1: 0.5, 2: 0.25}), 3: memory({2: 0.75})})
    assert policies[[1, 2]].tolist() == [0.5, 0.5]
    assert np.flatnonzero(known).tolist() == [1, 2]


def test_weights_go_to_those_who_hear() -> None:
    weights = make_agents(jax.random.PRNGKey(0), np.full(3, 0.5)).weights
    rows = rows_of(weights)
    other = rows[:1] + 1
    who = np.array([True, False, True])
    found = rows_of(with_rows(weights, other, who))
    np.testing.assert_array_equal(found[[0, 2]], np.repeat(other, 2, axis=0))
    np.testing.assert_array_equal(found[1], rows[1])


class _Of:
    """A round of which only the seed and the number are asked."""

    seed, number = 0, 1


def test_mixes_of_two_agents_give_their_states_back() -> None:
    """If both agents mix the same two states with swapped sides, unmixing is exact."""
    left, right = np.array([0.1, -0.2, 0.05, 0.3]), np.array([-0.4, 0.6, -0.1, -0.2])
    own = Mix2FRD()
    mixed = [0.1 * left + 0.9 * right, 0.1 * right + 0.9 * left]
    states: list[NDArray] = [mixed[0][None], mixed[1][None]]
    sides = [np.array([0]), np.array([1])]
    found = own._unmixed(_Of(), states, sides, [np.array([4]), np.array([7])])
    assert found is not None
    made, labels = found
    np.testing.assert_allclose(made[labels == 0][0], left, atol=1e-6)
    np.testing.assert_allclose(made[labels == 1][0], right, atol=1e-6)
    assert own._unmixed(_Of(), states, sides, [np.array([4]), np.array([4])]) is None


def test_solved_is_when_the_mean_of_the_last_episodes_is_high() -> None:
    returns = np.concatenate([np.full(30, 100.0), np.full(40, 500.0)])
    assert episodes_until_solved(returns) == 30 + 19  # 19 of 20 at 500, one at 100: 480
    assert episodes_until_solved(np.full(70, 470.0)) is None
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
