"""A frozen network as it is applied: samples as stored, one after another, to vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.data.place_errors import one_line
from mix2fld.dataset import FrozenNetwork

Floats = NDArray[np.float32]
Apply = Callable[[NDArray[Any]], Floats]
"""Samples as stored [n, ...] -> vectors [n, F]."""


class OnnxGraph(NamedTuple):
    """The ONNX file that a network is, and how it is fed."""

    content: bytes
    scaled: bool
    """With float32 as a model is fed; otherwise with values as stored."""
    turned: bool
    """With channels first."""


@dataclass(frozen=True, eq=False)
class Network:
    """A frozen network that is ready: what tells it apart, and its function.

    The function may be called from several threads at once.
    """

    about: FrozenNetwork
    size: int
    apply: Apply
    graph: OnnxGraph | None = None
    """None: it is no ONNX file."""

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """Vectors [n, F] of samples [n, ...]; the same bits for a sample, whatever is beside it."""
        found = np.empty((len(samples), self.size), np.float32)
        for place in range(len(samples)):
            found[place] = self._one(samples[place : place + 1])
        return found

    def _one(self, sample: NDArray[Any]) -> Floats:
        vectors = vectors_of(self.about.name, self.apply, sample)
        if vectors.shape[1] != self.size:
            raise InputError(
                field="features",
                value=self.about.name,
                hint=f"returns vectors of {self.size} and of {vectors.shape[1]} values; all must "
                "have the same number",
            )
        return vectors


def made_network(
    name: str,
    digest: str,
    shape: tuple[int, ...],
    dtype: str,
    apply: Apply,
    graph: OnnxGraph | None = None,
) -> Network:
    """The network, tried with one sample of zeros."""
    tried = vectors_of(name, apply, np.zeros((1, *shape), dtype))
    return Network(FrozenNetwork(name, digest, shape, dtype), tried.shape[1], apply, graph)


def vectors_of(name: str, apply: Apply, sample: NDArray[Any]) -> Floats:
    """The vector [1, F] of one sample; raises ``InputError`` if a network returns none."""
    try:
        found = np.asarray(apply(sample))
    except Mix2fldError:
        raise
    except Exception as error:  # of somebody else's code
        raise InputError(
            field="features",
            value=name,
            hint=f"fails on {sample.dtype} samples {list(sample.shape[1:])} ({one_line(error)})",
        ) from None
    if found.ndim != 2 or len(found) != 1 or not found.size or found.dtype.kind != "f":
        raise InputError(
            field="features",
            value=name,
            hint=f"returns {found.dtype} {list(found.shape)} for one sample; must return a vector, "
            "float [1, F]",
        )
    if not np.isfinite(found).all():
        raise InputError(field="features", value=name, hint="returns a value that is not finite")
    return found.astype(np.float32, copy=False)
