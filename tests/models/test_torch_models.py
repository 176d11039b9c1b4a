"""PyTorch modules as models: what is taken, and what is refused in one sentence."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.config.settings import LearningConfig
from mix2fld.models import check_model, from_torch, make_model, weight_shapes
from mix2fld.tasks.make_learning import choose_stepper
from torch_modules import perceptron, with_batch_norm
from toys import toy_config, toy_dataset

SHAPE = (8, 8, 1)


def test_weights_are_the_parameters_in_their_order() -> None:
    model = from_torch(partial(perceptron, SHAPE, 4), name="mine")
    assert model.name == "mine"
    assert weight_shapes(model) == ((8, 64), (8,), (4, 8), (4,))
    check_model(model, SHAPE, 4)
    weights, inputs = model.init(7), np.ones((3, *SHAPE), np.uint8)
    hidden = np.maximum(inputs.reshape(3, 64) / 255 @ weights[0].T + weights[1], 0)
    expected = hidden @ weights[2].T + weights[3]
    np.testing.assert_allclose(model.apply(weights, inputs), expected, rtol=1e-4)


def test_initial_weights_come_from_the_seed_alone() -> None:
    model = from_torch(partial(perceptron, SHAPE, 4))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = model.init(3)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    again, other = model.init(3), model.init(4)
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, different)


class Module(nn.Module):
    """A linear layer with something beside it."""

    def __init__(self, change: Callable[[Any], Any] = lambda module: None) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 4)
        change(self)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.linear(inputs.flatten(1))


class Forgetful(Module):
    """Adds how often it was called."""

    calls = 0

    def forward(self, inputs: torch.Tensor) -> Any:
        self.calls += 1
        return super().forward(inputs) + self.calls


class Tuple(Module):
    def forward(self, inputs: torch.Tensor) -> Any:
        return super().forward(inputs), inputs


class Doubles(Module):
    def forward(self, inputs: torch.Tensor) -> Any:
        return super().forward(inputs).double()


class Squeezes(Module):
    def forward(self, inputs: torch.Tensor) -> Any:
        return super().forward(inputs).squeeze()


class Detached(Module):
    def forward(self, inputs: torch.Tensor) -> Any:
        return super().forward(inputs).detach()


def share_memory(module: Any) -> None:
    module.other = nn.Linear(64, 4)
    module.other.weight = nn.Parameter(module.linear.weight.data[:2])


ONE = nn.Linear(64, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ONE, r"takes a function that makes a new module, such as lambda: Linear\(\), not Linear"),
        (3, "takes a function that makes a new module"),
        (lambda: ONE, "returns the same module each time"),
        (lambda: 3, r"make\(\) must return a torch.nn.Module, not int"),
        (lambda: nn.Linear(-1, 4), "cannot be initialised"),
        (nn.Flatten, "model Flatten: has no weights to train"),
        (lambda: Module(lambda m: m.double()), "weight linear.weight is float64, not float32"),
        (lambda: nn.LazyLinear(4), "shape of weight weight is not known before the first sample"),
        (lambda: Module(share_memory), "linear.weight and other.weight share memory; to tie them"),
    ],
)
def test_modules_that_cannot_be_models(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_torch(make)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(perceptron, SHAPE, 7), "returns 7 outputs, the dataset has 4 labels"),
        (
            partial(perceptron, (9, 9, 1), 4),
            r"fails in eval mode on a float32 batch of .*1, 1, 8, 8",
        ),
        (Tuple, "must return one tensor of float32 logits, not tuple"),
        (Doubles, "must return one tensor of float32 logits, not torch.float64"),
        (Squeezes, r"returns logits of shape \[4\] for 1 "),
        (Detached, "parameter linear.weight never gets a gradient"),
        (
            lambda: Module(lambda m: m.register_parameter("idle", nn.Parameter(torch.zeros(3)))),
            "model Module: parameter idle never gets a gradient; use it in forward, remove it, or",
        ),
        (Forgetful, "different outputs for the same samples in eval mode"),
        (with_batch_norm, "buffer 2.running_mean changes in training; .*GroupNorm.*carry"),
    ],
)
def test_modules_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_model(from_torch(make), SHAPE, 4)


def test_a_constant_buffer_is_no_state() -> None:
    def constant(module: Any) -> None:
        module.register_buffer("mask", torch.ones(3))

    check_model(from_torch(lambda: Module(constant)), SHAPE, 4)


def test_a_batch_of_one_that_training_does_not_take_is_refused() -> None:
    model = from_torch(with_batch_norm, buffers="carry")
    check_model(model, SHAPE, 4)
    message = r"fails in training mode on a float32 batch of shape \[1, .* more than 1 value per"
    with pytest.raises(InputError, match=message):
        check_model(model, SHAPE, 4, batch_size=1)


def test_token_ids_are_fed_as_integers() -> None:
    model = from_torch(lambda: nn.Sequential(nn.EmbeddingBag(9, 4)))
    check_model(model, (5,), 4, "int32")
    with pytest.raises(InputError, match=r"on a float32 batch of shape \[1, 5\]"):
        check_model(model, (5,), 4)
    weights, tokens = model.init(0), np.array([[1, 2, 2, 8, 0]], np.int32)
    expected = weights[0][tokens[0]].mean(axis=0, keepdims=True)
    np.testing.assert_allclose(model.apply(weights, tokens), expected, rtol=1e-5)


def test_bad_settings_are_named() -> None:
    with pytest.raises(InputError, match="buffers = 'drop': must be refuse or carry"):
        from_torch(Module, buffers="drop")  # type: ignore[arg-type]
    for kernel in ("xla", "native"):
        with pytest.raises(InputError, match=f"kernel = {kernel}: Module is a PyTorch module"):
            choose_stepper(from_torch(Module), LearningConfig(kernel=kernel))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'mix2fld\[torch\]'"):
        from_torch(Module)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_torch.py").write_text(
        "from mix2fld.models import from_torch\n"
        "from torch_modules import not_a_module, perceptron\n"
        "def adapted(sample_shape, num_labels):\n"
        "    return from_torch(lambda: perceptron(sample_shape, num_labels), name='adapted')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_torch"
    sys.modules.pop("own_torch", None)


def test_the_command_line_takes_a_module_or_a_model(own_module: str) -> None:
    assert make_model(f"{own_module}:perceptron", SHAPE, 4).name == "Sequential"
    assert make_model(f"{own_module}:adapted", SHAPE, 4).name == "adapted"
    with pytest.raises(InputError, match=r"must return a Model or a torch.nn.Module, not list"):
        make_model(f"{own_module}:not_a_module", SHAPE, 4)


def test_sizes_of_transfers_need_no_training() -> None:
    config = toy_config(protocol="fl", model="torch_modules:perceptron", dataset="mnist")
    upload = mix2fld.plan_link(config.replace(rounds=1))[0]
    assert upload.size.bits == 32 * (784 * 8 + 8 + 8 * 10 + 10)


def test_torch_is_not_imported_without_a_module(tmp_path: Path) -> None:
    code = (
        "import sys, mix2fld, mix2fld.models, mix2fld.runs.simulation\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_a_failing_step_is_one_message() -> None:
    """From a worker as from this process: what failed, where, and that it is the model."""
    config = toy_config(protocol="fl", model="torch_modules:Broken")
    for devices in (1, 3):
        with pytest.raises(
            InputError, match=r"Broken: fails in a .* tired, .*torch_modules.py line"
        ):
            mix2fld.run(config.replace(devices=devices), dataset=toy_dataset())
