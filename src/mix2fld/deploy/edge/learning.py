"""How a device learns, from the settings of a run: by a compiled kernel where that will do."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import how_many
from mix2fld.base.errors import InputError
from mix2fld.data.samples import as_fed
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.initial import unpack_start
from mix2fld.native import kernel_of
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.base import Task
from mix2fld.tasks.forward import forward
from mix2fld.tasks.kernel_steps import KernelStepper
from mix2fld.tasks.known_shapes import known_shapes, suitable_model
from mix2fld.tasks.learning import Learning, dimensions
from mix2fld.tasks.losses import signed_weight
from mix2fld.tasks.training import base_rate
from mix2fld.types import Dimensions, Inputs, Kernel, Tensors


class NeedsStartError(Exception):
    """The initial weights must come from the server."""


class SmallStepper(KernelStepper):
    """Steps by a kernel, from initial weights that the server tells."""

    def __init__(self, kernel: Kernel, learning: Any, dims: Dimensions) -> None:
        super().__init__(kernel, base_rate(learning), signed_weight(learning))
        self._dims = dims
        self._model = suitable_model(learning.model, dims.samples)
        self.start: bytes | None = None
        """What the server sent of the initial weights."""

    def draw_weights(self, seed: int) -> Tensors:
        """The model's initial weights for one seed."""
        if self.start is None:
            raise NeedsStartError
        return unpack_start(self.start, seed, self._dims.weight_shapes)

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What a model answers for samples."""
        return forward(self._model, weights, as_fed(inputs))


def make_learning(config: Mapping[str, Any], samples: SampleFormat, task: Task) -> Learning:
    """By a compiled kernel if there is one for the run, otherwise with JAX or PyTorch."""
    learning = small_learning(config, samples, task)
    if learning is not None:
        return learning
    if find_spec("mix2fld.deploy.edge.full") is None or find_spec("jax") is None:
        given = config["learning"]
        raise InputError(
            f"model = {given['model']}, optimizer = {given['optimizer']}, protocol = "
            f"{config['protocol']}, samples {list(samples.shape)}, {task.outputs} outputs of the "
            f"task {task.name}: this "
            "device has no compiled kernel for it. Kernels are of paper-cnn, mlp and linear with "
            "sgd; for other samples the device needs a C compiler or a wheel made with "
            "MIX2FLD_KERNEL_SHAPES, for other models the whole package: pip install "
            "'mix2fld[device]'"
        )
    from mix2fld.deploy.edge.full import full_learning

    return full_learning(config, samples, task)


def small_learning(config: Mapping[str, Any], samples: SampleFormat, task: Task) -> Learning | None:
    """The trainer; None for a run that needs more than a kernel, or if there is none here."""
    plain = plain_config(config)
    learning, row = plain.learning, get_protocol(plain.protocol)
    if (learning.optimizer, learning.soft_label_teacher) != ("sgd", "mixture"):
        return None
    if not task.counts_correct or samples.dtype not in {"uint8", "float32"}:
        return None
    if learning.kernel == "xla" or row.local_loss.is_function or row.needs_replay:
        return None
    shapes = known_shapes(learning, samples, task.outputs)
    kernel = kernel_of(suitable_model(learning.model, samples), samples.shape, task.outputs)
    if shapes is None or kernel is None:
        return None
    dims = dimensions(plain.seeding, samples, task.groups, shapes)
    return Learning(plain, dims, task, SmallStepper(kernel, learning, dims))


class PlainSection:
    """A section of the settings, with its fields as attributes; a key of caches as a whole."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def plain_config(fields: Mapping[str, Any]) -> Any:
    """The settings as attributes, as a ``Config`` has them: they were checked by the server."""
    config = _as_attributes(fields)
    mixed = config.seeding.mixing_ratio
    config.participants_per_round = how_many(config.participants, config.data.devices)
    config.seeding.ratios = (*mixed, 1.0 - sum(mixed))
    return config


def _as_attributes(value: Any) -> Any:
    if isinstance(value, dict):
        return PlainSection(**{name: _as_attributes(part) for name, part in value.items()})
    return tuple(value) if isinstance(value, list) else value
