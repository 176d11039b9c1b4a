"""Maps what one device does over all devices, with every core busy.

On a CPU each core walks through its share of the devices one by one, which for small models is
several times faster than a batched step; on an accelerator they run batched.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray

from mix2fld.learning import (
    Learner,
    Loss,
    Phase,
    begin_phase,
    correct_predictions,
    sgd_steps,
)
from mix2fld.types import Model, Weights

TEST_BATCH = 250


@lru_cache(maxsize=1)
def cores() -> Mesh:
    """All accelerators, or every CPU core as a device of its own.

    JAX fixes its CPU devices at first use; where that has happened already, those are taken.
    """
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    return Mesh(np.array(jax.devices()), ("devices",))


def over_devices(
    function: Callable[..., Any], shared: tuple[Any, ...], own: tuple[Any, ...]
) -> Any:
    """``function(*shared, *own[d])`` for every d of the leading axis of ``own``."""
    mesh = cores()
    count = len(jax.tree.leaves(own)[0])
    padding = -count % mesh.size
    padded = jax.tree.map(lambda a: jnp.concatenate([a, a[-1:].repeat(padding, 0)]), own)

    def on_one_core(shared: tuple[Any, ...], own: tuple[Any, ...]) -> Any:
        def one(args: tuple[Any, ...]) -> Any:
            return function(*shared, *args)

        on_cpu = mesh.devices.flat[0].platform == "cpu"
        return jax.lax.map(one, own) if on_cpu else jax.vmap(one)(own)

    everywhere, split = PartitionSpec(), PartitionSpec("devices")
    mapped = jax.shard_map(
        on_one_core, mesh=mesh, in_specs=(everywhere, split), out_specs=split, check_vma=False
    )
    return jax.tree.map(lambda a: a[:count], mapped(shared, padded if padding else own))


@partial(jax.jit, static_argnums=(0, 1))
def begin_all(learner: Learner, num_labels: int, weights: Weights) -> Phase:
    """The phase of every device before its first step; ``weights`` [D, ...]."""
    return jax.vmap(partial(begin_phase, learner, num_labels=num_labels))(weights)


@partial(jax.jit, static_argnums=(0, 1))
def steps_all(
    learner: Learner,
    loss: Loss,
    phase: Phase,
    images: Array,
    targets: Array,
    teachers: Array,
    draws: Array,
) -> Phase:
    """SGD steps of every device; ``draws`` [D, K, B] names rows of the common ``images``."""

    def one(images: Array, targets: Array, phase: Phase, teacher: Array, draws: Array) -> Phase:
        return sgd_steps(learner, loss, phase, images, targets, teacher, draws)

    return over_devices(one, (images, targets), (phase, teachers, draws))


@partial(jax.jit, static_argnums=0)
def _correct_all(model: Model, weights: Weights, images: Array, labels: Array) -> Array:
    def one(images: Array, labels: Array, weights: Weights) -> Array:
        return correct_predictions(model, weights, images, labels)

    return over_devices(one, (images, labels), (weights,))


class TestSet:
    """Test samples cut into batches, for the accuracy of many models at once."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None:
        self.size = len(labels)
        padding = -self.size % TEST_BATCH
        nothing = np.zeros((padding, *images.shape[1:]), np.uint8)
        batches = np.concatenate([images, nothing]).reshape(-1, TEST_BATCH, *images.shape[1:])
        truth = np.concatenate([labels, np.full(padding, -1)]).reshape(-1, TEST_BATCH)
        self._images = jnp.asarray(batches)
        self._labels = jnp.asarray(truth.astype(np.int32))

    def accuracies(self, model: Model, models_weights: list[Weights]) -> list[float]:
        """Test accuracy of each set of weights."""
        stacked = jax.tree.map(lambda *tensors: jnp.stack(tensors), *models_weights)
        correct = np.asarray(_correct_all(model, stacked, self._images, self._labels))
        return [int(count) / self.size for count in correct]
