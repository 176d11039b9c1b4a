"""Maps what one device does over all devices, with every core busy.

Where the learner has machine code, threads share out the devices. Otherwise XLA does: on a CPU each
core walks through its share of the devices one by one, which for small models is several times
faster than a batched step; on an accelerator they run batched. Arrays with a device axis come from
the host and go back to it: nothing spread over cores is ever combined there, so no core waits for
another.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from mix2fld.learning.steps import (
    Learner,
    Loss,
    Phase,
    begin_phase,
    correct_predictions,
    has_kernel,
    kernel_steps,
    sgd_steps,
)
from mix2fld.models.processor import usable_cores
from mix2fld.types import Model, Weights

TEST_BATCH = 32  # the fastest for the networks of the package on a CPU
EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec("devices")

# JAX fixes its CPU devices at first use; where that has happened already, they stay as they are.
with suppress(RuntimeError):
    jax.config.update("jax_num_cpu_devices", usable_cores())


class Trainer:
    """The local steps of all devices on a common training set."""

    def __init__(
        self,
        learner: Learner,
        loss: Loss,
        images: NDArray[np.uint8],
        targets: NDArray[np.float32],
    ) -> None:
        self.learner, self.loss = learner, loss
        self._num_labels = targets.shape[1]
        self._by_kernel = has_kernel(learner, loss)
        samples = (np.ascontiguousarray(images), np.ascontiguousarray(targets))
        self._samples: tuple[Any, Any] = samples if self._by_kernel else on_every_core(samples)

    def begin(self, weights: Weights) -> Phase:
        """The phase of every device before its first step; ``weights`` [D, ...]."""
        if not self._by_kernel:
            return over_devices(_begin_one, (self.learner, self._num_labels), (), (weights,))
        devices, labels = len(jax.tree.leaves(weights)[0]), self._num_labels
        sums, counts = np.zeros((devices, labels, labels)), np.zeros((devices, labels))
        stateless = self.learner.optimizer.init(weights)
        return Phase(weights, stateless, sums.astype(np.float32), counts.astype(np.float32))

    def steps(self, phase: Phase, teachers: NDArray[np.float32], draws: NDArray[np.int32]) -> Phase:
        """SGD steps of every device; ``draws`` [D, K, B] names rows of the training set."""
        if not self._by_kernel:
            fixed, own = (self.learner, self.loss), (phase, teachers, draws)
            return over_devices(_steps_of_one, fixed, self._samples, own)

        def one(device: int) -> Phase:
            own, (images, targets) = pick(phase, device), self._samples
            teacher = np.ascontiguousarray(teachers[device])
            return kernel_steps(
                self.learner, self.loss, own, images, targets, teacher, draws[device]
            )

        return _stack(_in_threads(one, range(len(draws))))

    def local_phase(
        self,
        weights: Weights,
        teachers: NDArray[np.float32],
        draws: NDArray[np.int32],
        points: int,
        watched: int,
    ) -> tuple[Phase, list[tuple[int, Weights]]]:
        """All steps of every device, and the weights of one of them at ``points`` times."""
        phase, snapshots = self.begin(weights), []
        for begin, end in pairwise([0, *snapshot_steps(draws.shape[1], points)]):
            phase = self.steps(phase, teachers, draws[:, begin:end])
            snapshots.append((end, pick(phase.weights, watched)))
        return phase, snapshots


class TestSet:
    """Test samples, for the accuracy of many models at once."""

    def __init__(
        self, learner: Learner, images: NDArray[np.uint8], labels: NDArray[np.int32]
    ) -> None:
        self.size = len(labels)
        self._learner = learner
        if learner.kernel is not None:
            self._samples = (np.ascontiguousarray(images), np.ascontiguousarray(labels))
            return
        padding = -self.size % TEST_BATCH
        nothing = np.zeros((padding, *images.shape[1:]), np.uint8)
        batches = np.concatenate([images, nothing]).reshape(-1, TEST_BATCH, *images.shape[1:])
        truth = np.concatenate([labels, np.full(padding, -1)]).reshape(-1, TEST_BATCH)
        self._samples = on_every_core((batches, truth.astype(np.int32)))

    def accuracies(self, models_weights: list[Weights]) -> list[float]:
        """Test accuracy of each set of weights."""
        kernel = self._learner.kernel
        if kernel is None:
            fixed, own = (self._learner.model,), (_stack(models_weights),)
            correct = over_devices(_correct_of_one, fixed, self._samples, own)
        else:

            def count(weights: Weights) -> int:
                return kernel.count_correct(jax.tree.leaves(weights), *self._samples)

            correct = _in_threads(count, models_weights)
        return [int(count) / self.size for count in correct]


def snapshot_steps(steps: int, points: int) -> list[int]:
    """The numbers of steps after which a device of interest is looked at; the last is all."""
    ends = np.linspace(0, steps, points + 1).astype(int)
    return [int(end) for end in np.unique(ends) if end > 0]


@lru_cache(maxsize=1)
def cores() -> Mesh:
    """All accelerators, or every CPU core as a device of its own."""
    return Mesh(np.array(jax.devices()), ("devices",))


def walks_one_by_one() -> bool:
    """Whether a core takes its devices one after the other, or all in one batch."""
    return bool(cores().devices.flat[0].platform == "cpu")


def on_every_core(tree: Any) -> Any:
    """A copy on each core, made once, of what all devices share."""
    return jax.device_put(tree, NamedSharding(cores(), EVERYWHERE))


def over_devices(
    function: Callable[..., Any], fixed: tuple[Any, ...], shared: tuple[Any, ...], own: Any
) -> Any:
    """``function(*fixed, *shared, *own[d])`` for every d of the leading axis of ``own``.

    ``fixed`` is compiled in; ``shared`` comes from ``on_every_core``; ``own`` and the result are
    host arrays.
    """
    count = len(jax.tree.leaves(own)[0])
    padding = -count % cores().size
    padded = jax.tree.map(lambda a: np.concatenate([a, *[a[-1:]] * padding]), own)
    spread = jax.device_put(padded, NamedSharding(cores(), SPLIT))
    result = _mapped(function, fixed, shared, spread)
    return jax.tree.map(lambda a: np.asarray(a)[:count], result)


def pick(stacked: Any, device: int) -> Any:
    """One device's part of arrays with a device axis."""
    return jax.tree.map(lambda tensor: tensor[device], stacked)


@partial(jax.jit, static_argnums=(0, 1))
def _mapped(function: Callable[..., Any], fixed: Any, shared: Any, own: Any) -> Any:
    def on_one_core(shared: Any, own: Any) -> Any:
        def one(args: Any) -> Any:
            return function(*fixed, *shared, *args)

        return jax.lax.map(one, own) if walks_one_by_one() else jax.vmap(one)(own)

    return jax.shard_map(
        on_one_core, mesh=cores(), in_specs=(EVERYWHERE, SPLIT), out_specs=SPLIT, check_vma=False
    )(shared, own)


def _in_threads(function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(usable_cores()) as threads:
        return list(threads.map(function, values))


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *tensors: np.stack(tensors), *trees)


def _begin_one(learner: Learner, num_labels: int, weights: Weights) -> Phase:
    return begin_phase(learner, weights, num_labels)


def _steps_of_one(
    learner: Learner,
    loss: Loss,
    images: Array,
    targets: Array,
    phase: Phase,
    teacher: Array,
    draws: Array,
) -> Phase:
    return sgd_steps(learner, loss, phase, images, targets, teacher, draws)


def _correct_of_one(model: Model, images: Array, labels: Array, weights: Weights) -> Array:
    return correct_predictions(model, weights, images, labels)
