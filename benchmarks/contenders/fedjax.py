"""FedJAX: federated averaging with its ``jit`` backend, one process to a core.

Its ``pmap`` backend calls a function that current JAX no longer has.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.processes import measure_in_processes
from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work

jax.tree_map = jax.tree.map  # FedJAX still calls it by the name that JAX has given up

import fedjax  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402


class DrawnSamples:
    """A client's dataset that yields batches of one sample in the order of the draws."""

    def __init__(self, work: Work, device: int) -> None:
        self._images, self._labels = work.images[device], work.labels[device]
        self._draws = work.draws[device]

    def __len__(self) -> int:
        """Samples of the client, its weight in the average."""
        return len(self._labels)

    def shuffle_repeat_batch(self, hparams: Any) -> Iterator[dict[str, Any]]:
        """What FedJAX asks for a local phase."""
        del hparams
        for row in self._draws:
            yield {"x": self._images[row : row + 1], "y": self._labels[row : row + 1]}


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores."""
    return measure_in_processes(prepare, CORES, devices, steps, warm_up_steps=20)


def prepare(work: Work) -> Callable[[], list[Tensors]]:
    """One round of federated averaging over the devices of the share."""
    keys = jax.random.split(jax.random.PRNGKey(0), len(work.draws))
    clients = [(str(d).encode(), DrawnSamples(work, d), key) for d, key in enumerate(keys)]
    algorithm = averaging()
    state = algorithm.init([jnp.asarray(tensor) for tensor in work.weights])

    def train() -> list[Tensors]:
        after, _ = algorithm.apply(state, clients)
        mean = [np.asarray(tensor) for tensor in after.params]
        return [mean for _ in clients]

    return train


@lru_cache
def averaging() -> Any:
    """FedJAX's algorithm, made once because it holds the compiled code."""
    return fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(LEARNING_RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=1),
    )


def loss(weights: Any, batch: Any, key: Any) -> Any:
    """Cross-entropy of the paper's network on a batch of one image."""
    del key
    bias1, kernel1, bias2, kernel2, bias3, kernel3 = weights
    maps = batch["x"].astype(jnp.float32) / 255
    maps = jax.nn.relu(convolution(maps, kernel1) + bias1)
    maps = jax.lax.reduce_window(maps, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    maps = jax.nn.relu(convolution(maps, kernel2) + bias2)
    logits = maps.transpose(0, 3, 1, 2).reshape(1, -1) @ kernel3.T + bias3
    return -jax.nn.log_softmax(logits)[0, batch["y"][0]]


def convolution(maps: Any, kernel: Any) -> Any:
    """3 x 3 convolution of the same size."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(maps, kernel, (1, 1), "SAME", dimension_numbers=layout)
