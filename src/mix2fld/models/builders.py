"""Models by name, or custom.

A builder takes the shape of a sample and the number of labels and returns a ``Model``. To add one,
write it in ``networks`` and name it in ``MODELS``.
"""

from collections.abc import Callable
from functools import partial

from mix2fld.base.custom_code import custom_code, import_custom
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.models.networks import (
    SampleShape,
    cifar_cnn,
    linear_model,
    mlp,
    paper_cnn,
    signal_cnn,
)
from mix2fld.models.pytorch import from_torch, is_torch_module
from mix2fld.models.text import text_gru
from mix2fld.types import Model

Builder = Callable[[SampleShape, int], Model]
"""(shape of a sample, such as height, width and channels; number of labels) -> model."""

MODELS: dict[str, Builder] = {
    "paper-cnn": paper_cnn,
    "cifar-cnn": cifar_cnn,
    "signal-cnn": signal_cnn,
    "mlp": mlp,
    "linear": linear_model,
    "text-gru": text_gru,
}
"""Models by name, for any shape of samples and number of labels."""


def make_model(name: str, sample_shape: SampleShape, num_labels: int) -> Model:
    """The model of that name: one of ``MODELS``, a custom ``package.module:function``, or auto.

    ``auto`` is paper-cnn for images [H, W, C] of one channel and cifar-cnn for others, signal-cnn
    for windows [T, C] of at least 16 steps, and mlp for all other samples.
    """
    if ":" in name:
        return _build_own(name, sample_shape, num_labels)
    if name == "auto":
        name = _suitable(sample_shape)
    if name not in MODELS:
        raise InputError(
            field="model",
            value=name,
            hint=f"neither a known model nor package.module:function; "
            f"{did_you_mean(name, [*MODELS, 'auto'])}",
        )
    return MODELS[name](sample_shape, num_labels)


def _suitable(sample_shape: SampleShape) -> str:
    if len(sample_shape) == 3:
        return "paper-cnn" if sample_shape[-1] == 1 else "cifar-cnn"
    return "signal-cnn" if len(sample_shape) == 2 and sample_shape[0] >= 16 else "mlp"


def _build_own(name: str, sample_shape: SampleShape, num_labels: int) -> Model:
    builder = _import_builder(name)
    with custom_code("model", name, "fails as function(sample_shape, num_labels)"):
        model = builder(sample_shape, num_labels)
    if is_torch_module(model):
        return from_torch(partial(builder, sample_shape, num_labels), type(model).__name__)
    if not isinstance(model, Model):
        raise InputError(
            field="model",
            value=name,
            hint=f"must return a Model or a torch.nn.Module, not {type(model).__name__}",
        )
    return model


def _import_builder(name: str) -> Builder:
    module_name, _, function_name = name.partition(":")
    with custom_code("model", name, f"module {module_name!r} cannot be imported"):
        module = import_custom(module_name, f"model = {name}")
    builder = getattr(module, function_name, None)
    if not callable(builder):
        public = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise InputError(
            field="model",
            value=name,
            hint=f"module {module_name!r} has no function {function_name!r}; "
            f"{did_you_mean(function_name, public)}",
        )
    checked: Builder = builder
    return checked
