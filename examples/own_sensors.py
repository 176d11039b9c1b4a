"""My sensors, my 1-D CNN: windows of a signal, recorded by people, each of whom is a device.

From the command line the same works with a file of these arrays:
``mix2fld run --dataset mine.npz --partition by-source --devices 5 --model own_sensors:my_cnn``.
"""

import flax.linen as nn
import jax
import numpy as np

import mix2fld
from mix2fld.models import from_flax

STEPS, PEOPLE, ACTIVITIES = 32, 5, 3


def recordings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows [n, 32, 2] in m/s², their activity, and who recorded them, each at their own pace."""
    rng = np.random.default_rng(seed)
    activity, person = rng.integers(ACTIVITIES, size=count), rng.integers(PEOPLE, size=count)
    pace = 0.25 * (1 + activity) * (1 + 0.1 * person)
    phase = rng.uniform(0, 2 * np.pi, size=count)
    angle = pace[:, None] * np.arange(STEPS) + phase[:, None]
    windows = np.stack([3 * np.sin(angle), 9.8 + np.cos(2 * angle)], axis=-1)
    return windows + rng.normal(0, 0.7, windows.shape), activity, person


class SmallCnn(nn.Module):
    """Two convolutions along time, the mean over time, and a linear layer."""

    num_labels: int

    @nn.compact
    def __call__(self, windows: jax.Array) -> jax.Array:
        hidden = nn.relu(nn.Conv(8, (7,), strides=(2,))(windows))
        hidden = nn.relu(nn.Conv(16, (5,), strides=(2,))(hidden))
        return nn.Dense(self.num_labels)(hidden.mean(axis=1))


def my_cnn(sample_shape: tuple[int, ...], num_labels: int) -> mix2fld.Model:
    return from_flax(SmallCnn(num_labels), sample_shape)


if __name__ == "__main__":
    inputs, activity, person = recordings(400, seed=0)
    tests, test_activity, _ = recordings(300, seed=1)
    dataset = mix2fld.Dataset(
        "walks", inputs, activity, tests, test_activity, ACTIVITIES,
        value_range=(-8, 16),  # what the sensor can measure; an n-bit upload spans it
        train_sources=person,
        label_names=("walk", "run", "cycle"),
    )  # fmt: skip
    grid = mix2fld.Grid.of(
        protocols=("isolated", "fl", "mix2fld"),
        partition="by-source",
        devices=PEOPLE,
        seed_samples=20,
        seed_bits=6,
        learning_rate=0.02,
        local_steps=300,
        server_steps=300,
        rounds=3,
    )
    model = my_cnn(dataset.sample_shape, dataset.num_labels)
    print(f"samples: {dataset.samples}")
    for result in mix2fld.run(grid, dataset=dataset, model=model):
        summary = result.summary
        accuracy, bits = summary["scores"]["mean"], summary["bits"]["up"]
        print(f"{summary['protocol']:9} accuracy {100 * accuracy:.1f} %, {bits:,} bits uploaded")
