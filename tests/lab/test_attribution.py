"""How much of an update each candidate explains: features by derivative, ridge by closed form."""

import jax
import numpy as np
import pytest

from mix2fld.models import make_model
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.features import HeadPlace
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Model
from mix2fld_lab.audit.attribution import RIDGE, coefficients, explain, features, head_of
from mix2fld_lab.audit.predictions import logits
from toys import toy_config, toy_dataset


def made(name: str) -> tuple[Model, tuple[np.ndarray, ...], HeadPlace, np.ndarray]:
    dataset = toy_dataset()
    learning = make_learning(
        toy_config(model=name), dataset.samples, Classification(dataset.num_labels)
    )
    model = make_model(name, dataset.sample_shape, dataset.num_labels)
    head = head_of(learning, model)
    assert head is not None
    weights = tuple(np.asarray(each) for each in jax.tree.leaves(model.init(jax.random.key(1))))
    return model, weights, head, dataset.train_inputs[:7]


@pytest.mark.parametrize("name", ["paper-cnn", "mlp"])
def test_features_times_the_head_are_the_logits(name: str) -> None:
    model, weights, head, inputs = made(name)
    found = features(model, head, inputs, weights) @ weights[head.kernel].T + weights[head.bias]
    np.testing.assert_allclose(found, logits(model, inputs, [weights])[0], atol=1e-5)


def test_a_transposed_head_is_the_same() -> None:
    model, weights, head, inputs = made("paper-cnn")

    def apply(tree: dict, samples: jax.Array) -> jax.Array:
        linear = {**tree["linear"], "kernel": tree["linear"]["kernel"].T}
        return model.apply({**tree, "linear": linear}, samples)

    def init(key: jax.Array) -> dict:
        tree = model.init(key)
        return {**tree, "linear": {**tree["linear"], "kernel": tree["linear"]["kernel"].T}}

    turned = list(weights)
    turned[head.kernel] = weights[head.kernel].T
    other = HeadPlace(head.bias, head.kernel, transposed=True)
    found = features(Model("turned", init, apply), other, inputs, tuple(turned))
    np.testing.assert_allclose(found, features(model, head, inputs, weights), atol=1e-6)


@pytest.mark.parametrize(("samples", "size"), [(6, 40), (40, 6)])
def test_coefficients_are_those_of_ridge_regression(samples: int, size: int) -> None:
    rng = np.random.default_rng(0)
    held, update = rng.normal(size=(samples, size)), rng.normal(size=(3, size))
    ridge = RIDGE * (held**2).sum() / samples
    expected = np.linalg.inv(held @ held.T + ridge * np.eye(samples)) @ held @ update.T
    np.testing.assert_allclose(explain(held, update), expected, rtol=1e-8)


def test_an_update_of_some_samples_is_ascribed_to_them() -> None:
    rng = np.random.default_rng(1)
    held = rng.normal(size=(60, 200))
    members = np.arange(60) < 30
    found = explain(held, (0.5 * members @ held)[None])[:, 0]
    assert found[members].min() > 0.4
    assert np.abs(found[~members]).max() < 0.1


def test_who_was_trained_on_has_larger_coefficients() -> None:
    model, weights, head, inputs = made("paper-cnn")
    between = features(model, head, inputs, weights)
    after = list(weights)
    after[head.kernel] = weights[head.kernel].copy()
    after[head.kernel][2] += 0.1 * between[3]  # a step on the fourth sample, label 2
    (found,) = coefficients(model, head, inputs, weights, [tuple(after)])
    assert found[:, 2].argmax() == 3
    np.testing.assert_allclose(np.delete(found, 2, axis=1), 0, atol=1e-6)
