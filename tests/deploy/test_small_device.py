"""The device that has a compiled kernel and no JAX: the numbers of the simulator, and its size."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.lab import assert_same_as_engine, deployed_config
from deploy.memory_line import run_in_memory
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.deploy.device_settings import device_config
from mix2fld.deploy.edge.initial import pack_start, unpack_start
from mix2fld.deploy.edge.learning import make_learning, plain_config, small_learning
from mix2fld.native import small_cnn
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning as full_learning
from toys import toy_dataset

HAS_KERNEL = small_cnn((8, 8, 1), 12, 6, 4) is not None
needs_kernel = pytest.mark.skipif(not HAS_KERNEL, reason="no compiler for the kernel here")


@needs_kernel
@pytest.mark.parametrize("name", ["fl", "fd", "murmur", "mix2fld", "murmur-mix", "statistics"])
def test_without_jax_a_device_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    """Bit for bit: both take their steps with the same kernel."""
    fields = {"model": "paper-cnn", "kernel": "native", "feature_side": 4}
    config = deployed_config(tmp_path, protocol=name, **fields)
    made = []

    def make(config, samples, labels):
        made.append(small_learning(config, samples, labels))
        return made[-1]

    path = run_in_memory(tmp_path, config, make_learning=make)
    assert len(made) == 4
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@needs_kernel
@pytest.mark.parametrize(
    ("model", "name", "batch"),
    [("mlp", "fd", 1), ("mlp", "murmur", 4), ("paper-cnn", "fd", 4), ("paper-cnn", "mix2fld", 3)],
)
def test_any_batch_has_the_numbers_of_the_engine(
    tmp_path: Path, model: str, name: str, batch: int
) -> None:
    """With the kernel that the config asks for on both sides, with replay and logit adjustment."""
    fields = {"model": model, "kernel": "native", "batch_size": batch, "logit_adjustment": 1.0}
    if name == "mix2fld":
        fields |= {"replay": 0.4, "seed_bits": 4}
    config = deployed_config(tmp_path, protocol=name, **fields)
    path = run_in_memory(tmp_path, config, make_learning=small_learning)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("model", ["paper-cnn", "mlp"])
@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_initial_weights_are_those_of_jax_to_the_bit(model: str, seed: int) -> None:
    data = toy_dataset()
    learning = full_learning(Config.of(model=model), data.samples, Classification(data.num_labels))
    drawn = learning.stepper.draw_weights(seed)
    told = pack_start(drawn, seed)
    found = unpack_start(told, seed, learning.dims.weight_shapes)
    for mine, theirs in zip(found, drawn, strict=True):
        np.testing.assert_array_equal(mine.view(np.int32), np.asarray(theirs).view(np.int32))
    assert len(told) < learning.dims.num_weights / 8 + 100  # a thirtieth of the weights
    with pytest.raises(InputError, match="does not fit the model"):
        unpack_start(told[:-4], seed, learning.dims.weight_shapes)


def test_any_weights_can_be_told() -> None:
    odd = np.array([[0.0, -0.0, 1.0, -1e30, 1e-40, np.finfo(np.float32).max]], np.float32)
    weights = (np.full(1, -3.5, np.float32), odd)
    found = unpack_start(pack_start(weights, 3), 3, ((1,), (1, 6)))
    for mine, theirs in zip(found, weights, strict=True):
        np.testing.assert_array_equal(mine.view(np.int32), theirs.view(np.int32))


def test_the_settings_have_all_that_a_device_needs() -> None:
    config = Config.of(protocol="mix2fld", mixing_ratio=(0.2, 0.3))
    plain = plain_config(device_config(config))
    assert plain.seeding.ratios == config.seeding.ratios
    assert plain.learning.local_steps == config.learning.local_steps
    assert plain.data.devices == config.data.devices


@needs_kernel
@pytest.mark.parametrize(
    "change",
    [{"optimizer": "adam"}, {"model": "cifar-cnn"}, {"protocol": "cfd"}],
)
def test_other_runs_need_jax(change: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    data = toy_dataset()
    config = Config.of(**{"model": "paper-cnn", "protocol": "fl", **change})
    told = device_config(config)
    assert small_learning(told, data.samples, Classification(data.num_labels)) is None
    monkeypatch.setattr("mix2fld.deploy.edge.learning.find_spec", lambda name: None)
    with pytest.raises(InputError, match="this device has no compiled kernel for it"):
        make_learning(told, data.samples, Classification(data.num_labels))


def test_the_device_program_imports_neither_jax_nor_pydantic() -> None:
    code = (
        "import sys, mix2fld.deploy.edge.__main__, mix2fld.deploy.edge.learning as small\n"
        "small.get_protocol('mix2fld')\n"
        "heavy = {'jax', 'pydantic', 'scipy', 'torch', 'matplotlib', 'requests', 'rich', 'tyro',\n"
        "         'flwr', 'optax', 'PIL'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
