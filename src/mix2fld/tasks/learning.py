"""What is learned, fixed for a whole run: shared by every device, the server and every fleet."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base import streams
from mix2fld.data.resolution import pooled_shape
from mix2fld.tasks.base import Task
from mix2fld.tasks.edges import edge_network
from mix2fld.tasks.last_layer import find_last_layer, samples_to_try
from mix2fld.tasks.stepper import Stepper
from mix2fld.types import Dimensions, Model, SampleFormat, Tensors

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.config.uploads import SeedingConfig


def dimensions(
    config: "SeedingConfig",
    samples: SampleFormat,
    num_labels: int,
    weight_shapes: tuple[tuple[int, ...], ...] = (),
    outputs: int = 0,
    target_numbers: int = 0,
) -> Dimensions:
    """The sizes that decide how many bits a payload has; without a model, those of seeds.

    The last two arrays are the last layer, as in all networks of the package.
    """
    return Dimensions(
        weight_shapes=weight_shapes,
        num_labels=num_labels,
        samples=samples,
        seed_samples=config.seed_samples,
        seed_bits=config.seed_bits,
        seed_shape=pooled_shape(samples.shape, config.seed_pooling),
        outputs=outputs,
        last_layer=tuple(range(len(weight_shapes)))[-2:],
        target_numbers=target_numbers,
    )


@dataclass(frozen=True)
class Sizes:
    """A single run's config with the sizes that follow from its data and model."""

    config: "Config"
    dims: Dimensions
    task: Task

    @property
    def learning(self) -> "Learning":
        """The learning of a run, which trains and tests; a plan has none."""
        raise ValueError("these are sizes alone: nobody trains")

    @property
    def seed(self) -> int:
        """The one seed of this run."""
        return self.config.seed

    def labels_and_targets(
        self, values: NDArray[Any]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32] | None]:
        """Labels of samples [n]; where targets are numbers, their groups and these [n, T]."""
        targets = self.task.targets(values) if self.task.numbers else None
        return self.task.labels(values), targets

    @property
    def sent(self) -> "Sizes":
        """What a protocol sees of it."""
        return self

    def shared(self, weights: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays that are sent, of all."""
        return weights

    def completed(self, own: Tensors, shared: Tensors) -> Tensors:
        """A device's own weights with those that are sent replaced."""
        del own
        return shared

    @property
    def last_layer(self) -> tuple[int, ...]:
        """The arrays of the layer whose outputs are the logits, as far as they are known."""
        return self.dims.last_layer or ()


@dataclass(frozen=True, eq=False)
class Learning(Sizes):
    """The same with a stepper, which trains and tests."""

    stepper: Stepper
    weight_names: tuple[str, ...] = ()
    """What the model calls its weights; a small device does not know."""
    model_name: str = ""
    """What the model is called, also where the config leaves the choice or a program makes it."""
    model: Model | None = None
    """The model itself; a small device has none."""
    personal: tuple[int, ...] = ()
    """Places of the arrays that stay on their device."""
    whole: "Learning | None" = None
    """All of it, if this is the part that is sent."""

    @property
    def learning(self) -> "Learning":
        """The run itself: here somebody trains."""
        return self

    @cached_property
    def sent(self) -> "Learning":
        """The same without what stays on devices: what a protocol, its codecs and server see."""
        if not self.personal:
            return self
        places = [p for p in range(len(self.dims.weight_shapes)) if p not in self.personal]
        last = self.last_layer
        known = last if set(last) <= set(places) else ()
        dims = replace(
            self.dims,
            weight_shapes=self.shared(self.dims.weight_shapes),
            last_layer=tuple(places.index(place) for place in known),
        )
        names = self.shared(self.weight_names)
        return replace(self, dims=dims, weight_names=names, personal=(), whole=self)

    def shared(self, weights: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays that are sent, of all."""
        if not self.personal:
            return weights
        return tuple(own for place, own in enumerate(weights) if place not in self.personal)

    def completed(self, own: Tensors, shared: Tensors) -> Tensors:
        """A device's own weights with those that are sent replaced."""
        if not self.personal:
            return shared
        sent = iter(shared)
        return tuple(
            kept if place in self.personal else next(sent) for place, kept in enumerate(own)
        )

    @cached_property
    def last_layer(self) -> tuple[int, ...]:
        """The arrays of the layer whose outputs are the logits; none if the model has no such."""
        if self.dims.last_layer is not None:
            return self.dims.last_layer
        inputs = samples_to_try(self.dims.samples)
        weights, width = self.stepper.draw_weights(0), self.dims.teacher_shape[1]
        return find_last_layer(lambda own: self.stepper.logits(own, inputs), weights, width)

    def initial_weights(self, device: int) -> Tensors:
        """The weights a device starts from: the same for all, or its own (decision 7)."""
        if self.config.learning.initial_weights != "independent":
            return self.common_weights
        return self._draw("weights", 1 + device)

    @cached_property
    def common_weights(self) -> Tensors:
        """What all start from, the server's student too: one draw, or edges."""
        if self.whole is not None:
            return self.whole.shared(self.whole.common_weights)
        if self.config.learning.initial_weights == "edges":
            return edge_network(self.dims)
        return self._draw("weights", 0)

    def untrained_student(self, round_number: int) -> Tensors:
        """A student of its own for one round (decision 6)."""
        return self._draw("student", round_number)

    def _draw(self, purpose: str, index: int) -> Tensors:
        return self.stepper.draw_weights(streams.integer(self.seed, purpose, index))
