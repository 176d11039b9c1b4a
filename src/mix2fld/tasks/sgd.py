"""The one SGD loop that Eqs. 1, 3 and 5 share, in JAX, written for one learner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.settings import LearningConfig
from mix2fld.data.samples import in_units
from mix2fld.tasks.losses import Loss, signed_weight
from mix2fld.tasks.training import base_rate
from mix2fld.types import Model, Phase, Samples, Weights

OPTIMIZERS: dict[str, Callable[[float], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "adam": optax.adam,
}


@dataclass(frozen=True)
class TrainingSetup:
    """What is trained and how; the same for every device and for the server's student."""

    model: Model
    optimizer: optax.GradientTransformation
    distillation_weight: float  # beta, negative for psi as printed
    dominant_teacher: bool

    @classmethod
    def from_config(cls, model: Model, config: LearningConfig) -> "TrainingSetup":
        """The learner that a config asks for."""
        return cls(
            model=model,
            optimizer=_optimizer(config.optimizer, base_rate(config)),
            distillation_weight=signed_weight(config),
            dominant_teacher=config.soft_label_teacher == "dominant",
        )


@lru_cache(maxsize=64)
def _optimizer(name: str, learning_rate: float) -> optax.GradientTransformation:
    """One object for equal arguments: equal learners are then equal, and share compiled code."""
    if name not in OPTIMIZERS:
        known = did_you_mean(name, OPTIMIZERS)
        raise InputError(field="optimizer", value=f"{name!r}", hint=f"no such optimizer; {known}")
    return OPTIMIZERS[name](learning_rate)


class Steps(NamedTuple):
    """A phase with what the optimiser remembers of it."""

    phase: Phase
    optimizer_state: optax.OptState


class LearnerProgress(NamedTuple):
    """A learner so far, with the steps that it takes next; None compiles to nothing at all.

    Arrays are NumPy's or JAX's.
    """

    begun: Steps
    teacher: Any  # [N_L, N_L]
    draws: Any  # [K, B]
    logit_offset: Any = None  # [N_L]
    rate_factor: Any = None
    pull: "Pull | None" = None
    drift: Any = None  # a tree of weights


class Pull(NamedTuple):
    """A proximal term of the gradient: strength * (w - anchor)."""

    strength: Any
    anchor: Any  # a tree of weights


def cross_entropy(logits: Array, target: Array) -> Array:
    """Mean over the batch of -sum_m target_m log F_m, with F the softmax of the logits."""
    return -jnp.mean(jnp.sum(target * jax.nn.log_softmax(logits), axis=-1))


def loss_value(
    loss: Loss, learner: TrainingSetup, logits: Array, labels: Array, teacher: Array
) -> Array:
    """phi of Eq. 1, or phi + beta psi of Eqs. 3 and 5.

    psi is the cross-entropy with the teacher's output G_out of the sample's label; for a soft
    label, with the label's mixture of outputs (decision 3). The zero row of an unknown output
    switches psi off for that label (decision 4).
    """
    if loss.custom is not None:
        value: Array = loss.custom(logits, labels, teacher)
        return value
    if loss.taught is not None:
        taught: Array = loss.taught(logits, labels, teacher, learner.distillation_weight)
        return taught
    if loss.of_task is not None:
        of_task: Array = loss.of_task(logits, labels)
        return of_task
    phi = cross_entropy(logits, labels)
    if not loss.distils:
        return phi
    dominant = teacher[jnp.argmax(labels, axis=-1)]
    target = dominant if learner.dominant_teacher else labels @ teacher
    return phi + learner.distillation_weight * cross_entropy(logits, target)


def begin_steps(learner: TrainingSetup, shape: tuple[int, int], weights: Weights) -> Steps:
    """A learner before its first step; ``shape``: N_L, and the width of the outputs."""
    sums, counts = jnp.zeros(shape), jnp.zeros(shape[0])
    return Steps(Phase(weights, sums, counts), learner.optimizer.init(weights))


def sgd_steps(
    learner: TrainingSetup, loss: Loss, sets: tuple[Samples, ...], run: LearnerProgress
) -> Steps:
    """Take one SGD step for each row of the draws [K, B], which name samples of the sets.

    Eq. 1 with ``label_loss``, Eqs. 3 and 5 with ``distillation_loss``. The outputs F that Eq. 2
    averages are those of the forward pass of each step, before its update and without the offset
    that the loss may add to the logits.
    """
    offset, factor = run.logit_offset, run.rate_factor

    def step(steps: Steps, chosen: Array) -> tuple[Steps, None]:
        phase, (pixels, labels, groups) = steps.phase, drawn_samples(sets, chosen)

        def loss_and_outputs(weights: Weights) -> tuple[Array, Array]:
            logits = learner.model.apply(weights, pixels)
            adjusted = logits if offset is None else logits + offset
            value = loss_value(loss, learner, adjusted, labels, run.teacher)
            return value, jax.nn.softmax(logits) if loss.softmax else logits

        gradient, outputs = jax.grad(loss_and_outputs, has_aux=True)(phase.weights)
        gradient = changed_gradient(gradient, phase.weights, run.pull, run.drift)
        update, optimizer_state = learner.optimizer.update(
            gradient, steps.optimizer_state, phase.weights
        )
        if factor is not None:
            update = jax.tree.map(lambda change: factor * change, update)
        after = Phase(
            weights=optax.apply_updates(phase.weights, update),
            output_sums=phase.output_sums + groups.T @ outputs,
            label_counts=phase.label_counts + groups.sum(axis=0),
        )
        return Steps(after, optimizer_state), None

    return jax.lax.scan(step, run.begun, run.draws)[0]


def changed_gradient(gradient: Weights, weights: Weights, pull: Pull | None, drift: Any) -> Weights:
    """The gradient with the proximal term and the drift, where there are such."""
    if pull is not None:
        gradient = jax.tree.map(
            lambda g, w, a: g + pull.strength * (w - a), gradient, weights, pull.anchor
        )
    return gradient if drift is None else jax.tree.map(jnp.add, gradient, drift)


def drawn_samples(sets: tuple[Samples, ...], chosen: Array) -> tuple[Array, Array, Array]:
    """Inputs, targets and groups of a batch [B]; a second set follows on the first."""
    own: Any = sets[0]
    if len(sets) == 1:
        targets = own.targets[chosen]
        groups = targets if own.groups is None else own.groups[chosen]
        return unit_pixels(own.inputs[chosen]), targets, groups
    extra: Any = sets[1]
    beyond = chosen - len(own.targets)
    first, second = jnp.minimum(chosen, len(own.targets) - 1), jnp.maximum(beyond, 0)
    a, b = unit_pixels(own.inputs[first]), unit_pixels(extra.inputs[second])
    is_extra = beyond >= 0
    inputs = jnp.where(is_extra.reshape(-1, *[1] * (a.ndim - 1)), b, a)
    targets = jnp.where(is_extra[:, None], extra.targets[second], own.targets[first])
    return inputs, targets, targets


def correct_predictions(model: Model, images: Array, labels: Array, weights: Weights) -> Array:
    """How many of ``images`` [M, b, H, W, C] the model labels as ``labels`` [M, b] says."""

    def count(batch: tuple[Array, Array]) -> Array:
        pixels, truth = batch
        guess = jnp.argmax(model.apply(weights, unit_pixels(pixels)), axis=-1)
        return jnp.sum(guess == truth)

    return jnp.sum(jax.lax.map(count, (images, labels)))


def unit_pixels(images: Array) -> Array:
    """Samples as a model is fed them, in JAX."""
    if images.dtype != jnp.uint8:
        return images
    fed: Array = in_units(images.astype(jnp.float32))
    return fed
