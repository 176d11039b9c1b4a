"""What is learned, fixed for a whole run: shared by every device, the server and both engines."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from mix2fld import streams
from mix2fld.config import Config
from mix2fld.learning.steps import Learner
from mix2fld.models import check_model, make_model, weight_shapes
from mix2fld.types import Dimensions, Model, Weights


@dataclass(frozen=True, eq=False)
class Task:
    """A single run's config with the model and the sizes that follow from it."""

    config: Config
    learner: Learner
    dims: Dimensions

    @property
    def seed(self) -> int:
        """The one seed of this run."""
        return self.config.seed[0]

    def initial_weights(self, device: int) -> Weights:
        """The weights a device starts from: one common draw, or its own (decision 7)."""
        common = self.config.learning.initial_weights == "common"
        return self.common_weights() if common else self._draw_weights("weights", 1 + device)

    def common_weights(self) -> Weights:
        """The common draw, from which the server's student starts too."""
        return self._draw_weights("weights", 0)

    def untrained_student(self, round_number: int) -> Weights:
        """A student of its own for one round (decision 6)."""
        return self._draw_weights("student", round_number)

    def flatten(self, weights: Weights) -> list[NDArray[np.float32]]:
        """The tensors of a weight tree, in the order in which a payload carries them."""
        return [np.asarray(tensor) for tensor in jax.tree.leaves(weights)]

    @property
    def kernel(self) -> str:
        """Whose code trains: xla or native."""
        return "xla" if self.learner.kernel is None else "native"

    def unflatten(self, tensors: list[NDArray[np.float32]]) -> Weights:
        """The weight tree that ``flatten`` took apart."""
        return jax.tree.unflatten(_structure(self.learner.model), tensors)

    def _draw_weights(self, purpose: str, index: int) -> Weights:
        key = jax.random.key(streams.integer(self.seed, purpose, index))
        return jax.tree.map(np.asarray, self.learner.model.init(key))


def make_task(
    config: Config,
    sample_shape: tuple[int, int, int],
    num_labels: int,
    model: Model | None = None,
) -> Task:
    """The task of a single run; ``model`` overrides the one that the config names."""
    chosen = model or _known_model(config.learning.model, sample_shape, num_labels)
    _check_once(chosen, sample_shape, num_labels)
    return Task(
        config=config,
        learner=Learner.from_config(chosen, config.learning),
        dims=Dimensions(
            weight_shapes=_shapes_once(chosen),
            num_labels=num_labels,
            sample_shape=sample_shape,
            seed_samples=config.seeding.seed_samples,
            bits_per_pixel=config.seeding.seed_bits_per_pixel,
        ),
    )


# One object for equal arguments, so that runs of one process share their compiled code; and asked
# once, since asking JAX anew for each run would fill its caches.
_known_model = lru_cache(maxsize=16)(make_model)
_check_once = lru_cache(maxsize=16)(check_model)
_shapes_once = lru_cache(maxsize=16)(weight_shapes)


@lru_cache(maxsize=16)
def _structure(model: Model) -> Any:
    """The tree of a model's weights."""
    return jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
