"""FedJAX: federated averaging with its ``pmap`` backend, one JAX device to a core."""

import os
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work, paper_work

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={CORES}"

import jax
import jax.numpy as jnp
import numpy as np

jax.tree_map = jax.tree.map  # FedJAX still calls it by the name that JAX has given up

import fedjax
from fedjax.algorithms import fed_avg


class DrawnSamples:
    """A client's dataset that gives batches of one sample in the order of the draws."""

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
    """One round, after one of a few steps to compile."""
    work = paper_work(devices, steps)
    fedjax.set_for_each_client_backend(os.environ.get("FEDJAX_BACKEND", "pmap"))
    algorithm = fed_avg.federated_averaging(
        jax.grad(_loss),
        fedjax.optimizers.sgd(LEARNING_RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=1),
    )
    state = algorithm.init([jnp.asarray(tensor) for tensor in work.weights])
    warm_up, _ = _round(algorithm, state, work.first_steps(20))
    seconds, trained = _round(algorithm, state, work)
    return {"seconds": seconds, "warm_up_seconds": warm_up, "weights": trained}


def _round(algorithm: Any, state: Any, work: Work) -> tuple[float, Tensors]:
    keys = jax.random.split(jax.random.PRNGKey(0), len(work.draws))
    clients = [(str(d).encode(), DrawnSamples(work, d), key) for d, key in enumerate(keys)]
    started = time.perf_counter()
    after, _ = algorithm.apply(state, clients)
    weights = [np.asarray(tensor) for tensor in after.params]
    return time.perf_counter() - started, weights


def _loss(weights: Any, batch: Any, key: Any) -> Any:
    del key
    bias1, kernel1, bias2, kernel2, bias3, kernel3 = weights
    maps = batch["x"].astype(jnp.float32) / 255
    maps = jax.nn.relu(_convolution(maps, kernel1) + bias1)
    maps = jax.lax.reduce_window(maps, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    maps = jax.nn.relu(_convolution(maps, kernel2) + bias2)
    logits = maps.transpose(0, 3, 1, 2).reshape(1, -1) @ kernel3.T + bias3
    return -jax.nn.log_softmax(logits)[0, batch["y"][0]]


def _convolution(maps: Any, kernel: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(maps, kernel, (1, 1), "SAME", dimension_numbers=layout)
