"""What is trained is what is sent: parts of a model, in JAX and in PyTorch."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from mix2fld import load_model, run
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.models import from_equinox, from_flax, from_torch, make_model, weight_names
from mix2fld.models.torch_network import SAME_FOR_ALL, made_with
from mix2fld.models.trained import only_trained
from mix2fld.types import Model
from torch_modules import perceptron
from toys import LABELS, save_dataset, toy_config, toy_dataset

SHAPE = toy_dataset().sample_shape
DEVICES = toy_config().data.devices
SIZE = int(np.prod(SHAPE))


def with_norms():
    """Two linear layers around a normalisation by batches, its statistics far from a batch's."""
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, LABELS)
    )
    module[2].running_mean += 0.25
    return module


def trained(model: Model, part: str, **changed):
    config = toy_config(protocol="fl", model="auto", trained=part, **changed)
    (result,) = run(config, dataset=toy_dataset(), model=model)
    return result


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("head", ["4.weight", "4.bias"]),
        ("norms", ["2.weight", "2.bias"]),
        ("1.*", ["1.weight", "1.bias"]),
        ("*.bias, 4.weight", ["1.bias", "2.bias", "4.weight", "4.bias"]),
        ("lora:2", ["1.lora_A.weight", "1.lora_B.weight", "4.weight", "4.bias"]),
    ],
)
def test_a_torch_module_sends_what_is_trained_and_keeps_the_rest(part, names):
    result = trained(from_torch(with_norms), part)
    assert list(result.weights) == names
    bits = 32 * sum(weight.size for weight in result.weights.values())
    assert result.rounds[0]["bits"]["up"] == DEVICES * bits
    module = result.model.state_dict()
    drawn = from_torch(with_norms).torch.make().state_dict()
    for name in set(module) & set(drawn) - set(names):
        assert module[name].shape == drawn[name].shape
    assert float(module["2.running_mean"].mean()) == 0.25
    assert int(module["2.num_batches_tracked"]) == 0


def test_all_of_a_module_with_batch_statistics_is_still_refused():
    with pytest.raises(InputError, match=r"buffer 2\.running_mean changes in training"):
        trained(from_torch(with_norms), "all")


def fed_to_torch(inputs):
    return torch.from_numpy(inputs.astype(np.float32) / 255).movedim(-1, 1)


def test_adapters_are_merged_into_the_names_of_the_module(tmp_path):
    result = trained(from_torch(with_norms), "lora:2", local_steps=200)
    assert np.abs(result.weights["1.lora_B.weight"]).max() > 0
    module = with_norms()
    module.load_state_dict(result.model.state_dict())
    result.model.save(tmp_path / "m.pt")
    module.load_state_dict(torch.load(tmp_path / "m.pt", weights_only=True))
    inputs = toy_dataset().test_inputs[:20]
    with torch.no_grad():
        found = module.eval()(fed_to_torch(inputs)).numpy()
    np.testing.assert_allclose(found, result.model.outputs(inputs), atol=1e-4)
    result.model.save(tmp_path / "m.safetensors")
    assert set(load_file(tmp_path / "m.safetensors")) == set(dict(module.named_parameters()))
    again = load_model(tmp_path / "m.safetensors", model=from_torch(with_norms))
    np.testing.assert_allclose(again.outputs(inputs), result.model.outputs(inputs), atol=1e-4)


def test_adapters_are_files_of_peft(tmp_path):
    result = trained(from_torch(with_norms), "lora:2", local_steps=200)
    result.model.save_adapters(tmp_path / "adapters")
    config = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 2, 2)
    assert (config["target_modules"], config["modules_to_save"]) == (["1"], ["4"])
    with pytest.raises(InputError, match="holds no adapters"):
        trained(from_torch(with_norms), "head").model.save_adapters(tmp_path)


def test_peft_reads_adapters(tmp_path):
    peft = pytest.importorskip("peft")
    model = from_torch(with_norms)
    result = trained(model, "lora:2", local_steps=200)
    result.model.save_adapters(tmp_path / "adapters")
    base = made_with(SAME_FOR_ALL, with_norms)
    found = peft.PeftModel.from_pretrained(base, tmp_path / "adapters").eval()
    inputs = toy_dataset().test_inputs[:20]
    with torch.no_grad():
        outputs = found(fed_to_torch(inputs)).numpy()
    np.testing.assert_allclose(outputs, result.model.outputs(inputs), atol=1e-4)


@pytest.mark.parametrize("flag", ["model", "adapters"])
def test_adapters_from_the_command_line(tmp_path, capsys, monkeypatch, flag):
    monkeypatch.chdir(tmp_path)
    data = str(save_dataset(tmp_path / "toy.npz", toy_dataset()))
    model = "torch_modules:perceptron"
    run(toy_config(protocol="fl", model=model, trained="lora:2", dataset=data), tmp_path / "runs")
    folder = str(tmp_path / "runs" / "fl-s0")
    if flag == "model":
        main(["export", folder, "--to", "model", "-o", "m.pt"])
        names = set(torch.load("m.pt", weights_only=True))
        assert names == set(perceptron(SHAPE, LABELS).state_dict())
    else:
        main(["export", folder, "--to", "adapters", "-o", "adapters"])
        names = set(load_file("adapters/adapter_model.safetensors"))
        assert any(name.endswith(".lora_A.weight") for name in names)
    assert f"the {flag} of fl-s0 " in capsys.readouterr().out


def test_adapters_of_the_packages_networks_are_merged(tmp_path):
    config = toy_config(protocol="fl", model="mlp", trained="lora:2", local_steps=50)
    data = toy_dataset()
    (result,) = run(config, dataset=data)
    result.model.save(tmp_path / "m.safetensors")
    named = load_file(tmp_path / "m.safetensors")
    assert set(named) == set(weight_names(make_model("mlp", SHAPE, LABELS)))
    again = load_model(tmp_path / "m.safetensors")
    np.testing.assert_allclose(again.outputs(data), result.model.outputs(data), atol=1e-4)


def flax_model():
    from flax import linen

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.Dense(6)(x.reshape(len(x), -1))
            x = linen.relu(linen.LayerNorm()(x))
            return linen.Dense(LABELS)(x)

    return from_flax(Net(), SHAPE)


@pytest.mark.parametrize(
    ("part", "count"),
    [
        ("head", 6 * LABELS + LABELS),
        ("norms", 12),
        ("Dense_0*", SIZE * 6 + 6),
        ("lora:1", SIZE + 6 + 6 * LABELS + LABELS),
    ],
)
def test_a_flax_module_sends_what_is_trained(part, count):
    result = trained(flax_model(), part)
    assert sum(weight.size for weight in result.weights.values()) == count
    assert result.rounds[0]["bits"]["up"] == DEVICES * 32 * count


def test_an_equinox_module_sends_its_head():
    import equinox
    import jax

    def make(key):
        one, two = jax.random.split(key)
        layers = [
            equinox.nn.Lambda(lambda x: x.ravel()),
            equinox.nn.Linear(SIZE, 5, key=one),
            equinox.nn.Linear(5, LABELS, key=two),
        ]
        return equinox.nn.Sequential(layers)

    model = only_trained(from_equinox(make), "head")
    assert all("layers[2]" in name for name in weight_names(model))
    assert len(weight_names(model)) == 2


def test_networks_of_the_package_train_parts_and_are_loaded_again(tmp_path):
    config = toy_config(protocol="murmur", model="mlp", trained="head", update_bits=64)
    data = toy_dataset()
    (result,) = run(config, tmp_path, dataset=data)
    assert set(result.weights) == {"linear2.kernel", "linear2.bias"}
    result.model.save(tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors").predict(data.test_inputs)
    np.testing.assert_array_equal(again, result.model.predict(data.test_inputs))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("nothing.*", "trained = nothing.*: trains nothing; weights are"),
        ("norms", "trained = norms: trains nothing"),
        ("lora:0", "must be lora:RANK"),
        ("lora:x", "must be lora:RANK"),
    ],
)
def test_what_trains_nothing_is_refused(part, message):
    for model in (make_model("mlp", SHAPE, LABELS), from_torch(lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE, LABELS))
    )):  # fmt: skip
        with pytest.raises(InputError, match=message):
            only_trained(model, part)
