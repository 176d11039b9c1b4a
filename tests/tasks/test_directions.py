"""Directions that statistics are of, from a pre-trained network's last layer."""

import numpy as np
import pytest

from mix2fld import run
from mix2fld.base.errors import InputError
from mix2fld.data.features import catalogue
from mix2fld.dataset import Dataset, FrozenNetwork
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.features import fixed_features
from toys import toy_config

SIZE, LABELS = 64, 4
ABOUT = FrozenNetwork("efficientnet-lite0", "0" * 64, (8, 8, 3), "uint8")
MEANS = np.random.default_rng(1).normal(size=(LABELS, 3))
"""Of labels, in the first three of all dimensions."""


def vectors(network: FrozenNetwork | None = ABOUT) -> Dataset:
    """Labels that differ in three dimensions, in which noise is as large as anywhere."""
    rng = np.random.default_rng(0)
    labels = np.arange(600, dtype=np.int32) % LABELS
    inputs = rng.normal(size=(600, SIZE)).astype(np.float32)
    inputs[:, :3] += 2 * MEANS[labels]
    parts = inputs[:400], labels[:400], inputs[400:], labels[400:]
    return Dataset("vectors", *parts, LABELS, network=network)


def the_head() -> np.ndarray:
    """Of twenty labels, which differ in the same three dimensions most."""
    kernel = 0.01 * np.random.default_rng(2).normal(size=(20, SIZE))
    kernel[:, :3] += np.random.default_rng(3).normal(size=(20, 3))
    return kernel + 5.0  # what all logits share is no direction


def a_config(**fields):
    few = {"protocol": "statistics", "model": "linear", "directions": 3, "scatter": "none"}
    return toy_config(**{**few, "rounds": 1, "device_model": "received", **fields})


def test_few_directions_of_the_head_tell_labels_apart(monkeypatch):
    monkeypatch.setattr(catalogue, "head_of", lambda name: the_head())
    found = {
        source: run(a_config(directions_from=source), dataset=vectors())[0].summary["scores"]
        for source in ("random", "head")
    }
    assert found["head"]["mean"] > found["random"]["mean"] + 0.2
    learning = make_simulation(a_config(directions_from="head"), vectors()).scenario.learning
    projection = fixed_features(learning).projection
    np.testing.assert_allclose(projection @ projection.T, np.eye(3), atol=1e-12)
    assert np.abs(projection[:, :3]).min(axis=1).max() > 0
    assert np.abs(projection[:, 3:]).max() < 0.1


def test_they_cost_what_random_ones_do(monkeypatch):
    monkeypatch.setattr(catalogue, "head_of", lambda name: the_head())
    bits = {
        run(a_config(directions_from=source), dataset=vectors())[0].rounds[0]["bits"]["up"]
        for source in ("random", "head")
    }
    assert len(bits) == 1


@pytest.mark.parametrize(
    ("fields", "network", "message"),
    [
        ({}, None, "on features of a network known by name"),
        ({}, FrozenNetwork("own.onnx", "0", (8,), "uint8"), "network known by name"),
        ({"model": "mlp"}, ABOUT, "the model must be linear"),
        ({"directions": 30}, ABOUT, "and directions at most 20; or random"),
    ],
)
def test_what_has_no_such_directions_is_refused(monkeypatch, fields, network, message):
    monkeypatch.setattr(
        catalogue, "head_of", lambda name: the_head() if name == ABOUT.name else None
    )
    with pytest.raises(InputError, match=f"directions_from = head: .*{message}"):
        run(a_config(directions_from="head", **fields), dataset=vectors(network))
