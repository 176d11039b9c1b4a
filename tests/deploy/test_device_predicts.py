"""A device answers from its current model: ``mix2fld-device predict``."""

import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.lab import deployed_config
from deploy.memory_line import run_in_memory
from mix2fld import load_model, run
from mix2fld.base.errors import InputError
from mix2fld.data import load_dataset
from mix2fld.deploy.edge.__main__ import main
from mix2fld.deploy.edge.full import full_learning
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.models import make_model
from mix2fld.tasks.forward import forward


def said(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("make_learning", [full_learning, small_learning])
@pytest.mark.parametrize("protocol", ["murmur", "fd"])
def test_a_device_says_what_the_simulator_says_of_it(
    tmp_path: Path,
    protocol: str,
    make_learning,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = deployed_config(tmp_path, protocol=protocol)
    path = run_in_memory(tmp_path, config, make_learning=make_learning)
    data = load_dataset(config.data)
    (simulated,) = run(config, dataset=data)
    np.savez(tmp_path / "new.npz", inputs=data.test_inputs)
    monkeypatch.setattr("mix2fld.deploy.edge.predict.make_learning", make_learning)
    states = {int(p.name.split("-")[1]): p.parents[1] for p in tmp_path.rglob("state/*/device-*")}
    for device in range(config.data.devices):
        flags = ["--state", str(states[device]), "--data", str(tmp_path / "new.npz")]
        monkeypatch.setattr(sys, "argv", ["x", "predict", "--device", str(device), *flags])
        main()
        lines, model = said(capsys), simulated.devices[device].model
        chances = model.predict_proba(data)
        assert [int(label) for _, label, _ in lines] == list(model.predict(data))
        shown = [float(chance) for *_, chance in lines]
        np.testing.assert_allclose(shown, chances.max(axis=1), atol=1e-4)
    if protocol == "murmur":
        np.testing.assert_array_equal(load_model(path).predict(data), simulated.model.predict(data))
        with pytest.raises(InputError, match="devices keep their own models: mix2fld-device"):
            load_model(path, device=0)


def test_a_device_that_has_not_trained_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--device", "0", "--state", str(tmp_path), "--data", "new.npz"]
    monkeypatch.setattr(sys, "argv", ["x", "predict", *flags])
    with pytest.raises(SystemExit, match="holds no model of device 0: it has not trained yet"):
        main()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("linear", (5, 3)), ("mlp", (7,)), ("mlp", (5, 4, 3)), ("paper-cnn", (8, 6, 1)),
        ("cifar-cnn", (8, 12, 3)), ("signal-cnn", (35, 3)),
    ],
)  # fmt: skip
def test_networks_in_numpy_say_what_they_say_in_jax(name: str, shape: tuple[int, ...]) -> None:
    import jax

    model, rng = make_model(name, shape, 4), np.random.default_rng(1)
    weights = jax.tree.map(
        lambda a: (np.asarray(a) + 0.1 * rng.normal(size=a.shape)).astype(np.float32),
        model.init(jax.random.key(0)),
    )
    inputs = rng.normal(size=(5, *shape)).astype(np.float32)
    found = forward(name, tuple(jax.tree.leaves(weights)), inputs)
    np.testing.assert_allclose(found, model.apply(weights, inputs), rtol=1e-4, atol=1e-4)
