"""The recurrent network against its equations in NumPy."""

import jax
import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.models.text import HIDDEN, text_gru


def plain(weights: dict, windows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """One window and one token at a time (Cho et al., 2014; the reset gate after the product)."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    inputs, recurrent, bias = (weights["gru"][name] for name in ("input", "recurrent", "bias"))
    rows = []
    for window in windows:
        state = np.zeros(HIDDEN)
        for token in window:
            drive, pull = inputs @ table[token] + bias, recurrent @ state
            r, z, h = np.split(drive, 3)
            reset, update = (
                sigmoid(a + b) for a, b in zip((r, z), np.split(pull, 3)[:2], strict=True)
            )
            state = update * state + (1 - update) * np.tanh(h + reset * np.split(pull, 3)[2])
        rows.append(weights["linear"]["kernel"] @ state + weights["linear"]["bias"])
    return np.array(rows)


@pytest.mark.parametrize("fixed", [False, True])
def test_logits_follow_the_equations(fixed: bool) -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=(7, 5)) if fixed else None
    model = text_gru((4,), 7, embedding=given)
    weights = jax.tree.map(
        lambda part: np.asarray(part, np.float64) + 0.1 * rng.normal(size=part.shape),
        model.init(jax.random.PRNGKey(1)),
    )
    assert ("embedding" in weights) is not fixed
    table = given if given is not None else weights["embedding"]["kernel"]
    windows = rng.integers(7, size=(3, 4))
    np.testing.assert_allclose(
        model.apply(weights, windows.astype(np.int32)), plain(weights, windows, table), atol=2e-5
    )


def test_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"windows \[T\] of token ids"):
        text_gru((28, 28, 1), 10)
