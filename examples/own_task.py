"""Your own task: a number instead of a label, with its own loss and metric.

A task says what learning means. All that needs no labels works for it: FL, every coded update,
devices that learn alone; records, tables and the report show its metric.
"""

import jax
import jax.numpy as jnp
import numpy as np

import mix2fld

FEATURES, NOISE = 20, 0.1


class LinearRegression(mix2fld.Task):
    """Squared loss; the root of the mean squared error, in units of the target."""

    name = "linear regression"
    metric = mix2fld.Metric("RMSE", better="lower")
    outputs = 1

    def loss(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        return jnp.mean((outputs - targets) ** 2)

    def score(self, outputs: np.ndarray, targets: np.ndarray) -> float:
        return float(np.sum((outputs - targets) ** 2))

    def measure(self, sums: np.ndarray, samples: int) -> float:
        return float(np.sqrt(sums[0] / samples))


def toy_data(samples: int = 600, tests: int = 200) -> mix2fld.Dataset:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(samples, FEATURES))
    targets = inputs @ rng.normal(size=FEATURES) + rng.normal(scale=NOISE, size=samples)
    return mix2fld.Dataset(
        "a line with noise",
        train_inputs=inputs[tests:],
        train_targets=targets[tests:],
        test_inputs=inputs[:tests],
        test_targets=targets[:tests],
    )


def linear_model() -> mix2fld.Model:
    def init(key: jax.Array) -> dict[str, jax.Array]:
        return {"bias": jnp.zeros(1), "slope": 0.01 * jax.random.normal(key, (FEATURES, 1))}

    return mix2fld.Model("linear", init, lambda w, x: x @ w["slope"] + w["bias"])


if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("isolated", "fl", "murmur"), partition="iid", devices=5, samples_per_device=40,
        rounds=5, local_steps=100, learning_rate=0.01, link="ideal",
    )  # fmt: skip
    results = mix2fld.run(grid, dataset=toy_data(), model=linear_model(), task=LinearRegression())
    print(results)
