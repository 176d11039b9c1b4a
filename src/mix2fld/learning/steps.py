"""The losses, and the one SGD loop that Eqs. 1, 3 and 5 share.

Everything here is written for one learner (a device, or the server's student); whoever has many
batches it outside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import ArrayLike, NDArray

from mix2fld.config import LearningConfig
from mix2fld.errors import InputError
from mix2fld.types import Images, Kernel, Model, Weights

OPTIMIZERS: dict[str, Callable[[float], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "adam": optax.adam,
}


@dataclass(frozen=True)
class Learner:
    """What is trained and how; the same for every device and for the server's student."""

    model: Model
    optimizer: optax.GradientTransformation
    learning_rate: float
    distillation_weight: float  # beta, negative for psi as printed
    dominant_teacher: bool
    kernel: Kernel | None  # machine code that does the same steps, if it can be had

    @classmethod
    def from_config(cls, model: Model, config: LearningConfig) -> "Learner":
        """The learner that a config asks for."""
        sign = 1.0 if config.distillation_loss == "cross-entropy" else -1.0
        return cls(
            model=model,
            learning_rate=config.learning_rate,
            kernel=_kernel(model, config),
            optimizer=_optimizer(config.optimizer, config.learning_rate),
            distillation_weight=sign * config.distillation_weight,
            dominant_teacher=config.soft_label_teacher == "dominant",
        )


def _kernel(model: Model, config: LearningConfig) -> Kernel | None:
    """The model's machine code, for plain batch-1 SGD."""
    plain = (config.optimizer, config.batch_size, config.soft_label_teacher)
    if config.kernel == "xla":
        return None
    suits = model.kernel is not None and plain == ("sgd", 1, "mixture")
    kernel = model.kernel() if model.kernel is not None and suits else None
    if kernel is None and config.kernel == "native":
        raise InputError(
            f"kernel = native: {model.name} with optimizer = {plain[0]}, batch_size = {plain[1]}, "
            f"soft_label_teacher = {plain[2]} has no machine code on this machine; use auto"
        )
    return kernel


@lru_cache(maxsize=64)
def _optimizer(name: str, learning_rate: float) -> optax.GradientTransformation:
    """One object for equal arguments: equal learners are then equal, and share compiled code."""
    return OPTIMIZERS[name](learning_rate)


class Phase(NamedTuple):
    """A learner in the middle of its steps; arrays of JAX or, between phases, of the host."""

    weights: Weights
    optimizer_state: optax.OptState
    output_sums: Any  # [N_L, N_L], sum of the outputs F seen under each label
    label_counts: Any  # [N_L], how often each label was drawn


Loss = Callable[[Learner, Array, Array, Array], Array]
"""(learner, logits [B, N_L], labels [B, N_L], teacher [N_L, N_L]) -> scalar."""


def cross_entropy(logits: Array, target: Array) -> Array:
    """Mean over the batch of -sum_m target_m log F_m, with F the softmax of the logits."""
    return -jnp.mean(jnp.sum(target * jax.nn.log_softmax(logits), axis=-1))


def label_loss(learner: Learner, logits: Array, labels: Array, teacher: Array) -> Array:
    """The loss phi of Eq. 1: cross-entropy with the sample's label."""
    del learner, teacher
    return cross_entropy(logits, labels)


def distillation_loss(learner: Learner, logits: Array, labels: Array, teacher: Array) -> Array:
    """The loss phi + beta psi of Eqs. 3 and 5.

    psi is the cross-entropy with the teacher's output G_out of the sample's label; for a soft
    label, with the label's mixture of outputs (decision 3). The zero row of an unknown output
    switches psi off for that label (decision 4).
    """
    dominant = teacher[jnp.argmax(labels, axis=-1)]
    target = dominant if learner.dominant_teacher else labels @ teacher
    return cross_entropy(logits, labels) + learner.distillation_weight * cross_entropy(
        logits, target
    )


def begin_phase(learner: Learner, weights: Weights, num_labels: int) -> Phase:
    """A learner before its first step."""
    return Phase(
        weights=weights,
        optimizer_state=learner.optimizer.init(weights),
        output_sums=jnp.zeros((num_labels, num_labels)),
        label_counts=jnp.zeros(num_labels),
    )


def sgd_steps(
    learner: Learner,
    loss: Loss,
    phase: Phase,
    images: Array,
    targets: Array,
    teacher: Array,
    draws: Array,
) -> Phase:
    """Run one SGD step for each row of ``draws`` [K, B], which names samples of the batch.

    Eq. 1 with ``label_loss``, Eqs. 3 and 5 with ``distillation_loss``. ``images`` [n, H, W, C],
    ``targets`` [n, N_L], ``teacher`` [N_L, N_L]. The outputs F that Eq. 2 averages are those of
    the forward pass of each step, before its update.
    """

    def step(phase: Phase, chosen: Array) -> tuple[Phase, None]:
        labels = targets[chosen]
        pixels = unit_pixels(images[chosen])

        def loss_and_outputs(weights: Weights) -> tuple[Array, Array]:
            logits = learner.model.apply(weights, pixels)
            return loss(learner, logits, labels, teacher), jax.nn.softmax(logits)

        gradient, outputs = jax.grad(loss_and_outputs, has_aux=True)(phase.weights)
        update, optimizer_state = learner.optimizer.update(
            gradient, phase.optimizer_state, phase.weights
        )
        return Phase(
            weights=optax.apply_updates(phase.weights, update),
            optimizer_state=optimizer_state,
            output_sums=phase.output_sums + labels.T @ outputs,
            label_counts=phase.label_counts + labels.sum(axis=0),
        ), None

    return jax.lax.scan(step, phase, draws)[0]


def kernel_steps(
    learner: Learner,
    loss: Loss,
    phase: Phase,
    images: Images,
    targets: NDArray[np.float32],
    teacher: NDArray[np.float32],
    draws: NDArray[np.int32],
) -> Phase:
    """``sgd_steps`` by the learner's machine code, on host arrays."""
    if learner.kernel is None:
        raise ValueError("this learner has no kernel")
    weights = jax.tree.map(np.array, phase.weights)
    sums, counts = np.array(phase.output_sums), np.array(phase.label_counts)
    learner.kernel.train(
        jax.tree.leaves(weights),
        images,
        targets,
        teacher,
        np.ascontiguousarray(draws[:, 0]),
        learner.learning_rate,
        learner.distillation_weight if loss is distillation_loss else 0.0,
        sums,
        counts,
    )
    return Phase(weights, phase.optimizer_state, sums, counts)


def has_kernel(learner: Learner, loss: Loss) -> bool:
    """Whether ``kernel_steps`` can take the place of ``sgd_steps``."""
    return learner.kernel is not None and loss in (label_loss, distillation_loss)


def average_outputs(phase: Phase) -> NDArray[np.float32]:
    """Eq. 2: the mean output under each ground-truth label; zero for a label never drawn."""
    counts = np.asarray(phase.label_counts)[:, None]
    return np.where(counts > 0, phase.output_sums / np.maximum(counts, 1.0), 0.0).astype(np.float32)


def correct_predictions(model: Model, weights: Weights, images: Array, labels: Array) -> Array:
    """How many of ``images`` [M, b, H, W, C] the model labels as ``labels`` [M, b] says."""

    def count(batch: tuple[Array, Array]) -> Array:
        pixels, truth = batch
        guess = jnp.argmax(model.apply(weights, unit_pixels(pixels)), axis=-1)
        return jnp.sum(guess == truth)

    return jnp.sum(jax.lax.map(count, (images, labels)))


def unit_pixels(images: Array) -> Array:
    """Pixels as float32 where a stored 255 is 1."""
    return images.astype(jnp.float32) / 255 if images.dtype == jnp.uint8 else images


def one_hot(labels: ArrayLike, num_labels: int) -> NDArray[np.float32]:
    """Label vectors L_n as rows."""
    return np.eye(num_labels, dtype=np.float32)[np.asarray(labels)]


def draw_samples(
    rng: np.random.Generator, samples: int, steps: int, batch_size: int
) -> NDArray[np.int32]:
    """Which samples each SGD step uses, uniformly drawn: [K, B]."""
    return rng.integers(samples, size=(steps, batch_size), dtype=np.int32)
