"""The work that every contender does: the paper's local phase on MNIST, the same draws for all.

Weights are passed around as the six tensors of the paper's network in payload order: bias [12] and
kernel [3, 3, 1, 12] of the first convolution, bias [6] and kernel [3, 3, 12, 6] of the second, bias
[10] and kernel [10, 1176] of the linear layer.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, load_dataset
from mix2fld.tasks.stepper import draw_samples
from mix2fld.types import Dataset

LEARNING_RATE = 0.01
SHAPES = ((12,), (3, 3, 1, 12), (6,), (3, 3, 12, 6), (10,), (10, 1176))
CORES = len(os.sched_getaffinity(0))
Tensors = list[NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Work:
    """Ten labels, D devices of n samples each, K steps of one sample each."""

    images: NDArray[np.uint8]  # [D, n, 28, 28, 1]
    labels: NDArray[np.int32]  # [D, n]
    draws: NDArray[np.int32]  # [D, K], the sample of each step, counted within its device
    weights: Tensors  # where every device starts

    def share(self, devices: NDArray[np.int64]) -> "Work":
        """The work of some of the devices."""
        return Work(self.images[devices], self.labels[devices], self.draws[devices], self.weights)

    def first_steps(self, steps: int) -> "Work":
        """The same work cut short, to warm up with."""
        return Work(self.images, self.labels, self.draws[:, :steps], self.weights)


def deal(devices: int) -> tuple[Dataset, list[NDArray[np.int64]]]:
    """MNIST, and the 500 rows of it that each device holds: the paper's partition, non-iid."""
    config = Config.of(devices=devices, reuse_samples=devices > 100)
    dataset = load_dataset(config.data)
    return dataset, device_parts(dataset, config)


def paper_work(devices: int, steps: int) -> Work:
    """The work with its samples laid out device by device."""
    dataset, parts = deal(devices)
    return Work(
        images=np.stack([dataset.train_inputs[part] for part in parts]),
        labels=np.stack([dataset.train_labels[part] for part in parts]),
        draws=draw(parts, steps),
        weights=initial_weights(),
    )


def draw(parts: list[NDArray[np.int64]], steps: int) -> NDArray[np.int32]:
    """One sample for each step of each device, [D, K], uniformly drawn."""
    streams = [stream(0, "draws", 1, device) for device in range(len(parts))]
    return np.stack(
        [
            draw_samples(rng, len(part), steps, 1)[:, 0]
            for rng, part in zip(streams, parts, strict=True)
        ]
    )


def initial_weights() -> Tensors:
    """He-normal kernels and zero biases."""
    rng = stream(0, "benchmark weights")
    fans = (0, 9, 0, 9 * 12, 0, 1176)
    return [
        np.float32(rng.normal(size=shape) * np.sqrt(2 / fan)) if fan else np.zeros(shape, "f4")
        for shape, fan in zip(SHAPES, fans, strict=True)
    ]


def mean_weights(of_devices: list[Tensors]) -> Tensors:
    """What federated averaging makes of the devices' weights."""
    return [np.mean(tensors, axis=0) for tensors in zip(*of_devices, strict=True)]


def deviation(work: Work, mean: Tensors) -> float:
    """Largest difference of any mean weight from that of the package's own ``sgd_steps``."""
    devices = range(len(work.draws))
    return difference(mean, mean_weights([reference(work, device) for device in devices]))


def difference(some: Tensors, others: Tensors) -> float:
    """Largest difference of any weight."""
    return max(float(np.abs(a - b).max()) for a, b in zip(some, others, strict=True))


def reference(work: Work, device: int) -> Tensors:
    """One device's weights after its steps by the package's own ``sgd_steps``."""
    import jax
    import jax.numpy as jnp

    from mix2fld.tasks.losses import label_loss, one_hot
    from mix2fld.tasks.sgd import LearnerProgress, begin_steps, sgd_steps
    from mix2fld.types import Samples

    learner = paper_learner()
    begun = begin_steps(
        learner, (10, 10), weight_tree([jnp.asarray(tensor) for tensor in work.weights])
    )
    run = LearnerProgress(begun, jnp.zeros((10, 10)), work.draws[device][:, None])
    sets = (Samples(work.images[device], one_hot(work.labels[device], 10)),)
    trained = jax.jit(sgd_steps, static_argnums=(0, 1))(learner, label_loss, sets, run)
    return [np.asarray(tensor) for tensor in jax.tree.leaves(trained.phase.weights)]


@lru_cache
def paper_learner() -> Any:
    """The package's learner for this work: the paper's network and plain SGD."""
    from mix2fld.config.settings import LearningConfig
    from mix2fld.models import paper_cnn
    from mix2fld.tasks.sgd import TrainingSetup

    config = LearningConfig(learning_rate=LEARNING_RATE)
    return TrainingSetup.from_config(paper_cnn((28, 28, 1), 10), config)


def weight_tree(tensors: Tensors) -> Any:
    """The six tensors as the package's weight tree."""
    names = ("conv1", "conv2", "linear")
    return {
        name: {"bias": tensors[2 * layer], "kernel": tensors[2 * layer + 1]}
        for layer, name in enumerate(names)
    }
