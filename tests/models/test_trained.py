"""The trained model in the user's hands: named weights in memory, from disk, and as a file."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from mix2fld import Model, run
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.models import from_equinox, from_flax, from_torch, make_model, weight_names
from mix2fld.runs.simulation import finished_run
from toys import LABELS, SIDE, save_dataset, toy_config, toy_dataset, toy_grid, toy_signals


def test_weights_have_the_names_of_the_model_and_predict_as_well_as_the_server(
    tmp_path: Path,
) -> None:
    data = toy_dataset()
    (result,) = run(toy_config(protocol="fl"), tmp_path, dataset=data)
    weights = result.weights
    assert list(weights) == ["linear1.bias", "linear1.kernel", "linear2.bias", "linear2.kernel"]
    model = make_model("mlp", data.sample_shape, data.num_labels)
    tree: dict[str, dict[str, np.ndarray]] = {}
    for name, array in weights.items():
        layer, kind = name.split(".")
        tree.setdefault(layer, {})[kind] = array
    logits = np.asarray(model.apply(tree, data.test_inputs.astype(np.float32) / 255))
    right = float(np.mean(logits.argmax(axis=1) == data.test_labels))
    assert right == pytest.approx(result.summary["scores"]["global"], abs=1e-6)
    again = finished_run(tmp_path / "fl-s0", data)
    assert again is not None
    for name, array in again.weights.items():
        np.testing.assert_array_equal(array, weights[name])


def nested(weights: dict[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, array in weights.items():
        *path, last = name.split(".")
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
        branch[last] = array
    return tree


def flax_network() -> tuple[Model, Callable[..., Any]]:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.Dense(9)(x.reshape(len(x), -1)))
            return linen.Dense(LABELS)(x)

    module = Network()
    return from_flax(module, (SIDE, SIDE, 1)), lambda weights, inputs: module.apply(
        {"params": nested(weights)}, inputs
    )


def equinox_network() -> tuple[Model, Callable[..., Any]]:
    """With eleven layers, whose names are not sorted as their numbers are."""
    equinox = pytest.importorskip("equinox")

    def make(key: Any) -> Any:
        flat = equinox.nn.Lambda(jnp.ravel)
        return equinox.nn.Sequential([flat, equinox.nn.MLP(SIDE**2, LABELS, 8, 10, key=key)])

    def use(weights: dict[str, np.ndarray], inputs: np.ndarray) -> Any:
        module = make(jax.random.key(0))
        for name, array in weights.items():
            assert re.fullmatch(r"layers\[1\]\.layers\[\d+\]\.(weight|bias)", name)
            module = equinox.tree_at(lambda m, n=name: eval(f"m.{n}", {"m": m}), module, array)
        return jax.vmap(module)(inputs)

    return from_equinox(make), use


def torch_network() -> tuple[Model, Callable[..., Any]]:
    torch = pytest.importorskip("torch")

    def make() -> Any:
        layers = (torch.nn.Linear(SIDE**2, 9), torch.nn.ReLU(), torch.nn.Linear(9, LABELS))
        return torch.nn.Sequential(torch.nn.Flatten(), *layers)

    def use(weights: dict[str, np.ndarray], inputs: np.ndarray) -> Any:
        module = make()
        module.load_state_dict({n: torch.from_numpy(array) for n, array in weights.items()})
        with torch.no_grad():
            return module(torch.from_numpy(inputs)).numpy()

    return from_torch(make, "small"), use


def own_network(name: str) -> tuple[Model, Callable[..., Any]]:
    model = make_model(name, (SIDE, SIDE, 1), LABELS)
    return model, lambda weights, inputs: model.apply(nested(weights), inputs)


@pytest.mark.parametrize(
    "network",
    [
        flax_network, equinox_network, torch_network,
        partial(own_network, "paper-cnn"), partial(own_network, "mlp"),
    ],
)  # fmt: skip
def test_exported_weights_go_back_into_the_library_that_the_model_is_of(
    network: Callable[[], tuple[Model, Callable[..., Any]]], tmp_path: Path
) -> None:
    model, use = network()
    data = toy_dataset()
    (result,) = run(toy_config(kernel="auto"), tmp_path, dataset=data, model=model)
    path = tmp_path / "model.safetensors"
    main(["export", str(tmp_path / "fl-s0"), "--to", "model", "-o", str(path)])
    logits = np.asarray(use(load_file(path), data.test_inputs.astype(np.float32) / 255))
    right = float(np.mean(logits.argmax(axis=1) == data.test_labels))
    assert right == pytest.approx(result.summary["scores"]["global"], abs=1e-6)
    with safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["mix2fld"])["model"] == model.name


def test_a_model_that_was_chosen_automatically_is_named(tmp_path: Path) -> None:
    run(toy_config(protocol="fl", model="auto"), tmp_path, dataset=toy_dataset())
    main(["export", str(tmp_path), "--to", "model", "-o", str(tmp_path / "m")])
    with safe_open(tmp_path / "m", framework="numpy") as file:
        assert json.loads(file.metadata()["mix2fld"])["model"] == "paper-cnn"


def test_a_server_without_a_model_says_so() -> None:
    (result,) = run(toy_config(protocol="fd"), dataset=toy_dataset())
    with pytest.raises(InputError, match="protocols = fd: its server has no model"):
        _ = result.weights


def test_a_model_file_has_what_is_needed_to_use_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signals = toy_signals(mean=(40.0, 0.0), std=(9.0, 0.02))
    data = save_dataset(tmp_path / "signals.npz", signals)
    config = toy_grid(protocols=("fl", "mix2fld"), dataset=str(data), model="mlp")
    results = run(config, tmp_path / "runs", dataset=signals)
    path = tmp_path / "made" / "model.safetensors"
    main(["export", str(tmp_path / "runs" / "mix2fld-s0"), "--to", "model", "-o", str(path)])
    assert "mix2fld-s0" in capsys.readouterr().out
    for name, array in load_file(path).items():
        np.testing.assert_array_equal(array, results[1].weights[name])
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["mix2fld"])
    assert about["labels"] == ["0", "1", "2", "3"]
    assert about["standardisation"] == {"mean": [40.0, 0.0], "std": [9.0, 0.02]}
    assert about["sample_shape"] == [12, 2]
    assert about["accuracy"] == results[1].summary["scores"]["global"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fd-s0", "--to", "model", "-o", "m"), "protocols = fd: its server has no model"),
        (("", "--to", "model", "-o", "m"), "2 runs"),
        (("fl-s0", "--to", "model"), "out: must name the file"),
    ],
)
def test_what_cannot_be_exported_is_named(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(toy_grid(protocols=("fl", "fd")), tmp_path / "runs", dataset=toy_dataset())
    monkeypatch.chdir(tmp_path)
    folder, *flags = arguments
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path / "runs" / folder), *flags])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_names_are_the_places_in_a_tree_of_weights() -> None:
    model = Model("nested", lambda key: {"a": [np.ones(2), np.ones(3)], "b": np.ones(1)}, max)
    assert weight_names(model) == ("a.0", "a.1", "b")
