"""Small frozen networks for tests."""

from pathlib import Path

import numpy as np

from mix2fld.data.features.onnx_graph import Graph


def small_onnx(
    path: Path,
    kind: str = "float32",
    shape: tuple[int | str, ...] = ("n", 3, 4, 4),
    size: int = 5,
) -> np.ndarray:
    """A random linear map of channels-first images."""
    graph = Graph()
    flat = graph.node("Flatten", graph.node("Cast", "images", to=1))
    weights = np.random.default_rng(0).normal(size=(np.prod(shape[1:]), size)).astype(np.float32)
    vectors = graph.node("Clip", graph.node("MatMul", flat, graph.constant(weights)))
    path.write_bytes(graph.file(("images", kind, shape), vectors, size))
    return weights
