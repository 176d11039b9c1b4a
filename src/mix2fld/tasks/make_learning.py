"""Makes the learning of a run: the model, and the one choice of who takes its steps."""

from dataclasses import replace
from functools import lru_cache

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config, LearningConfig
from mix2fld.models import check_model, make_model, weight_names, weight_shapes
from mix2fld.models.fast import FastApply
from mix2fld.models.frozen_front import split_model
from mix2fld.models.layered import layer_kernel
from mix2fld.models.trained import only_trained, personal_places
from mix2fld.tasks.base import Task
from mix2fld.tasks.front_stepper import FrontStepper
from mix2fld.tasks.known_shapes import known_shapes, suitable_model
from mix2fld.tasks.learning import Learning, dimensions
from mix2fld.tasks.native import NativeStepper
from mix2fld.tasks.sgd import TrainingSetup
from mix2fld.tasks.stepper import Stepper
from mix2fld.tasks.training import base_rate
from mix2fld.tasks.xla import XlaStepper
from mix2fld.types import Kernel, Model, SampleFormat


def make_learning(
    config: Config, samples: SampleFormat, task: Task, model: Model | None = None
) -> Learning:
    """The learning of a single run; ``model`` overrides the one that the config names."""
    name, width = config.learning.model, task.outputs
    chosen = model or _known_model(suitable_model(name, samples), samples.shape, width)
    if config.learning.trained != "all":
        chosen = _part_once(chosen, config.learning.trained)
    shapes = None
    if model is None and samples.dtype != "int32":
        shapes = known_shapes(config.learning, samples, width)
    dims = dimensions(config.seeding, samples, task.groups, shapes or (), width, task.numbers)
    if shapes is None:  # a model that is not ours, or for samples that ours do not take
        batch_size = min(config.learning.batch_size, 2)
        _check_once(chosen, samples.shape, width, samples.dtype, batch_size, task.outputs_wanted)
        dims = replace(dims, weight_shapes=_shapes_once(chosen), last_layer=None)
    title = name if model is None and ":" in name else chosen.name
    shape = None if samples.dtype == "int32" else samples.shape
    stepper = choose_stepper(chosen, config.learning, shape)
    if config.learning.trained != "all":
        split = _split_once(chosen, samples.shape, samples.dtype)
        if split is not None:
            stepper = FrontStepper(split.front, choose_stepper(split.back, config.learning))
    kept = _kept_once(chosen, config.learning.personal)
    return Learning(config, dims, task, stepper, _names_once(chosen), title, chosen, kept)


def choose_stepper(
    model: Model, config: LearningConfig, sample_shape: tuple[int, ...] | None = None
) -> Stepper:
    """PyTorch for its modules; machine code where there is some that suits, else XLA.

    Machine code for a network of layers needs the shape of a sample.
    """
    if model.torch is not None:
        from mix2fld.tasks.pytorch import TorchStepper

        return TorchStepper(model, model.torch, config)
    fast = replace(model, apply=FastApply(model.apply, machine_code=config.kernel != "xla"))
    learner = TrainingSetup.from_config(fast, config)
    kernel = _kernel(model, config, sample_shape)
    if kernel is None:
        return XlaStepper(learner)
    return NativeStepper(learner, kernel, base_rate(config))


def _kernel(
    model: Model, config: LearningConfig, sample_shape: tuple[int, ...] | None
) -> Kernel | None:
    """The model's machine code, its own or that of its layers, for plain SGD."""
    plain = (config.optimizer, config.batch_size, config.soft_label_teacher)
    if config.kernel == "xla" or (config.kernel == "auto" and model.kernel_on_request):
        return None
    suits = (config.optimizer, config.soft_label_teacher) == ("sgd", "mixture")
    kernel: Kernel | None = model.kernel() if model.kernel is not None and suits else None
    if kernel is None and suits and sample_shape is not None:
        kernel = layer_kernel(model, sample_shape)
    if kernel is None and config.kernel == "native":
        raise InputError(
            field="kernel",
            value="native",
            hint=f"{model.name} with optimizer = {plain[0]}, batch_size = {plain[1]}, "
            f"soft_label_teacher = {plain[2]} has no native kernel on this "
            "machine; use auto",
        )
    return kernel


# One object for equal arguments, so that runs of one process share their compiled code; and asked
# once, since asking JAX anew for each run would fill its caches.
_known_model = lru_cache(maxsize=16)(make_model)
_check_once = lru_cache(maxsize=16)(check_model)
_part_once = lru_cache(maxsize=16)(only_trained)
_split_once = lru_cache(maxsize=16)(split_model)
_kept_once = lru_cache(maxsize=16)(personal_places)
_names_once = lru_cache(maxsize=16)(weight_names)
_shapes_once = lru_cache(maxsize=16)(weight_shapes)
