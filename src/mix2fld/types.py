"""The vocabulary: records that flow between devices, link and server. NumPy only.

Axes are written in brackets: D devices, n samples of one device, N_L labels, N_S seed samples,
N samples in one mix, K steps, B batch, H x W x C image.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.errors import InputError

Weights = Any
"""A pytree of float32 arrays: the parameters of one model, as its own functions take them."""
Tensors = tuple[NDArray[np.float32], ...]
"""The same parameters as plain arrays, in the order in which a payload carries them."""
State = dict[str, Any]
"""What someone keeps from round to round: nested dicts, lists and tuples of arrays and scalars.

Whoever defined the entries reads them; all others carry, store and restore the state as it is. The
arrays are never changed in place, so that many devices can share one until they differ.
"""
Images = NDArray[np.uint8] | NDArray[np.float32]
"""Pixels: uint8 in 0..255 as stored, or float32 in units where a stored 255 is 1."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labelled image dataset, as stored: uint8 pixels."""

    name: str
    train_inputs: NDArray[np.uint8]  # [n, H, W, C]
    train_labels: NDArray[np.int32]  # [n]
    test_inputs: NDArray[np.uint8]  # [m, H, W, C]
    test_labels: NDArray[np.int32]  # [m]
    num_labels: int

    def __post_init__(self) -> None:
        """Refuse arrays that are not what they should be; labels of any integer type are taken."""
        for part in ("train", "test"):
            images, labels = (
                np.asarray(getattr(self, f"{part}_{what}")) for what in ("inputs", "labels")
            )
            if images.dtype != np.uint8 or images.ndim != 4:
                raise InputError(
                    f"{part}_inputs: {images.dtype}{list(images.shape)}; must be uint8 [n, H, W, C]"
                )
            if not np.issubdtype(labels.dtype, np.integer) or labels.shape != images.shape[:1]:
                raise InputError(
                    f"{part}_labels: {labels.dtype}{list(labels.shape)}; must be integers, one for "
                    f"each of {len(images)} images"
                )
            if not len(labels):
                raise InputError(f"{part}_inputs: there are none")
            if labels.min() < 0 or labels.max() >= self.num_labels:
                raise InputError(
                    f"{part}_labels: from {labels.min()} to {labels.max()}; must be from 0 to "
                    f"{self.num_labels - 1}, with num_labels = {self.num_labels}"
                )
            object.__setattr__(self, f"{part}_inputs", np.ascontiguousarray(images))
            object.__setattr__(self, f"{part}_labels", np.ascontiguousarray(labels, np.int32))
        if self.train_inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise InputError(
                f"test_inputs: {list(self.test_inputs.shape[1:])} each; those to train with are "
                f"{list(self.train_inputs.shape[1:])}"
            )

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = self.train_inputs.shape[1:]
        return height, width, channels


class Samples(NamedTuple):
    """What steps are taken on."""

    inputs: Images  # [n, H, W, C]
    targets: NDArray[np.float32]  # [n, N_L], label distributions


class Phase(NamedTuple):
    """A learner in the middle of its steps; arrays of any library with NumPy's interface."""

    weights: Any
    output_sums: Any  # [N_L, N_L], sum of the outputs F seen under each label
    label_counts: Any  # [N_L], how often each label was drawn


class StepRule(NamedTuple):
    """What a kernel does in a step, beside the sample that it is for."""

    rate: float
    teacher: NDArray[np.float32]  # [N_L, N_L]
    distillation_weight: float
    logit_offset: NDArray[np.float32] | None = None  # [N_L], added to the logits in the loss


class Kernel(Protocol):
    """Machine code for one model: batch-1 SGD and testing, on host arrays, one learner a call."""

    def train(
        self, phase: Phase, samples: Samples, draws: NDArray[np.int32], rule: StepRule
    ) -> None:
        """One step of Eqs. 1, 3 or 5 for each draw [K]; changes the arrays of ``phase``."""

    def count_correct(
        self, tensors: Tensors, images: NDArray[np.uint8], labels: NDArray[np.int32]
    ) -> int:
        """How many images get their label."""


@dataclass(frozen=True)
class Model:
    """A classifier as two plain functions.

    ``init(key) -> weights`` and ``apply(weights, images[B, H, W, C]) -> logits[B, N_L]``, where
    images are float32 in [0, 1]. ``kernel``, if there is one, does the same in machine code, where
    it can be had.
    """

    name: str
    init: Callable[[Any], Weights]
    apply: Callable[[Weights, Any], Any]
    kernel: Callable[[], Kernel | None] | None = None


class Seeds(NamedTuple):
    """Seed samples as one device uploads them; sample i mixes the labels ``labels[i]``.

    Raw samples are a mix of N = 1.
    """

    inputs: Images  # [N_S, H, W, C]
    labels: NDArray[np.int32]  # [N_S, N]


class SeedSet(NamedTuple):
    """Samples that the server trains its student on."""

    inputs: Images  # [n, H, W, C]
    targets: NDArray[np.float32]  # [n, N_L], label distributions
    distinct_groups: int  # groups that inverse-Mixup found, before any was used again
    left_out: tuple[int, ...] = ()  # devices whose seeds were judged and not used


class Local(NamedTuple):
    """What a device has at the end of its local phase."""

    weights: Tensors
    outputs: NDArray[np.float32]  # [N_L, N_L], Eq. 2; the row of a label never drawn is zero


class Upload(NamedTuple):
    """What the server decoded from one delivered upload."""

    value: Any  # weights, outputs, an update: what the protocol's uplink carries
    samples: int  # |S_d|
    seeds: Seeds | None = None


@dataclass(frozen=True)
class Delivery:
    """What a link did with one payload per device in one direction."""

    delivered: NDArray[np.bool_]  # [D]
    slots: NDArray[np.int64]  # [D], slots used; max_slots where it failed


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the server keeps from round to round."""

    weights: Tensors | None = None  # the global model, G_mod
    outputs: NDArray[np.float32] | None = None  # [N_L, N_L], G_out; unknown rows are zero
    seeds: dict[int, Seeds] = field(default_factory=dict)  # delivered so far, by device
    updates: int = 0  # global updates made
    memory: State = field(default_factory=dict)  # what else a protocol's server step keeps
    seed_set: SeedSet | None = None  # made from the seeds held; None until it can be


@dataclass(frozen=True)
class Dimensions:
    """The sizes that decide how many bits a payload has."""

    weight_shapes: tuple[tuple[int, ...], ...]
    num_labels: int
    sample_shape: tuple[int, int, int]
    seed_samples: int
    bits_per_pixel: int

    @property
    def num_weights(self) -> int:
        """N_mod, counted from the model."""
        return sum(int(np.prod(shape)) for shape in self.weight_shapes)
