"""A trained model in the user's hands: what it says, and its files in other programs."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld import Model, dataset_from_table, load_model, run
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.data.features.catalogue import NETWORKS
from mix2fld.data.features.text import as_samples
from mix2fld.models import from_equinox, from_flax, from_torch
from mix2fld.types import Dataset
from toy_networks import small_onnx
from toys import (
    LABELS,
    SIDE,
    save_dataset,
    toy_config,
    toy_dataset,
    toy_grid,
    toy_numbers,
    toy_signals,
)


def table(rows: int = 300) -> dict[str, Any]:
    """Vibration and temperature of machines, in units far from each other."""
    rng = np.random.default_rng(2)
    fault = np.array(["bearing", "none", "belt"])[np.arange(rows) % 3]
    level = {"bearing": 9.0, "none": 1.0, "belt": 5.0}
    vibration = np.array([level[name] for name in fault]) + rng.normal(size=rows)
    return {"vibration": vibration, "celsius": 60 + 10 * rng.normal(size=rows), "label": fault}


def write_csv(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
    return path


def accuracy(said: Any, known: Any) -> float:
    return float(np.mean(np.asarray(said) == np.asarray(known)))


def test_a_model_predicts_what_the_server_was_measured_with() -> None:
    data = toy_dataset()
    (result,) = run(toy_config(protocol="fl"), dataset=data)
    said = result.model.predict(data.test_inputs)
    assert accuracy(said, data.test_labels) == pytest.approx(
        result.summary["scores"]["global"], abs=1e-6
    )
    chances = result.model.predict_proba(data.test_inputs)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(chances.argmax(axis=1), said)


def test_a_model_of_features_takes_samples_as_they_were_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))
    recorded = toy_dataset()
    height, width, channels = recorded.sample_shape
    small_onnx(tmp_path / "net.onnx", shape=("n", channels, height, width))
    save_dataset(tmp_path / "toy.npz", recorded)
    chosen = {"dataset": str(tmp_path / "toy.npz"), "features": str(tmp_path / "net.onnx")}
    config = toy_config(protocol="fl", model="auto", **chosen)
    (result,) = run(config, tmp_path / "runs")
    assert result.weights["linear.kernel"].shape == (LABELS, 5)
    said = result.model.predict(recorded.test_inputs)
    found = accuracy(said, recorded.test_labels)
    assert found == pytest.approx(result.summary["scores"]["global"], abs=1e-6)
    result.model.save(tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(recorded.test_inputs), said)
    np.testing.assert_array_equal(
        load_model(tmp_path / "runs" / "fl-s0").predict(recorded.test_inputs), said
    )
    with pytest.raises(InputError, match=r"\[3, 2\]; must be \[n, 5\], or \[\d"):
        again.predict(np.zeros((3, 2)))


@pytest.mark.parametrize("kind", ["float32", "uint8"])
@pytest.mark.parametrize("batch", ["n", 1])
def test_onnx_of_a_model_of_features_takes_samples_as_they_were_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, batch: str | int
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))
    recorded = toy_dataset()
    height, width, channels = recorded.sample_shape
    small_onnx(tmp_path / "net.onnx", kind, (batch, channels, height, width))
    save_dataset(tmp_path / "toy.npz", recorded)
    chosen = {"dataset": str(tmp_path / "toy.npz"), "features": str(tmp_path / "net.onnx")}
    (result,) = run(toy_config(protocol="fl", model="auto", **chosen))
    result.model.save(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape[1:]) == (
        "samples", "tensor(uint8)", [height, width, channels],
    )  # fmt: skip
    (found,) = session.run(None, {"samples": recorded.test_inputs})
    expected = result.model.predict_proba(recorded.test_inputs)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_features_that_are_no_graph_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_features.py").write_text(OWN_FEATURES)
    save_dataset(tmp_path / "toy.npz", toy_dataset())
    config = toy_config(
        protocol="fl", model="auto", dataset=str(tmp_path / "toy.npz"),
        features="own_features:sums",
    )  # fmt: skip
    (result,) = run(config)
    result.model.save(tmp_path / "model.onnx")
    assert "the file takes their vectors [2] in place of samples" in capsys.readouterr().err


OWN_FEATURES = """
import numpy as np

def sums(shape):
    def apply(samples):
        flat = samples.reshape(len(samples), -1)
        return np.stack([flat.sum(axis=1), flat.max(axis=1)], axis=1).astype(np.float32)

    return apply
"""


def test_a_model_of_texts_takes_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vectors(samples: Any) -> Any:
        return np.stack([(samples == letter).sum(axis=1) for letter in b"abcd"], 1).astype("f4")

    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mix2fld.data.features.find._loaded", lambda name: vectors)
    texts = np.array(["aaa", "bbb", "ccc", "ddd"] * 30)
    inputs, labels = as_samples(texts.tolist(), 8), np.arange(120) % 4
    monkeypatch.setitem(NETWORKS, "wordllama", replace(NETWORKS["wordllama"], size=4))
    data = Dataset("texts", inputs[40:], labels[40:], inputs[:40], labels[:40], 4)
    config = toy_config(
        protocol="fl", model="linear", features="wordllama", local_steps=200, learning_rate=0.05,
        dataset=str(save_dataset(tmp_path / "texts.npz", data)), samples_per_device=10,
    )  # fmt: skip
    (result,) = run(config)
    assert result.model.predict(["aaa", "ccc"]).tolist() == [0, 2]
    (plain,) = run(toy_config(protocol="fl"), dataset=toy_dataset())
    with pytest.raises(InputError, match="are texts; must be uint8"):
        plain.model.predict(["aaa"])


@pytest.mark.parametrize("states", ["memory", "disk"])
def test_each_device_has_its_model(tmp_path: Path, states: Any) -> None:
    """Of devices that train alone, the models that were measured."""
    data = toy_dataset()
    config = toy_config(protocol="isolated", device_states=states)
    (result,) = run(config, tmp_path, dataset=data)
    measured = result.rounds[-1]["scores"]["devices"]
    again = load_model(tmp_path / "isolated-s0", device=1)
    for device, score in zip(result.devices, measured, strict=True):
        assert accuracy(device.model.predict(data), data.test_labels) == pytest.approx(score)
    for name, array in result.devices[1].weights.items():
        np.testing.assert_array_equal(array, again.weights[name])
    with pytest.raises(InputError, match="device = 9: must be from 0 to"):
        load_model(tmp_path / "isolated-s0", device=9)


def test_new_rows_of_a_table_are_labelled_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = table()
    data = write_csv(tmp_path / "machines.csv", columns)
    names = {"dataset": str(data), "model": "linear", "learning_rate": 0.05}
    (result,) = run(toy_grid(protocols=("fl",), **names), tmp_path / "runs")
    fresh = {name: values[:40] for name, values in table(90).items()}
    said = result.model.predict({name: fresh[name] for name in ("celsius", "vibration")})
    assert set(said) <= {"bearing", "none", "belt"}
    assert accuracy(said, fresh["label"]) > 0.75
    new = write_csv(tmp_path / "new.csv", {"row": range(40), **fresh})
    out = tmp_path / "labelled.csv"
    main(["predict", str(tmp_path / "runs" / "fl-s0"), str(new), "-o", str(out)])
    words = capsys.readouterr().out
    assert f"{accuracy(said, fresh['label']):.1%} of 40 known labels are right" in words
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["predicted"] for row in rows] == list(said)
    assert rows[0].keys() == {"row", *fresh, "predicted", "probability"}
    result.model.save(tmp_path / "m.safetensors")
    main(["predict", str(tmp_path / "m.safetensors"), str(new)])
    assert capsys.readouterr().out == out.read_text()


def flax_network() -> Model:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.avg_pool(linen.gelu(linen.Conv(3, (3, 3))(x)), (2, 2), (2, 2))
            x = linen.GroupNorm(1)(x).reshape(len(x), -1)
            return linen.Dense(LABELS)(x)

    return from_flax(Network(), (SIDE, SIDE, 1))


def equinox_network() -> Model:
    equinox = pytest.importorskip("equinox")

    def make(key: Any) -> Any:
        flat = equinox.nn.Lambda(jnp.ravel)
        return equinox.nn.Sequential([flat, equinox.nn.MLP(SIDE**2, LABELS, 8, 2, key=key)])

    return from_equinox(make)


def torch_network() -> Model:
    torch = pytest.importorskip("torch")

    def make() -> Any:
        layers = (torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten())
        return torch.nn.Sequential(*layers, torch.nn.Linear(3 * (SIDE - 2) ** 2, LABELS))

    return from_torch(make, "small")


@pytest.mark.parametrize(
    ("model", "network"),
    [
        ("paper-cnn", None), ("mlp", None), ("linear", None), ("auto", flax_network),
        ("auto", equinox_network), ("auto", torch_network),
    ],
)  # fmt: skip
def test_onnx_runtime_says_what_the_model_says(
    model: str, network: Callable[[], Model] | None, tmp_path: Path
) -> None:
    runtime, data = pytest.importorskip("onnxruntime"), toy_dataset()
    given = None if network is None else network()
    kernel = "auto" if given else toy_config(model=model).learning.kernel
    config = toy_config(protocol="fl", model=model, kernel=kernel)
    (result,) = run(config, dataset=data, model=given)
    result.model.save(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    for part in (data.test_inputs[:1], data.test_inputs):
        (found,) = session.run(["probabilities"], {"samples": part})
        np.testing.assert_allclose(found, result.model.predict_proba(part), atol=1e-5)
    about = json.loads(session.get_modelmeta().custom_metadata_map["mix2fld"])
    assert about["labels"] == [str(label) for label in range(LABELS)]


@pytest.mark.parametrize("model", ["signal-cnn", "cifar-cnn"])
def test_onnx_of_the_other_networks(model: str, tmp_path: Path) -> None:
    """Windows in their own units: the file standardises them."""
    rng, shape = np.random.default_rng(0), (16, 2) if model == "signal-cnn" else (8, 8, 3)
    inputs, labels = rng.normal(50, 9, (80, *shape)), np.arange(80) % 4
    channels = {"mean": (50.0,) * shape[-1], "std": (9.0,) * shape[-1]}
    scaled = (inputs - 50) / 9
    data = Dataset("own", scaled[20:], labels[20:], scaled[:20], labels[:20], 4, **channels)
    config = toy_config(protocol="fl", model=model, samples_per_device=8, local_steps=3)
    (result,) = run(config, dataset=data)
    result.model.save(tmp_path / "model.onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {"samples": inputs[:20].astype(np.float32)})
    np.testing.assert_allclose(found, result.model.predict_proba(data), atol=1e-4)


def test_a_file_that_differs_from_the_model_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    (result,) = run(toy_config(protocol="fl"), dataset=toy_dataset())
    model = result.model
    monkeypatch.setattr(type(model), "_expected", lambda self, x: self.predict_proba(x) + 0.01)
    with pytest.raises(InputError, match=r"ONNX Runtime differs from the model by up to 0\.01"):
        model.save(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_what_onnx_cannot_say_is_named() -> None:
    pytest.importorskip("onnxruntime")

    def init(key: Any) -> Any:
        return {"table": jax.random.normal(key, (SIDE**2, LABELS))}

    def apply(weights: Any, inputs: Any) -> Any:
        return jnp.sort(inputs.reshape(len(inputs), -1)) @ weights["table"]

    model = Model("sorted", init, apply)
    (result,) = run(toy_config(protocol="fl", kernel="auto"), dataset=toy_dataset(), model=model)
    with pytest.raises(InputError, match="the model sorted uses sort, which is not translated"):
        result.model.file(".onnx")


def test_a_frozen_backbone_is_in_the_state_dict(tmp_path: Path) -> None:
    """Plain PyTorch loads the file into the user's own module, strictly."""
    torch = pytest.importorskip("torch")

    def make() -> Any:
        body = torch.nn.Linear(SIDE**2, 8)
        body.requires_grad_(False)
        head = torch.nn.Linear(8, LABELS)
        return torch.nn.Sequential(torch.nn.Flatten(), body, torch.nn.ReLU(), head)

    data = toy_dataset()
    (result,) = run(
        toy_config(protocol="murmur", kernel="auto"), dataset=data, model=from_torch(make, "head")
    )
    assert list(result.weights) == ["3.weight", "3.bias"]
    result.model.save(tmp_path / "model.pt")
    module = make()
    module.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    with torch.no_grad():
        logits = module(torch.from_numpy(data.test_inputs / np.float32(255)))
    np.testing.assert_array_equal(logits.argmax(1).numpy(), result.model.predict(data))


def test_a_model_that_a_program_gave_is_asked_of_it(tmp_path: Path) -> None:
    data, given = toy_dataset(), flax_network()
    (result,) = run(toy_config(protocol="fl", model="mlp"), tmp_path, dataset=data, model=given)
    found = load_model(tmp_path / "fl-s0", model=given)
    np.testing.assert_array_equal(found.outputs(data), result.model.outputs(data))
    with pytest.raises(InputError, match="was given to the run by a program"):
        load_model(tmp_path / "fl-s0").predict(data)
    (again,) = run(toy_config(protocol="fl", model="mlp"), tmp_path, dataset=data, model=given)
    np.testing.assert_array_equal(again.model.outputs(data), result.model.outputs(data))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros((3, SIDE, SIDE, 1)), "float64; must be integers from 0 to 255"),
        (np.full((3, SIDE, SIDE, 1), 256), "must be integers from 0 to 255"),
        (np.zeros((SIDE, SIDE, 1), np.uint8), "add an axis for one sample"),
        ({"a": [1.0]}, "the model was not trained on a table"),
    ],
)
def test_other_samples_are_refused(samples: Any, words: str) -> None:
    (result,) = run(toy_config(protocol="fl"), dataset=toy_dataset())
    with pytest.raises(InputError, match=words):
        result.model.predict(samples)


def test_measured_and_standardised_samples_are_told_apart() -> None:
    """An array is as it was measured; a dataset says how it was standardised."""
    data = dataset_from_table(table(), standardise="always")
    config = toy_config(protocol="fl", model="linear", partition="iid")
    (result,) = run(config, dataset=data)
    measured = data.test_inputs * np.array(data.std) + np.array(data.mean)
    np.testing.assert_array_equal(result.model.predict(measured), result.model.predict(data))
    other = dataset_from_table({**table(), "celsius": np.arange(300.0)})
    with pytest.raises(InputError, match="the model was trained on"):
        result.model.predict(other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", "new.csv"), "run = nowhere: there is no such run folder"),
        (("runs/fl-s0", "none.csv"), "data = none.csv: there is no such file"),
        (("runs/fl-s0", "new.csv"), "has no column 'celsius'"),
        (("runs/fl-s0", "new.csv", "--device", "77"), "device = 77: must be from 0"),
        (("new.csv", "new.csv"), "is no model file of mix2fld"),
        (("runs/fl-s0", "empty.npz"), "data = empty.npz: must hold inputs; it holds other"),
        (("runs", "new.csv"), "run = runs: holds 2 runs, name one: fd-s0, fl-s0"),
    ],
)
def test_what_cannot_be_predicted_is_said(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    data = write_csv(tmp_path / "machines.csv", table(120))
    run(toy_grid(protocols=("fl", "fd"), dataset=str(data), samples_per_device=15), Path("runs"))
    write_csv(tmp_path / "new.csv", {"vibration": [1.0]})
    np.savez(tmp_path / "empty.npz", other=np.zeros(3))
    with pytest.raises(SystemExit) as stopped:
        main(["predict", *arguments])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_a_model_is_printed_in_a_line(tmp_path: Path) -> None:
    (result,) = run(toy_config(protocol="fl", model="linear"), tmp_path, dataset=toy_dataset())
    said = repr(result.model)
    assert "array" not in said
    assert said.startswith("TrainedModel(linear, ")
    assert said.endswith("run fl-s0)")
    assert repr(load_model(tmp_path)) == said  # the only run in the folder


def test_predicted_numbers_and_probabilities_have_sensible_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = toy_numbers()
    save_dataset(tmp_path / "numbers.npz", numbers)
    config = toy_config(protocol="fl", model="linear", dataset=str(tmp_path / "numbers.npz"))
    run(config, tmp_path / "runs")
    np.savez(tmp_path / "new.npz", inputs=numbers.test_inputs[:5])
    main(["predict", str(tmp_path / "runs"), str(tmp_path / "new.npz")])
    _, *rows = capsys.readouterr().out.split()
    assert len(rows) == 5
    for row in rows:
        digits = row.split(",")[1].lstrip("-").replace(".", "").split("e")[0].lstrip("0")
        assert len(digits) <= 6


def test_a_model_of_signals_is_read_from_its_file(tmp_path: Path) -> None:
    signals = toy_signals(mean=(40.0, 0.0), std=(9.0, 0.02))
    data = save_dataset(tmp_path / "signals.npz", signals)
    (result,) = run(toy_config(protocol="fl", dataset=str(data), model="mlp"), dataset=signals)
    result.model.save(tmp_path / "model.safetensors")
    found = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(found.outputs(signals), result.model.outputs(signals))
