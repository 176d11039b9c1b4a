"""PyTorch takes the steps that XLA takes: the same network, the same draws, the same weights."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import check_model, from_torch, mlp, paper_cnn
from mix2fld.tasks import sgd, torch_steps
from mix2fld.tasks.losses import Loss, distillation_loss, label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Stepper, Watch, draw_samples
from mix2fld.types import Model, Phase, Samples, Tensors
from torch_modules import perceptron, small_cnn, with_batch_norm, with_dropout
from toys import examples, toy_dataset

SHAPE = (8, 8, 1)
Arrays = tuple[np.ndarray, ...]


def jax_mlp() -> Model:
    return mlp(SHAPE, 4, hidden=(8,))


def to_torch_mlp(tensors: Tensors) -> Tensors:
    """Kernels before biases; both libraries have kernels [O, F] and features (C, H, W)."""
    bias1, kernel1, bias2, kernel2 = tensors
    return kernel1, bias1, kernel2, bias2


def to_torch_cnn(tensors: Tensors) -> Tensors:
    """Kernels [3, 3, C, O] as [O, C, 3, 3]."""
    bias1, kernel1, bias2, kernel2, bias3, kernel3 = tensors
    convolutions = (kernel.transpose(3, 2, 0, 1) for kernel in (kernel1, kernel2))
    first, second = (np.ascontiguousarray(kernel) for kernel in convolutions)
    return first, bias1, second, bias2, kernel3, bias3


NETWORKS: dict[str, tuple[Callable[[], Model], Callable[[], nn.Module], Any]] = {
    "mlp": (jax_mlp, partial(perceptron, SHAPE, 4), to_torch_mlp),
    "cnn": (partial(paper_cnn, SHAPE, 4), partial(small_cnn, SHAPE, 4), to_torch_cnn),
}


def case(batch_size: int) -> tuple[Samples, Start, np.ndarray]:
    """Soft labels, a teacher with an unknown row, an offset, a rate of its own."""
    data, rng = toy_dataset(), np.random.default_rng(0)
    targets = 0.8 * one_hot(data.train_labels, 4) + 0.2 * rng.dirichlet(np.ones(4), 240)
    teacher = rng.dirichlet(np.ones(4), 4).astype(np.float32)
    teacher[2] = 0
    offset = rng.normal(size=4).astype(np.float32)
    start = Start((), teacher, logit_offset=offset, rate_factor=0.7)
    return (
        Samples(data.train_inputs, targets.astype(np.float32)),
        start,
        draw_samples(rng, 240, 100, batch_size),
    )


def trained(stepper: Stepper, samples: Samples, start: Start, draws: np.ndarray) -> Phase:
    held = stepper.hold(samples)
    learned = stepper.train(distillation_loss, held, [start], [draws], Watch(0, (len(draws),)))
    return learned.phases[0]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_the_same_weights_as_jax_after_100_steps(network: str, optimizer: str) -> None:
    make_jax, make_torch, to_torch = NETWORKS[network]
    rate = {"sgd": 0.1, "momentum": 0.02, "adam": 0.003}[optimizer]
    config = LearningConfig(
        optimizer=optimizer, learning_rate=rate, distillation_weight=0.5, batch_size=4
    )
    samples, start, draws = case(batch_size=4)
    by_jax = choose_stepper(make_jax(), config.model_copy(update={"kernel": "xla"}))
    by_torch = choose_stepper(from_torch(make_torch), config)
    assert (by_jax.name, by_torch.name) == ("xla", "pytorch")
    begun = by_jax.draw_weights(1)
    expected = trained(by_jax, samples, start._replace(weights=begun), draws)
    found = trained(by_torch, samples, start._replace(weights=to_torch(begun)), draws)
    moved = 0.0
    for before, one, other in zip(
        to_torch(begun), to_torch(expected.weights), found.weights, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        moved = max(moved, float(np.abs(one - before).max()))
    assert moved > 0.05
    np.testing.assert_allclose(expected.output_sums, found.output_sums, rtol=1e-5)
    np.testing.assert_allclose(expected.label_counts, found.label_counts, rtol=1e-6)


@pytest.mark.parametrize(
    "fields", [{"soft_label_teacher": "dominant"}, {"distillation_loss": "printed"}]
)
def test_the_other_readings_of_psi_are_those_of_jax(fields: dict[str, str]) -> None:
    config = LearningConfig(learning_rate=0.1, distillation_weight=0.3, batch_size=2, **fields)
    samples, start, draws = case(batch_size=2)
    by_jax = choose_stepper(jax_mlp(), config)
    by_torch = choose_stepper(from_torch(partial(perceptron, SHAPE, 4)), config)
    begun = by_jax.draw_weights(1)
    expected = trained(by_jax, samples, start._replace(weights=begun), draws)
    found = trained(by_torch, samples, start._replace(weights=to_torch_mlp(begun)), draws)
    for one, other in zip(to_torch_mlp(expected.weights), found.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_both_libraries_have_the_same_optimizers() -> None:
    assert set(torch_steps.OPTIMIZERS) == set(sgd.OPTIMIZERS)
    with pytest.raises(InputError, match="'sdg': no such optimizer for PyTorch modules; did you"):
        choose_stepper(from_torch(partial(perceptron, SHAPE, 4)), LearningConfig(optimizer="sdg"))


PLAIN: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "adam": torch.optim.Adam,
}


def plain_loop(
    module: nn.Module, optimizer: torch.optim.Optimizer, samples: Samples, draws: np.ndarray
) -> np.ndarray:
    """What a user of PyTorch writes; returns the outputs of all steps."""
    inputs = torch.tensor(samples.inputs).permute(0, 3, 1, 2).float() / 255
    targets = torch.tensor(samples.targets)
    seen = []
    module.train()
    for rows in torch.tensor(draws).long():
        optimizer.zero_grad()
        logits = module(inputs[rows])
        nn.functional.cross_entropy(logits, targets[rows]).backward()
        optimizer.step()
        seen.append(logits.detach().softmax(-1).numpy())
    return np.stack(seen)


@examples(15)
@given(
    optimizer=st.sampled_from(sorted(PLAIN)),
    batch_size=st.integers(1, 5),
    steps=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_same_as_a_plain_loop(optimizer: str, batch_size: int, steps: int, seed: int) -> None:
    data, rng = toy_dataset(), np.random.default_rng(seed)
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(rng, 240, steps, batch_size)
    stepper = choose_stepper(
        from_torch(partial(perceptron, SHAPE, 4)),
        LearningConfig(optimizer=optimizer, learning_rate=0.01),
    )
    begun = stepper.draw_weights(seed)
    module = perceptron(SHAPE, 4)
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), begun, strict=True):
            parameter.copy_(torch.tensor(value))
    outputs = plain_loop(module, PLAIN[optimizer](module.parameters(), lr=0.01), samples, draws)
    start = Start(begun, np.zeros((4, 4), np.float32))
    found = trained(stepper, samples, start, draws)
    for one, other in zip(module.parameters(), found.weights, strict=True):
        np.testing.assert_allclose(one.detach(), other, rtol=0, atol=1e-6)
    truth = samples.targets[draws].reshape(-1, 4)
    np.testing.assert_allclose(found.output_sums, truth.T @ outputs.reshape(-1, 4), atol=1e-5)
    np.testing.assert_array_equal(found.label_counts, truth.sum(axis=0))


class Tied(nn.Module):
    """One parameter in two places, one that is frozen, one that only some batches use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.last = nn.Linear(64, 4)
        self.last.bias.requires_grad_(False)
        self.rarely = nn.Parameter(torch.zeros(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs.flatten(1)).relu()
        logits = self.last(self.second(hidden).relu())
        return logits + self.rarely if len(inputs) == 2 or inputs[0, 0, 0, 0] > 0.5 else logits


def test_tied_frozen_and_sometimes_unused_parameters() -> None:
    """A tied parameter is one weight, a frozen one none, an unused one stays as it is."""
    model = from_torch(Tied)
    assert model.torch is not None
    names = ("rarely", "first.weight", "first.bias", "second.bias", "last.weight")
    assert model.torch.names == names
    check_model(model, SHAPE, 4)
    data = toy_dataset()
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(np.random.default_rng(0), 240, 20, 1)
    stepper = choose_stepper(model, LearningConfig(learning_rate=0.05))
    begun = stepper.draw_weights(5)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # the frozen bias is made as for everyone
        module = Tied()
    with torch.no_grad():
        for name, value in zip(names, begun, strict=True):
            module.get_parameter(name).copy_(torch.tensor(value))
    parameters = [module.get_parameter(name) for name in names]
    plain_loop(module, torch.optim.SGD(parameters, lr=0.05), samples, draws)
    found = trained(stepper, samples, Start(begun, np.zeros((4, 4), np.float32)), draws)
    for one, other in zip(parameters, found.weights, strict=True):
        np.testing.assert_allclose(one.detach(), other, rtol=0, atol=1e-6)


def test_carried_buffers_are_weights() -> None:
    """BatchNorm's statistics go with the weights, and are used when testing."""
    model = from_torch(with_batch_norm, buffers="carry")
    assert model.torch is not None
    assert model.torch.names[-2:] == ("2.running_mean", "2.running_var")
    check_model(model, SHAPE, 4)
    data = toy_dataset()
    samples = Samples(data.train_inputs, one_hot(data.train_labels, 4))
    draws = draw_samples(np.random.default_rng(0), 240, 30, 8)
    stepper = choose_stepper(model, LearningConfig(learning_rate=0.05, batch_size=8))
    begun = stepper.draw_weights(5)
    module = with_batch_norm()
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), begun[:-2], strict=True):
            parameter.copy_(torch.tensor(value))
    plain_loop(module, torch.optim.SGD(module.parameters(), lr=0.05), samples, draws)
    start = Start(begun, np.zeros((4, 4), np.float32))
    found = trained(stepper, samples, start, draws).weights
    expected = [*module.parameters(), module.get_buffer("2.running_mean")]
    expected.append(module.get_buffer("2.running_var"))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one.detach(), other, rtol=0, atol=1e-5)
    module.eval()
    inputs = torch.tensor(data.test_inputs).permute(0, 3, 1, 2).float() / 255
    guess = module(inputs).argmax(-1).numpy()
    tests = stepper.hold_tests(data.test_inputs, data.test_labels)
    assert stepper.count_correct(tests, [found]) == [int((guess == data.test_labels).sum())]
    np.testing.assert_allclose(
        model.apply(found, data.test_inputs), module(inputs).detach(), rtol=0, atol=1e-5
    )


def test_what_a_module_draws_is_seeded_by_its_learner() -> None:
    """Dropout repeats, differs between learners, and leaves PyTorch's own generator alone."""
    samples, start, draws = case(batch_size=2)
    stepper = choose_stepper(from_torch(partial(with_dropout, SHAPE, 4)), LearningConfig())
    begun = start._replace(weights=stepper.draw_weights(1))
    before = torch.random.get_rng_state()
    first, again, other = (
        trained(stepper, samples, begun._replace(randomness=partial(int, seed)), draws).weights
        for seed in (3, 3, 4)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, different)


@pytest.mark.parametrize(("kind", "scale"), [(np.float32, 1.0), (np.int32, 1)])
def test_floats_and_integers_are_fed_as_stored(kind: type, scale: float) -> None:
    """The first channel of a sample [T, C] is the first row that the module gets."""
    seen = []

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.zeros(3))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(inputs.clone())
            return inputs.float().mean(dim=(1, 2))[:, None] * self.scores

    samples = Samples(
        (np.arange(24).reshape(2, 3, 4) * scale).astype(kind), np.eye(2, 3, dtype="f4")
    )
    for first, expected in ((True, samples.inputs.swapaxes(1, 2)), (False, samples.inputs)):
        stepper = choose_stepper(from_torch(Looks, channels_first=first), LearningConfig())
        start = Start(stepper.draw_weights(0), np.zeros((3, 3), np.float32))
        seen.clear()
        stepper.train_one(label_loss, samples, start, np.array([[0, 1]], np.int32))
        np.testing.assert_array_equal(seen[0], expected)
        assert seen[0].numpy().dtype == kind


def test_a_second_set_of_samples_follows_on_the_first() -> None:
    """Stored in another type, and drawn among the others, in workers as in this process."""
    data = toy_dataset()
    targets = one_hot(data.train_labels, 4)
    both = Samples(data.train_inputs, targets)
    own = Samples(data.train_inputs[:150], targets[:150])
    extra = Samples(data.train_inputs[150:].astype(np.float32) / 255, targets[150:])
    draws = [draw_samples(np.random.default_rng(d), 240, 30, 3) for d in range(2)]
    stepper = choose_stepper(from_torch(partial(perceptron, SHAPE, 4)), LearningConfig())
    starts = [Start(stepper.draw_weights(d), np.zeros((4, 4), np.float32)) for d in range(2)]
    for count in (1, 2):
        apart, together = (
            stepper.train(label_loss, held, starts[:count], draws[:count], Watch(0, (30,)))
            for held in (stepper.hold(own, extra), stepper.hold(both))
        )
        for one, other in zip(apart.phases, together.phases, strict=True):
            for a, b in zip(one.weights, other.weights, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(one.output_sums, other.output_sums)


def test_a_custom_loss_is_refused() -> None:
    loss = Loss("mine", custom=lambda logits, labels, teacher: logits.sum())
    samples, start, draws = case(batch_size=1)
    stepper = choose_stepper(from_torch(partial(perceptron, SHAPE, 4)), LearningConfig())
    begun = start._replace(weights=stepper.draw_weights(0))
    with pytest.raises(
        InputError, match="Sequential: PyTorch cannot differentiate the loss 'mine'"
    ):
        stepper.train_one(loss, samples, begun, draws)
    with pytest.raises(InputError, match="use a JAX model"):
        stepper.train(loss, stepper.hold(samples), [begun], [draws], Watch(0, (100,)))


def test_workers_do_without_jax() -> None:
    code = (
        "import sys, mix2fld.tasks.worker, mix2fld.tasks.torch_steps\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
