"""Cases whose result is known without running the protocol."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.engine.one_round import run_round
from mix2fld.engine.state import RunState
from mix2fld.models import mlp
from mix2fld.runs.simulation import Simulation, make_simulation, run
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.sgd import LearnerProgress, TrainingSetup, begin_steps, sgd_steps
from mix2fld.tasks.stepper import draw_samples
from mix2fld.tasks.xla import tensors_of
from mix2fld.types import Samples, Tensors
from toys import LABELS, SIDE, toy_config, toy_dataset


def final_state(**fields: object) -> tuple[Simulation, RunState]:
    config = toy_config(**fields)
    simulation = make_simulation(config, toy_dataset())
    state = simulation.start()
    for _ in range(config.rounds):
        state, _ = simulation.run_round(state)
    return simulation, state


def weights_of(state: RunState) -> Tensors:
    """All weights of all devices."""
    return tuple(tensor for device in state.devices for tensor in device["weights"])


def assert_same(left: Tensors, right: Tensors, tolerance: float = 0.0) -> None:
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def plain_sgd(config: Config, start: Tensors, images: Any, targets: Any, draws: Any) -> Tensors:
    """The steps of Eq. 1 from ``start``, without devices or rounds."""
    learner = TrainingSetup.from_config(mlp((SIDE, SIDE, 1), LABELS), config.learning)
    names = ("linear1", "linear2")
    tree = {
        name: {"bias": jnp.asarray(start[2 * layer]), "kernel": jnp.asarray(start[2 * layer + 1])}
        for layer, name in enumerate(names)
    }
    begun = begin_steps(learner, (LABELS, LABELS), tree)
    sets = (Samples(jnp.asarray(images), jnp.asarray(targets)),)
    run = LearnerProgress(begun, jnp.zeros((LABELS, LABELS)), jnp.asarray(draws))
    steps = sgd_steps(learner, label_loss, sets, run)
    return tensors_of(steps.phase.weights)


def test_fd_without_distillation_is_isolated_devices() -> None:
    _, fd = final_state(protocol="fd", distillation_weight=0)
    _, isolated = final_state(protocol="isolated")
    assert_same(weights_of(fd), weights_of(isolated))


def test_fd_with_distillation_is_not() -> None:
    _, fd = final_state(protocol="fd", distillation_weight=0.5)
    _, isolated = final_state(protocol="isolated")
    with pytest.raises(AssertionError):
        assert_same(weights_of(fd), weights_of(isolated), tolerance=1e-3)


def test_fl_with_one_device_is_plain_sgd() -> None:
    simulation, state = final_state(protocol="fl", devices=1)
    learning, part = simulation.scenario.learning, simulation.fleet.parts[0]
    data, steps = toy_dataset(), learning.config.learning.local_steps
    draws = np.concatenate(
        [part[draw_samples(stream(0, "draws", p, 0), len(part), steps, 1)] for p in (1, 2)]
    )
    targets = one_hot(data.train_labels, 4)
    plain = plain_sgd(
        learning.config, learning.initial_weights(0), data.train_inputs, targets, draws
    )
    assert_same(state.devices[0]["weights"], plain, 1e-6)


def test_fl_at_one_step_is_gradient_descent_on_the_mean_loss() -> None:
    """With K = 1 and batches of all samples, averaging weights averages gradients."""
    fields = {"local_steps": 1, "rounds": 1, "curve_points": 1, "batch_size": 40, "devices": 3}
    simulation, state = final_state(protocol="fl", **fields)
    learning, data = simulation.scenario.learning, toy_dataset()
    draws = np.concatenate(
        [
            part[draw_samples(stream(0, "draws", 1, device), len(part), 1, 40)]
            for device, part in enumerate(simulation.fleet.parts)
        ],
        axis=1,
    )
    targets = one_hot(data.train_labels, 4)
    central = plain_sgd(
        learning.config, learning.initial_weights(0), data.train_inputs, targets, draws
    )
    assert state.server.weights is not None
    assert_same(state.server.weights, central, 1e-6)


def test_fld_with_all_samples_as_seeds_and_no_distillation_is_server_sgd() -> None:
    fields = {"seed_samples": 40, "rounds": 1, "distillation_weight": 0}
    simulation, state = final_state(protocol="fld", **fields)
    learning, data = simulation.scenario.learning, toy_dataset()
    seeds = state.server.seed_set
    held = np.sort(np.concatenate(simulation.fleet.parts))
    order = np.lexsort(seeds.inputs.reshape(len(held), -1).T)
    expected = np.lexsort(data.train_inputs[held].reshape(len(held), -1).T)
    np.testing.assert_array_equal(seeds.inputs[order], data.train_inputs[held][expected])
    np.testing.assert_array_equal(
        seeds.targets[order].argmax(axis=1), data.train_labels[held][expected]
    )
    draws = draw_samples(stream(0, "conversion", 1), len(held), 20, 1)
    plain = plain_sgd(learning.config, learning.common_weights, seeds.inputs, seeds.targets, draws)
    assert_same(state.server.weights, plain, 1e-6)


def test_many_bits_of_quantisation_approach_full_precision() -> None:
    weights = [final_state(protocol=name, rounds=1)[1].server.weights for name in ("fl", "fl8")]
    coarse = final_state(protocol="fl4", rounds=1)[1].server.weights
    apart = [
        max(float(np.abs(a - b).max()) for a, b in zip(*pair, strict=True))
        for pair in ((weights[0], weights[1]), (weights[0], coarse))
    ]
    assert 0 < apart[0] < apart[1] / 8


def test_inverse_mixup_of_one_shared_pair_gives_the_raw_samples_back() -> None:
    """Devices that hold the same two samples mix the same pair; undoing it leaves the raw ones."""
    from mix2fld.data.samples import Coding
    from mix2fld.protocols.inverse_mixup import Groups, Pool, unmix
    from mix2fld.types import SampleFormat

    raw = np.array([[10.0, 200.0], [250.0, 30.0]])
    ratios = (0.2, 0.8)
    mixed = np.stack([0.2 * raw[0] + 0.8 * raw[1], 0.8 * raw[0] + 0.2 * raw[1]])
    pool = Pool(
        inputs=(mixed / 255).astype(np.float32).reshape(2, 1, 2, 1),
        labels=np.array([[0, 1], [1, 0]], np.int32),
        device=np.array([0, 1]),
    )
    groups = Groups(members=np.array([[0, 1]]), labels=np.array([[0, 1]], np.int32))
    coding = Coding(SampleFormat((1, 2, 1)), 32)
    unmixed = unmix(pool, groups, ratios, coding).reshape(2, 2) * 255
    np.testing.assert_allclose(unmixed, raw, atol=1e-3)


def test_measured_time_leaves_compiling_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is run once more, unmeasured, and changes nothing but the clock."""
    numbers = []

    def counted(scenario: Any, fleet: Any, state: RunState) -> Any:
        numbers.append(state.round_number)
        return run_round(scenario, fleet, state)

    monkeypatch.setattr("mix2fld.runs.simulation.run_round", counted)
    config = toy_config(protocol="mix2fld", curve_points=1)
    (measured,) = run(config.replace(computing_time="measured"), dataset=toy_dataset())
    assert numbers == [0]
    assert len(measured.rounds) == config.rounds
    assert all(line["seconds"]["computing"] > 0 for line in measured.rounds)
    (stated,) = run(config, dataset=toy_dataset())
    assert numbers == [0]
    for one, other in zip(measured.rounds, stated.rounds, strict=True):
        for kept in ("scores", "uploads", "downloads", "bits", "slots", "change", "seeds"):
            assert one[kept] == other[kept]
