"""Shapes of the weights of the package's networks, without JAX and without making them.

Whatever is not known here is asked of the model itself (``models.weight_shapes``).
"""

import math
from itertools import pairwise
from typing import Any

from mix2fld.dataset import SampleFormat

Shapes = tuple[tuple[int, ...], ...]


def known_shapes(learning: Any, samples: SampleFormat, num_labels: int) -> Shapes | None:
    """In the order in which a payload carries them; None for any other model or sample.

    ``learning`` has the settings of that section.
    """
    whole = (learning.trained, learning.personal) == ("all", "none")
    model = suitable_model(learning.model, samples) if whole else ""
    sample_shape = samples.shape
    if model in ("linear", "mlp"):
        widths = (math.prod(sample_shape), *((128,) if model == "mlp" else ()), num_labels)
        return tuple(shape for pair in pairwise(widths) for shape in _linear(*pair))
    if model == "text-gru" and len(sample_shape) == 1:
        embedding, hidden = 16, 64
        gru = ((3 * hidden,), (3 * hidden, embedding), (3 * hidden, hidden))
        return ((num_labels, embedding), *gru, *_linear(hidden, num_labels))
    if model == "signal-cnn" and len(sample_shape) == 2 and sample_shape[0] >= 16:
        length, channels = sample_shape
        features = 24 * (length // 4 // 4)
        return (*_layer((5, channels, 24)), *_layer((5, 24, 24)), *_linear(features, num_labels))
    halvings = {"paper-cnn": 1, "cifar-cnn": 2}.get(model)
    if halvings is None or len(sample_shape) != 3:
        return None
    height, width, channels = sample_shape
    if height % 2**halvings or width % 2**halvings or not height * width:
        return None
    outputs = (12, 6) if model == "paper-cnn" else (32, 48, 64)
    features = outputs[-1] * (height >> halvings) * (width >> halvings)
    inputs = (channels, *outputs)
    convolutions = [_layer((3, 3, *pair)) for pair in zip(inputs, outputs, strict=False)]
    return (*(shape for layer in convolutions for shape in layer), *_linear(features, num_labels))


def _layer(kernel: tuple[int, ...]) -> Shapes:
    """Bias and kernel, in this order."""
    return (kernel[-1:], kernel)


def _linear(inputs: int, outputs: int) -> Shapes:
    return ((outputs,), (outputs, inputs))


def suitable_model(model: str, samples: SampleFormat) -> str:
    """The model that a config names, or what auto stands for: linear on features."""
    sample_shape = samples.shape
    if model != "auto":
        return model
    if samples.network is not None:
        return "linear"
    if len(sample_shape) == 3:
        return "paper-cnn" if sample_shape[-1] == 1 else "cifar-cnn"
    return "signal-cnn" if len(sample_shape) == 2 and sample_shape[0] >= 16 else "mlp"
