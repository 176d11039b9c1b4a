"""The vocabulary: records that flow between devices, link and server. NumPy only.

Axes are written in brackets: D devices, n samples of one device, N_L labels, N_S seed samples,
N samples in one mix, K steps, B batch, H x W x C image; ... is a sample of any shape.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.dataset import Dataset as Dataset
from mix2fld.dataset import Inputs as Inputs
from mix2fld.dataset import SampleFormat as SampleFormat

Weights = Any
"""A pytree of float32 arrays: the parameters of one model, as its own functions take them."""
Tensors = tuple[NDArray[np.float32], ...]
"""The same parameters as plain arrays, in the order in which a payload carries them."""
State = dict[str, Any]
"""What someone keeps from round to round: nested dicts, lists and tuples of arrays and scalars.

Only the code that defined the entries reads them; all other code carries, stores and restores the
state as it is. The arrays are never changed in place, so that many devices can share one until
they differ.
"""
Carried = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.float32]
"""Samples as an upload carries them: codes of up to 16 bits, or float32 as a model is fed."""


class Samples(NamedTuple):
    """Training samples: inputs, targets and groups."""

    inputs: Inputs  # [n, ...]
    targets: NDArray[np.float32]  # [n, T], as the loss sees them; label distributions [n, N_L]
    groups: NDArray[np.float32] | None = None
    """[n, N_L], how far each belongs to each group; None: as the targets say."""


class Phase(NamedTuple):
    """A learner in the middle of its steps; arrays of any library with NumPy's interface."""

    weights: Any
    output_sums: Any  # [N_L, O], sum of the outputs F seen under each label
    label_counts: Any  # [N_L], how often each label was drawn


NUMBER_LOSSES = ("squared", "absolute", "huber")
"""Losses of an error, in the order in which kernels number them."""


class NumberLoss(NamedTuple):
    """The loss of targets that are numbers: its form, and the edges of the bins of the first."""

    form: str
    edges: tuple[float, ...]


class StepRule(NamedTuple):
    """What a kernel does in a step, beside the sample that it is for."""

    rate: float
    teacher: NDArray[np.float32]  # [N_L, O]
    distillation_weight: float
    logit_offset: NDArray[np.float32] | None = None  # [N_L], added to the logits in the loss
    numbers: NumberLoss | None = None  # where targets are numbers


class Kernel(Protocol):
    """Machine code for one model: SGD and testing, on host arrays, one learner a call."""

    def train(
        self, phase: Phase, sets: tuple[Samples, ...], draws: NDArray[np.int32], rule: StepRule
    ) -> None:
        """One step of Eqs. 1, 3 or 5 for each row of draws [K, B]; changes the arrays of ``phase``.

        Of two sets of samples, the second follows on the first in what draws name.
        """

    def count_correct(self, tensors: Tensors, inputs: Inputs, labels: NDArray[np.int32]) -> int:
        """How many samples get their label."""


@dataclass(frozen=True)
class TorchModule:
    """A PyTorch module that PyTorch itself trains: how it is made, and what its weights are."""

    make: Callable[[], Any]
    """A new ``torch.nn.Module``, its parameters drawn from PyTorch's generator."""
    names: tuple[str, ...]
    """The tensors that are weights, in their order: parameters, then buffers that are carried."""
    shapes: tuple[tuple[int, ...], ...]
    channels_first: bool
    """Whether the last axis of a sample, its channels, comes first in what the module is fed."""
    carries_buffers: bool


@dataclass(frozen=True)
class Model:
    """A classifier as two plain functions.

    ``init(key) -> weights`` and ``apply(weights, inputs[B, ...]) -> logits[B, N_L]``, where inputs
    are float32: in [0, 1] for samples stored as uint8, as stored for others; token ids are int32.
    ``kernel``, if there is one, does the same in native code, where it is available. With ``torch``
    the model is a PyTorch module: the two functions take an integer and NumPy arrays, and return
    NumPy arrays.
    """

    name: str
    init: Callable[[Any], Weights]
    apply: Callable[[Weights, Any], Any]
    kernel: Callable[[], Kernel | None] | None = None
    torch: TorchModule | None = None
    kernel_on_request: bool = False
    """Whether the kernel is used only by a config that asks for native code."""
    merged: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]] | None = None
    """Of adapters in JAX: all weights by the names that they have without them."""
    state: tuple[str, ...] = ()
    """What a module of JAX has beside weights: it stays as it was made, and is never sent."""


class Seeds(NamedTuple):
    """Seed samples as one device uploads them; sample i mixes the labels ``labels[i]``.

    Raw samples are a mix of N = 1.
    """

    inputs: Carried  # [N_S, ...]
    labels: NDArray[np.int32]  # [N_S, N]; groups of the samples where targets are numbers
    targets: NDArray[np.float32] | None = None  # [N_S, T], numbers, mixed as the samples are


class Statistics(NamedTuple):
    """Sums over all samples of one device, of d features that everyone knows.

    The scatter is about the device's own class means, as the upper triangle of a symmetric matrix
    whose off-diagonal entries count sqrt(2) times, so that its norm is that of the matrix.
    """

    counts: NDArray[np.float32]  # [N_L]
    sums: NDArray[np.float32]  # [N_L, d]
    scatter: NDArray[np.float32]  # [d (d + 1) / 2]


class StatisticsPart(NamedTuple):
    """One of the two uploads of private statistics: class sums with counts, then the scatter."""

    stage: int  # 0 or 1
    values: NDArray[Any]  # [N_L, d + 1] or [d (d + 1) / 2]: float32 with noise, or int32


OneTimeUpload = Seeds | Statistics
"""What a device uploads once."""


@dataclass(frozen=True, eq=False)
class SeedSet:
    """Samples that the server trains its student on, made when they are asked for."""

    targets: NDArray[np.float32]  # [n, N_L], label distributions; or numbers [n, T]
    make: Callable[[NDArray[np.integer]], Inputs]
    """Takes the numbers of samples; returns them as a model is fed them, or as stored."""
    distinct_groups: int = 0  # groups that inverse-Mixup found, before any was used again
    left_out: tuple[int, ...] = ()  # devices whose seeds were judged and not used

    @cached_property
    def inputs(self) -> Inputs:
        """The inputs of all samples, [n, ...]."""
        return self.make(np.arange(len(self.targets)))


class Local(NamedTuple):
    """What a device has at the end of its local phase."""

    weights: Tensors
    outputs: NDArray[np.float32]  # [N_L, O], Eq. 2; the row of a group never drawn is zero


class Upload(NamedTuple):
    """What the server decoded from one delivered upload."""

    value: Any  # weights, outputs, an update: what the protocol's uplink carries
    samples: int  # |S_d|
    seeds: OneTimeUpload | None = None
    weight: float = 1.0  # of each sample in a mean over devices
    staleness: int = 0  # steps that the server has made since the device was asked
    carried: Any = None  # its bits, as they came
    devices: int = 1  # of so many it is the sum


class Group(NamedTuple):
    """Arrays of an update that were encoded together."""

    arrays: tuple[int, ...]  # their places among all
    norm: float  # of what was encoded, estimated from what arrived


class Update(NamedTuple):
    """What a device's weights moved by, as far as an upload tells."""

    tensors: Tensors
    captured: float  # expected share of its squared norm that arrived; the rest is noise
    groups: tuple[Group, ...]  # each array is in one; the same for all devices of a run

    @classmethod
    def encoded_whole(cls, tensors: Tensors, norm: float, captured: float) -> Self:
        """An update whose arrays were encoded together."""
        return cls(tensors, captured, (Group(tuple(range(len(tensors))), norm),))


@dataclass(frozen=True)
class Delivery:
    """What a link did with one payload per device in one direction."""

    delivered: NDArray[np.bool_]  # [D]
    slots: NDArray[np.int64]  # [D], slots until it was done; max_slots where it failed
    on_air: NDArray[np.float64] | None = None
    """[D], slots in which the device itself sent or received; None: in all of ``slots``."""


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the server keeps from round to round."""

    weights: Tensors | None = None  # the global model, G_mod
    outputs: NDArray[np.float32] | None = None  # [N_L, N_L], G_out; unknown rows are zero
    seeds: dict[int, Any] = field(default_factory=dict)  # what was uploaded once, by device
    updates: int = 0  # global updates made
    memory: State = field(default_factory=dict)  # what else a protocol's server step keeps
    seed_set: SeedSet | None = None  # made from the seeds held; None until it can be

    def keeping(self, **entries: Any) -> "ServerState":
        """The state with these entries of its memory."""
        return replace(self, memory={**self.memory, **entries})


@dataclass(frozen=True)
class Dimensions:
    """The sizes that decide how many bits a payload has, and what its codes stand for."""

    weight_shapes: tuple[tuple[int, ...], ...]
    num_labels: int
    """N_L: labels, or groups over which FD averages outputs."""
    samples: SampleFormat
    seed_samples: int
    seed_bits: int
    seed_shape: tuple[int, ...]
    """The shape of a seed sample as it is uploaded."""
    outputs: int = 0
    """Width of the model's output; 0: one for each label."""
    last_layer: tuple[int, ...] | None = None
    """The arrays of the layer whose outputs are the logits; None: the model has to be asked."""
    target_numbers: int = 0
    """Numbers in the target of a sample, T; 0: it has a label, and outputs are distributions."""

    @cached_property
    def weight_sizes(self) -> tuple[int, ...]:
        """How many weights each array has."""
        return tuple(math.prod(shape) for shape in self.weight_shapes)

    @cached_property
    def num_weights(self) -> int:
        """N_mod, the number of weights of the model."""
        return sum(self.weight_sizes)

    @property
    def width(self) -> int:
        """Numbers in a model's output, O."""
        return self.outputs or self.num_labels

    @cached_property
    def teacher_shape(self) -> tuple[int, int]:
        """Of the mean outputs of all groups: N_L, and the width of an output."""
        return self.num_labels, self.width
