"""Fixed features, the same on every device without being sent: what statistics are taken of.

For the paper's network they are edges: its convolutions get oriented derivatives and blurred
differences of neighbouring orientations, and the low frequencies of each map count. Any other
network that ends in a linear layer has those of its initial weights, in random directions or, if
they are vectors of a pre-trained network, in those in which its own last layer is strongest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.data.samples import as_fed
from mix2fld.tasks.edges import (
    FEATURE_GAIN,
    MAPS,
    Floats,
    blurred_differences,
    edge_maps,
    edge_network,
    has_edges,
    oriented_derivatives,
)
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.types import Inputs, Tensors

LONGEST_EDGES = 3.1
"""Norm to which edge features of a sample are clipped: few are longer."""


@dataclass(frozen=True, eq=False)
class Features:
    """A network without a head, and what its last layer sees of samples, in few directions."""

    network: Tensors  # the bias and the kernel of its last layer are zero
    projection: Floats  # [d, F], orthonormal rows: the directions
    gain: float  # the network's features are so many times those that are measured
    measure: Callable[[Inputs], Floats]
    """Samples as a model is fed them or as stored -> features [n, d]."""
    head: "HeadPlace"
    clip: float | None = None
    """Norm to which features, none of them negative, were clipped before they were projected."""
    away: float | None = None
    """Norm to which distances from class means are clipped unless the config says; None: by d."""

    def with_head(self, kernel: Floats, bias: Floats) -> Tensors:
        """The network with a linear head [N_L, d] on the features measured."""
        return self.head.put(self.network, kernel @ self.projection / self.gain, bias)


@dataclass(frozen=True)
class HeadPlace:
    """Where the last, linear layer of a model is among its weights."""

    bias: int
    kernel: int
    transposed: bool
    """Whether the kernel is [F, N_L], not [N_L, F]."""

    def put(self, network: Tensors, kernel: Floats, bias: Floats) -> Tensors:
        """The network with this last layer."""
        tensors = list(network)
        tensors[self.bias] = bias.astype(np.float32)
        turned = kernel.T if self.transposed else kernel
        tensors[self.kernel] = np.ascontiguousarray(turned, np.float32)
        return tuple(tensors)


@lru_cache(maxsize=4)
def fixed_features(learning: Learning) -> Features:
    """The features of a run's model, ``feature_side`` squared for each of six maps."""
    side = learning.config.statistics.feature_side
    directions = learning.config.statistics.directions
    if not has_edges(learning.dims):
        return _features_in_directions(learning, directions or MAPS * side**2)
    if directions:
        raise InputError(
            field="directions",
            value=directions,
            hint="paper-cnn has edge maps; choose feature_side, or another model",
        )
    return _edge_features(learning, side)


def feature_count(sizes: Sizes, side: int) -> int:
    """How many features statistics are taken of, d: at most those that the last layer sees."""
    wanted = sizes.config.statistics.directions or MAPS * side**2
    kernel = max((sizes.dims.weight_sizes[n] for n in sizes.last_layer), default=0)
    return min(wanted, max(1, kernel // sizes.dims.width))


def clip_norms(vectors: Floats, longest: float) -> Floats:
    """Each row, shortened to ``longest`` if it is longer."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    clipped: Floats = vectors * np.minimum(1.0, longest / np.maximum(norms, 1e-12))
    return clipped


def _edge_features(learning: Learning, side: int) -> Features:
    height, width, channels = learning.dims.samples.shape
    rows, columns = height // 2, width // 2
    if side > min(rows, columns):
        raise InputError(
            field="feature_side",
            value=side,
            hint=f"images of {height} x {width} have maps of {rows} x {columns}; "
            f"must be at most {min(rows, columns)}",
        )
    first, second = oriented_derivatives(channels), blurred_differences()
    given = learning.config.privacy.feature_clip
    longest = LONGEST_EDGES if given == "auto" else given
    projection = np.kron(np.eye(MAPS), np.kron(cosines(rows, side), cosines(columns, side)))

    def measure(inputs: Inputs) -> Floats:
        maps = edge_maps(as_fed(inputs, np.float64), first, second)
        return clip_norms(maps, longest) @ projection.T

    head = HeadPlace(4, 5, transposed=False)
    return Features(edge_network(learning.dims), projection, FEATURE_GAIN, measure, head, longest)


def cosines(length: int, count: int) -> Floats:
    """The first rows of the orthonormal discrete cosine transform: [count, length]."""
    frequency, place = np.arange(count)[:, None], np.arange(length) + 0.5
    rows = np.cos(np.pi * frequency * place / length) * np.sqrt(2 / length)
    rows[0] /= np.sqrt(2)
    return rows


def _features_in_directions(learning: Learning, count: int) -> Features:
    """Some directions of what the last layer of the initial network sees."""
    head, labels = find_head(learning), learning.dims.width
    size = learning.dims.weight_sizes[head.kernel] // labels
    projection = np.eye(size)
    if learning.config.statistics.directions_from == "head":
        projection = _pretrained_directions(learning, min(count, size), size)
    elif count < size:
        draws = stream(learning.seed, "features").normal(size=(size, count))
        projection = np.linalg.qr(draws)[0].T
    nothing = head.put(learning.common_weights, np.zeros((labels, size)), np.zeros(labels))

    def measure(inputs: Inputs) -> Floats:
        found = []
        for begin in range(0, len(projection), labels):  # so many directions as there are logits
            rows = np.zeros((labels, size))
            some = projection[begin : begin + labels]
            rows[: len(some)] = some
            network = head.put(nothing, rows, np.zeros(labels))
            found.append(learning.stepper.logits(network, inputs)[:, : len(some)])
        return np.concatenate(found, axis=1).astype(np.float64)

    return Features(nothing, projection, 1.0, measure, head)


def _pretrained_directions(learning: Learning, count: int, size: int) -> Floats:
    """The right singular vectors of the head that the frozen network came with, largest first."""
    from mix2fld.data.features.catalogue import head_of

    network = learning.dims.samples.network
    kernel = None if network is None else head_of(network.name)
    if kernel is None or kernel.shape[1] != size or count > min(kernel.shape):
        known = "the model must be linear, on features of a network known by name with a last layer"
        most = "" if kernel is None else f", and directions at most {min(kernel.shape)}"
        raise InputError(field="directions_from", value="head", hint=f"{known}{most}; or random")
    differences = kernel - kernel.mean(axis=0)  # what all logits share tells no labels apart
    found: Floats = np.linalg.svd(differences, full_matrices=False)[2][:count]
    return found


def find_head(learning: Learning) -> HeadPlace:
    """The last, linear layer of a model; raises ``InputError`` if it does not end in one."""
    shapes, labels, last = (
        learning.dims.weight_shapes,
        learning.dims.width,
        learning.last_layer,
    )
    kernel = max(last, key=lambda n: len(shapes[n]), default=0)
    if len(last) == 2 and len(shapes[kernel]) == 2:
        (bias,) = set(last) - {kernel}
        sides = [turned for turned in (False, True) if shapes[kernel][turned] == labels]
        for head in (HeadPlace(bias, kernel, transposed=turned) for turned in sides):
            if _gives_logits(head, learning):
                return head
    raise InputError(
        field="protocols",
        value=learning.config.protocol,
        hint=f"the model must end in a linear layer, with a "
        f"bias [{labels}] and a kernel [{labels}, F] side by side; it has "
        f"{[list(shape) for shape in shapes[-2:]]}",
    )


def _gives_logits(head: HeadPlace, learning: Learning) -> bool:
    """Whether the bias is added to the logits, and a row of the kernel makes one of them."""
    labels = learning.dims.width
    size = learning.dims.weight_sizes[head.kernel] // labels
    bias, rows = np.arange(labels, dtype=np.float64) + 2, np.zeros((labels, size))
    some = np.ones((1, *learning.dims.samples.shape), learning.dims.samples.dtype)
    alone = head.put(learning.common_weights, rows, bias)
    rows[0] = 1
    first = head.put(learning.common_weights, rows, bias)
    by_bias, by_both = (learning.stepper.logits(network, some)[0] for network in (alone, first))
    return np.array_equal(by_bias, bias) and np.array_equal(by_both[1:], bias[1:])
