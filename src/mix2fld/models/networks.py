"""The networks that come with the package; their weights are He-normal, all biases start at zero.

He-normal is a normal draw of variance 2 / fan-in; a linear model starts at zero. All end in a
kernel [N_L, F], whose features F are counted in the order (channel, row, column).
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array, lax

from mix2fld.base.errors import InputError
from mix2fld.models.layers import (
    conv_relu,
    conv_relu_pool,
    conv_relu_signal,
    linear,
    max_pool_signal,
)
from mix2fld.native import mlp as mlp_kernel
from mix2fld.native import small_cnn
from mix2fld.types import Model, Weights

SampleShape = tuple[int, ...]
"""Of one sample: height, width and channels of an image, length and channels of a signal."""


def paper_cnn(sample_shape: SampleShape, num_labels: int) -> Model:
    """The paper's network of two convolutions and one linear layer (decision 5).

    Convolution to 12 channels, ReLU, max-pool 2, convolution to 6, ReLU, linear: 12,544 weights
    for MNIST.
    """
    height, width, channels = _divisible("paper-cnn", sample_shape, 2)
    features = 6 * (height // 2) * (width // 2)

    def init(key: Array) -> Weights:
        keys = jax.random.split(key, 3)
        return {
            "conv1": _conv_weights(keys[0], channels, 12),
            "conv2": _conv_weights(keys[1], 12, 6),
            "linear": _linear_weights(keys[2], features, num_labels),
        }

    def apply(weights: Weights, images: Array) -> Array:
        maps = conv_relu_pool(**weights["conv1"], images=_batch_last(images))
        maps = conv_relu(**weights["conv2"], images=maps)
        return _logits(weights["linear"], maps)

    return Model("paper-cnn", init, apply, partial(small_cnn, sample_shape, 12, 6, num_labels))


def cifar_cnn(sample_shape: SampleShape, num_labels: int) -> Model:
    """Three convolutions to 32, 48 and 64 channels, the first two pooled, and one linear layer.

    83,450 weights for CIFAR-10.
    """
    height, width, channels = _divisible("cifar-cnn", sample_shape, 4)
    features = 64 * (height // 4) * (width // 4)

    def init(key: Array) -> Weights:
        keys = jax.random.split(key, 4)
        return {
            "conv1": _conv_weights(keys[0], channels, 32),
            "conv2": _conv_weights(keys[1], 32, 48),
            "conv3": _conv_weights(keys[2], 48, 64),
            "linear": _linear_weights(keys[3], features, num_labels),
        }

    def apply(weights: Weights, images: Array) -> Array:
        maps = _max_pool(_conv_relu(weights["conv1"], images))
        maps = _max_pool(_conv_relu(weights["conv2"], maps))
        maps = _conv_relu(weights["conv3"], maps)
        return _logits(weights["linear"], maps.transpose(3, 1, 2, 0))

    return Model("cifar-cnn", init, apply)


def signal_cnn(sample_shape: SampleShape, num_labels: int) -> Model:
    """Two convolutions along time to 24 channels, each pooled by 4, and one linear layer.

    For windows [T, C] of at least 16 steps; 4,663 weights for six channels of 100 steps, 7 labels.
    """
    taps, width, pool = 5, 24, 4
    if len(sample_shape) != 2 or sample_shape[0] < pool**2:
        raise InputError(
            field="model",
            value="signal-cnn",
            hint=f"samples are {list(sample_shape)}, but must be windows [T, C] "
            f"of at least {pool**2} steps; choose mlp",
        )
    length, channels = sample_shape
    features = width * (length // pool // pool)

    def init(key: Array) -> Weights:
        keys = jax.random.split(key, 3)
        return {
            "conv1": _signal_weights(keys[0], taps, channels, width),
            "conv2": _signal_weights(keys[1], taps, width, width),
            "linear": _linear_weights(keys[2], features, num_labels),
        }

    def apply(weights: Weights, inputs: Array) -> Array:
        maps = conv_relu_signal(**weights["conv1"], signals=_batch_last(inputs))
        maps = conv_relu_signal(**weights["conv2"], signals=max_pool_signal(maps, pool))
        return _logits(weights["linear"], max_pool_signal(maps, pool))

    return Model("signal-cnn", init, apply)


def mlp(sample_shape: SampleShape, num_labels: int, hidden: Sequence[int] = (128,)) -> Model:
    """Linear layers with ReLU between them, for samples of any shape."""
    sizes = [math.prod(sample_shape), *hidden, num_labels]

    def init(key: Array) -> Weights:
        keys = jax.random.split(key, len(sizes) - 1)
        return {
            f"linear{layer}": _linear_weights(key, inputs, outputs)
            for layer, (key, (inputs, outputs)) in enumerate(
                zip(keys, pairwise(sizes), strict=True), start=1
            )
        }

    def apply(weights: Weights, inputs: Array) -> Array:
        maps = _batch_last(inputs)
        for layer in range(1, len(sizes) - 1):
            features = maps.reshape(-1, maps.shape[-1])
            maps = jax.nn.relu(linear(**weights[f"linear{layer}"], features=features))
        return _logits(weights[f"linear{len(sizes) - 1}"], maps)

    kernel = partial(mlp_kernel, sample_shape, hidden[0], num_labels) if len(hidden) == 1 else None
    return Model("mlp", init, apply, kernel, kernel_on_request=True)


def linear_model(sample_shape: SampleShape, num_labels: int) -> Model:
    """One linear layer, which is multinomial logistic regression; its weights start at zero."""
    features = math.prod(sample_shape)

    def init(key: Array) -> Weights:
        del key
        return {
            "linear": {"kernel": jnp.zeros((num_labels, features)), "bias": jnp.zeros(num_labels)}
        }

    def apply(weights: Weights, inputs: Array) -> Array:
        return _logits(weights["linear"], _batch_last(inputs))

    return Model("linear", init, apply, partial(mlp_kernel, sample_shape, 0, num_labels))


def _logits(weights: Weights, maps: Array) -> Array:
    """Kernel [N_L, F] and bias [N_L], maps [..., B] of F values a sample -> [B, N_L]."""
    return linear(**weights, features=maps.reshape(-1, maps.shape[-1])).T


def _conv_relu(weights: Weights, images: Array) -> Array:
    """3 x 3 convolution of the same size, then ReLU: [B, H, W, C] -> [B, H, W, O].

    In its plain form: training uses the fast one (``models.fast``).
    """
    axes = ("NHWC", "HWIO", "NHWC")
    maps = lax.conv_general_dilated(
        images, weights["kernel"], (1, 1), "SAME", dimension_numbers=axes
    )
    return jax.nn.relu(maps + weights["bias"])


def _max_pool(images: Array) -> Array:
    """2 x 2 max-pool: [B, H, W, C] -> [B, H/2, W/2, C]."""
    window = (1, 2, 2, 1)
    return lax.reduce_window(images, -jnp.inf, lax.max, window, window, "VALID")


def _batch_last(inputs: Array) -> Array:
    """[B, ..., C] -> [C, ..., B]."""
    return jnp.swapaxes(inputs, 0, -1)


def _conv_weights(key: Array, channels: int, outputs: int) -> Weights:
    kernel = _he_normal(key, (3, 3, channels, outputs), fan_in=9 * channels)
    return {"kernel": kernel, "bias": jnp.zeros(outputs, jnp.float32)}


def _signal_weights(key: Array, taps: int, channels: int, outputs: int) -> Weights:
    kernel = _he_normal(key, (taps, channels, outputs), fan_in=taps * channels)
    return {"kernel": kernel, "bias": jnp.zeros(outputs, jnp.float32)}


def _linear_weights(key: Array, inputs: int, outputs: int) -> Weights:
    kernel = _he_normal(key, (outputs, inputs), fan_in=inputs)
    return {"kernel": kernel, "bias": jnp.zeros(outputs, jnp.float32)}


def _he_normal(key: Array, shape: tuple[int, ...], fan_in: int) -> Array:
    return jax.random.normal(key, shape, jnp.float32) * math.sqrt(2 / fan_in)


def _divisible(name: str, sample_shape: SampleShape, factor: int) -> tuple[int, int, int]:
    if len(sample_shape) != 3:
        raise InputError(
            field="model",
            value=name,
            hint=f"samples are {list(sample_shape)}, but must be images [H, W, C]; choose mlp",
        )
    height, width, channels = sample_shape
    if height % factor or width % factor or not height or not width:
        raise InputError(
            field="model",
            value=name,
            hint=f"images are {height} x {width}, but height and width must be "
            f"divisible by {factor}; pad the images, or choose mlp",
        )
    return height, width, channels
