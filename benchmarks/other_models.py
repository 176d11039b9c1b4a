"""The models of the section "Other models", and the work that every side does with them.

Samples are noise: no time depends on what is in them. Each model stands here as a user of JAX
writes it, and under the same name and with the same names of its layers in ``other_torch``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.tasks.stepper import draw_samples

SAMPLES = 500
LABELS = 10
LEARNING_RATE = 0.01
Tensors = tuple[NDArray[np.float32], ...]


@dataclass(frozen=True)
class OtherModel:
    """A row of the table."""

    name: str
    network: str
    title: str
    sample_shape: tuple[int, int, int]
    batch_size: int
    steps: int
    weights: int
    multiplications: int  # of one sample's forward pass
    optimizer: str = "sgd"


def conv(side: int, taps: int, channels: int, outputs: int) -> int:
    """Multiplications of a convolution with ``side`` x ``side`` outputs."""
    return side * side * taps * taps * channels * outputs


MNIST, CIFAR = (28, 28, 1), (32, 32, 3)
PAPER = conv(28, 3, 1, 12) + conv(14, 3, 12, 6) + 1176 * 10
COLOUR = conv(32, 3, 3, 32) + conv(16, 3, 32, 48) + conv(8, 3, 48, 64) + 4096 * 10
USUAL = conv(28, 5, 1, 32) + conv(14, 5, 32, 64) + 3136 * 512 + 512 * 10
RESNET = (
    conv(32, 3, 3, 16)
    + 2 * conv(32, 3, 16, 16)
    + sum(conv(16, 3, c, 32) for c in (16, 32))
    + sum(conv(8, 3, c, 64) for c in (32, 64))
    + conv(16, 1, 16, 32)
    + conv(8, 1, 32, 64)
    + 64 * 10
)
PERCEPTRON = 784 * 200 + 200 * 10

OTHER_MODELS = (
    OtherModel("paper-1", "paper", "paper-cnn", MNIST, 1, 3200, 12_544, PAPER),
    OtherModel("paper-32", "paper", "paper-cnn", MNIST, 32, 100, 12_544, PAPER),
    OtherModel("cifar-1", "cifar", "cifar-cnn", CIFAR, 1, 400, 83_450, COLOUR),
    OtherModel("cifar-32", "cifar", "cifar-cnn", CIFAR, 32, 50, 83_450, COLOUR),
    OtherModel("mlp-32", "mlp", "MLP 784-200-10", MNIST, 32, 600, 159_010, PERCEPTRON, "adam"),
    OtherModel(
        "usual-10", "usual", "the usual FL CNN, Flax", MNIST, 10, 100, 1_663_370, USUAL
    ),
    OtherModel(
        "resnet-32", "resnet", "ResNet-8 with GroupNorm, Flax", CIFAR, 32, 24, 77_850, RESNET
    ),
)  # fmt: skip
BY_NAME = {model.name: model for model in OTHER_MODELS}


@dataclass(frozen=True, eq=False)
class OtherWork:
    """Four devices that share their samples; every step draws its own batch."""

    images: NDArray[np.uint8]  # [n, H, W, C]
    labels: NDArray[np.int32]  # [n]
    draws: NDArray[np.int32]  # [D, K, B]
    weights: Tensors  # where every device starts, in payload order

    def share(self, devices: NDArray[np.int64]) -> "OtherWork":
        """The work of some of the devices."""
        return replace(self, draws=self.draws[devices])

    def first_steps(self, steps: int) -> "OtherWork":
        """The same work cut short, to warm up with."""
        return replace(self, draws=self.draws[:, :steps])


def other_work(model: OtherModel, devices: int, steps: int) -> OtherWork:
    """The work of a row; a shorter one has the first draws of a longer one."""
    rng = stream(0, "other models")
    images = rng.integers(0, 256, (SAMPLES, *model.sample_shape), dtype=np.uint8)
    labels = rng.integers(LABELS, size=SAMPLES).astype(np.int32)
    draws = [
        draw_samples(stream(0, "draws", 1, device), SAMPLES, steps, model.batch_size)
        for device in range(devices)
    ]
    return OtherWork(images, labels, np.stack(draws), initial_weights(model.network))


def reference(model: OtherModel, devices: int, steps: int) -> list[NDArray[np.float32]]:
    """Mean weights of the devices after their steps, by plain JAX: no loop and no fast form."""
    import jax
    import jax.numpy as jnp

    from mix2fld.tasks.sgd import OPTIMIZERS, cross_entropy

    work, network = other_work(model, devices, steps), jax_model(model.network)
    images, labels = jnp.asarray(work.images, jnp.float32) / 255, jnp.eye(LABELS)[work.labels]
    optimizer = OPTIMIZERS[model.optimizer](LEARNING_RATE)

    def loss(weights: Any, rows: Any) -> Any:
        return cross_entropy(network.apply(weights, images[rows]), labels[rows])

    @jax.jit
    def step(weights: Any, state: Any, rows: Any) -> Any:
        update, after = optimizer.update(jax.grad(loss)(weights, rows), state, weights)
        return jax.tree.map(jnp.add, weights, update), after

    ends = []
    for draws in work.draws:
        weights = network.init(jax.random.key(0))
        state = optimizer.init(weights)
        for rows in draws:
            weights, state = step(weights, state, rows)
        ends.append(jax.tree.leaves(weights))
    return [np.mean(tensors, axis=0) for tensors in zip(*ends, strict=True)]


@lru_cache
def initial_weights(network: str) -> Tensors:
    """The initial weights of a network, which all sides start from."""
    import jax

    weights = jax_model(network).init(jax.random.key(0))
    return tuple(np.asarray(tensor) for tensor in jax.tree.leaves(weights))


@lru_cache
def jax_model(network: str) -> Any:
    """The network as a ``Model``."""
    from mix2fld.models import cifar_cnn, from_flax, mlp, paper_cnn

    makers: dict[str, Callable[[], Any]] = {
        "paper": lambda: paper_cnn(MNIST, LABELS),
        "cifar": lambda: cifar_cnn(CIFAR, LABELS),
        "mlp": lambda: mlp(MNIST, LABELS, (200,)),
        "usual": lambda: from_flax(_flax_networks()["usual"], MNIST),
        "resnet": lambda: from_flax(_flax_networks()["resnet"], CIFAR),
    }
    return makers[network]()


@lru_cache
def _flax_networks() -> dict[str, Any]:
    from flax import linen

    class UsualCnn(linen.Module):
        """Two 5 x 5 convolutions, each with a 2 x 2 max-pool, and 512 hidden units."""

        @linen.compact
        def __call__(self, x: Any) -> Any:
            for width in (32, 64):
                x = linen.relu(linen.Conv(width, (5, 5))(x))
                x = linen.max_pool(x, (2, 2), (2, 2))
            x = linen.relu(linen.Dense(512)(x.reshape(len(x), -1)))
            return linen.Dense(LABELS)(x)

    class Block(linen.Module):
        width: int
        stride: int

        @linen.compact
        def __call__(self, x: Any) -> Any:
            y = linen.Conv(self.width, (3, 3), self.stride, padding=1, use_bias=False)(x)
            y = linen.relu(linen.GroupNorm(8)(y))
            y = linen.Conv(self.width, (3, 3), padding=1, use_bias=False)(y)
            y = linen.GroupNorm(8)(y)
            if self.stride > 1:
                x = linen.Conv(self.width, (1, 1), self.stride, use_bias=False)(x)
            return linen.relu(x + y)

    class ResNet8(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.Conv(16, (3, 3), padding=1, use_bias=False)(x)
            x = linen.relu(linen.GroupNorm(8)(x))
            for width, stride in ((16, 1), (32, 2), (64, 2)):
                x = Block(width, stride)(x)
            return linen.Dense(LABELS)(x.mean((1, 2)))

    return {"usual": UsualCnn(), "resnet": ResNet8()}
