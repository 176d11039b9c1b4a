"""Cases whose result is known without running the protocol."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mix2fld.learning.steps import begin_phase, draw_samples, label_loss, one_hot, sgd_steps

from mix2fld.runs.simulation import make_simulation
from mix2fld.streams import stream
from mix2fld.types import Weights
from toys import toy_config, toy_dataset


def final_state(**fields: object):
    simulation = make_simulation(toy_config(**fields), toy_dataset())
    state = simulation.start()
    for _ in range(simulation.task.config.rounds):
        state, _ = simulation.run_round(state)
    return simulation, state


def assert_same(left: Weights, right: Weights, tolerance: float = 0.0) -> None:
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def test_fd_without_distillation_is_isolated_devices() -> None:
    _, fd = final_state(protocols="fd", distillation_weight=0)
    _, isolated = final_state(protocols="isolated")
    assert_same(fd.weights, isolated.weights)


def test_fd_with_distillation_is_not() -> None:
    _, fd = final_state(protocols="fd", distillation_weight=0.5)
    _, isolated = final_state(protocols="isolated")
    with pytest.raises(AssertionError):
        assert_same(fd.weights, isolated.weights, tolerance=1e-3)


def test_fl_with_one_device_is_plain_sgd() -> None:
    simulation, state = final_state(protocols="fl", devices=1)
    task, part, config = simulation.task, simulation.parts[0], simulation.task.config.learning
    data = toy_dataset()
    phase = begin_phase(task.learner, task.initial_weights(0), 4)
    draws = np.concatenate(
        [
            part[draw_samples(stream(0, "draws", p, 0), len(part), config.local_steps, 1)]
            for p in (1, 2)
        ]
    )
    images, targets = jnp.asarray(data.train_images), jnp.asarray(one_hot(data.train_labels, 4))
    plain = sgd_steps(
        task.learner, label_loss, phase, images, targets, jnp.zeros((4, 4)), jnp.asarray(draws)
    )
    assert_same(jax.tree.map(lambda tensor: tensor[0], state.weights), plain.weights, 1e-6)


def test_fl_at_one_step_is_gradient_descent_on_the_mean_loss() -> None:
    """With K = 1 and batches of all samples, averaging weights averages gradients."""
    fields = {"local_steps": 1, "rounds": 1, "curve_points": 1, "batch_size": 40, "devices": 3}
    simulation, state = final_state(protocols="fl", **fields)
    task, data = simulation.task, toy_dataset()
    draws = np.concatenate(
        [
            part[draw_samples(stream(0, "draws", 1, device), len(part), 1, 40)]
            for device, part in enumerate(simulation.parts)
        ],
        axis=1,
    )
    phase = begin_phase(task.learner, task.initial_weights(0), 4)
    images, targets = jnp.asarray(data.train_images), jnp.asarray(one_hot(data.train_labels, 4))
    central = sgd_steps(
        task.learner, label_loss, phase, images, targets, jnp.zeros((4, 4)), jnp.asarray(draws)
    )
    assert_same(state.server.weights, central.weights, 1e-6)


def test_fld_with_all_samples_as_seeds_and_no_distillation_is_server_sgd() -> None:
    fields = {"seed_samples": 40, "rounds": 1, "distillation_weight": 0}
    simulation, state = final_state(protocols="fld", **fields)
    task, data = simulation.task, toy_dataset()
    seeds = state.server.seed_set
    held = np.sort(np.concatenate(simulation.parts))
    order = np.lexsort(seeds.images.reshape(len(held), -1).T)
    expected = np.lexsort(data.train_images[held].reshape(len(held), -1).T)
    np.testing.assert_array_equal(seeds.images[order], data.train_images[held][expected])
    np.testing.assert_array_equal(
        seeds.targets[order].argmax(axis=1), data.train_labels[held][expected]
    )
    draws = draw_samples(stream(0, "conversion", 1), len(held), 20, 1)
    plain = sgd_steps(
        task.learner,
        label_loss,
        begin_phase(task.learner, task.common_weights(), 4),
        jnp.asarray(seeds.images),
        jnp.asarray(seeds.targets),
        jnp.zeros((4, 4)),
        jnp.asarray(draws),
    )
    assert_same(state.server.weights, plain.weights, 1e-6)


def test_many_bits_of_quantisation_approach_full_precision() -> None:
    weights = [final_state(protocols=name, rounds=1)[1].server.weights for name in ("fl", "fl8")]
    coarse = final_state(protocols="fl4", rounds=1)[1].server.weights
    apart = [
        max(float(jnp.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
        for pair in ((weights[0], weights[1]), (weights[0], coarse))
    ]
    assert 0 < apart[0] < apart[1] / 8


def test_inverse_mixup_of_one_shared_pair_gives_the_raw_samples_back() -> None:
    """Devices that hold the same two samples mix the same pair; undoing it leaves the raw ones."""
    from mix2fld.server.inverse_mixup import Groups, Pool, unmix

    raw = np.array([[10.0, 200.0], [250.0, 30.0]])
    ratios = (0.2, 0.8)
    mixed = np.stack([0.2 * raw[0] + 0.8 * raw[1], 0.8 * raw[0] + 0.2 * raw[1]])
    pool = Pool(
        images=(mixed / 255).astype(np.float32).reshape(2, 1, 2, 1),
        labels=np.array([[0, 1], [1, 0]], np.int32),
        device=np.array([0, 1]),
    )
    groups = Groups(members=np.array([[0, 1]]), labels=np.array([[0, 1]], np.int32))
    unmixed = unmix(pool, groups, ratios).reshape(2, 2) * 255
    np.testing.assert_allclose(unmixed, raw, atol=1e-3)


def test_measured_time_leaves_compiling_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round is played once more, unmeasured, and changes nothing but the clock."""
    config = toy_config(protocols="mix2fld", curve_points=1)
    simulation = make_simulation(config.replace(computing_time="measured"), toy_dataset())
    steps, calls = simulation.trainer.steps, []
    monkeypatch.setattr(
        simulation.trainer, "steps", lambda *given: [calls.append(None), steps(*given)][1]
    )
    state = simulation.start()
    for expected_calls in (2, 3):
        state, info = simulation.run_round(state)
        assert len(calls) == expected_calls
        assert info.seconds["computing"] > 0
    assert_same(state.weights, final_state(protocols="mix2fld", curve_points=1)[1].weights)
