"""EfficientNet-Lite 0 to 2 (arXiv:1905.11946) without their last layer, from published weights."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.features.onnx_graph import Graph

Weights = Mapping[str, NDArray[np.float32]]
PIXELS = 128
"""Side to which images are resized."""
LENGTH = 10.0
"""Norm of a feature vector: inputs of a linear layer then are of a usual size."""
SIZE = 1280
_REPEATS = (1, 2, 2, 3, 3, 4, 1)
_STRIDES = (1, 2, 2, 2, 1, 2, 1)
_DEPTHS = (1.0, 1.1, 1.2)
_EPSILON = 1e-3
_CENTRE, _SPREAD = 127.0, 128.0


def efficientnet_lite(version: int, weights: Weights) -> bytes:
    """An ONNX file: images uint8 [n, H, W, C] of one or three channels to vectors [n, 1280].

    Images are resized (bilinear, half-pixel centres). Features are averaged over space; their
    square roots, of which distances are Hellinger's, are divided by their norm.
    Batch normalisation is part of the convolutions.
    """
    graph = _Layers(weights)
    maps = graph.convolved(_input_images(graph), "_conv_stem", "_bn0", stride=2)
    for block, stride in enumerate(_block_strides(version)):
        maps = _block(graph, maps, f"_blocks.{block}", stride)
    maps = graph.convolved(maps, "_conv_head", "_bn1")
    means = graph.node("Flatten", graph.node("GlobalAveragePool", maps))
    vectors = graph.node("Sqrt", means)
    norms = graph.node("ReduceL2", vectors, axes=[1], keepdims=1)
    scaled = graph.node("Mul", vectors, graph.number(LENGTH))
    # No image has features of zero only, but one of zeros must not become NaN.
    output = graph.node("Div", scaled, graph.node("Max", norms, graph.number(1e-12)))
    return graph.file(("images", "uint8", ("n", "h", "w", "c")), output, SIZE)


class _Layers(Graph):
    """Layers of a network whose weights are known by name."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.weights = weights

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def convolved(self, maps: str, name: str, norm: str, stride: int = 1, act: bool = True) -> str:
        """Convolution of the same size, normalisation as it was trained, and ReLU6."""
        kernel = self.weights[f"{name}.weight"]
        scale, shift = (self.weights[f"{norm}.{part}"] for part in ("weight", "bias"))
        mean, variance = (self.weights[f"{norm}.running_{part}"] for part in ("mean", "var"))
        gain = scale / np.sqrt(variance + np.float32(_EPSILON))
        arrays = (kernel * gain[:, None, None, None], shift - mean * gain)
        found = self.node(
            "Conv",
            maps,
            *(self.constant(array.astype(np.float32)) for array in arrays),
            auto_pad="SAME_UPPER",
            group=len(kernel) if "depthwise" in name else 1,
            kernel_shape=list(kernel.shape[2:]),
            strides=[stride, stride],
        )
        return self.node("Clip", found, self.number(0), self.number(6)) if act else found


def _input_images(graph: _Layers) -> str:
    floats = graph.node("Cast", "images", to=1)
    colours = graph.node("Expand", floats, graph.constant(np.array([1, 1, 1, 3], np.int64)))
    maps = graph.node("Transpose", colours, perm=[0, 3, 1, 2])
    shape = graph.node("Shape", maps)
    ends = [graph.constant(np.array([end], np.int64)) for end in (0, 2)]
    sides = graph.constant(np.array([PIXELS, PIXELS], np.int64))
    sizes = graph.node("Concat", graph.node("Slice", shape, *ends), sides, axis=0)
    resized = graph.node("Resize", maps, "", "", sizes, mode="linear")
    return graph.node(
        "Div", graph.node("Sub", resized, graph.number(_CENTRE)), graph.number(_SPREAD)
    )


def _block(graph: _Layers, maps: str, name: str, stride: int) -> str:
    found = maps
    if f"{name}._expand_conv.weight" in graph.weights:
        found = graph.convolved(found, f"{name}._expand_conv", f"{name}._bn0")
    found = graph.convolved(found, f"{name}._depthwise_conv", f"{name}._bn1", stride)
    found = graph.convolved(found, f"{name}._project_conv", f"{name}._bn2", act=False)
    first = f"{name}._expand_conv.weight"
    channels = len(graph.weights[f"{name}._project_conv.weight"])
    same = first in graph.weights and graph.weights[first].shape[1] == channels
    return graph.node("Add", found, maps) if stride == 1 and same else found


def _block_strides(version: int) -> list[int]:
    """The stride of every block; the first and the last stage are not repeated."""
    strides = []
    for stage, (repeats, stride) in enumerate(zip(_REPEATS, _STRIDES, strict=True)):
        inner = 0 < stage < len(_REPEATS) - 1
        count = int(np.ceil(repeats * _DEPTHS[version])) if inner else repeats
        strides += [stride] + [1] * (count - 1)
    return strides
