"""The stepper of any JAX model: XLA, with every core busy.

On a CPU each core walks through its share of the learners one by one, which for small models is
several times faster than a batched step; on an accelerator they run batched. Arrays with a learner
axis come from the host and go back to it: nothing spread over cores is ever combined there, so no
core waits for another.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from mix2fld.native.processor import usable_cores
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.sgd import (
    LearnerProgress,
    Pull,
    Steps,
    TrainingSetup,
    begin_steps,
    correct_predictions,
    sgd_steps,
    unit_pixels,
)
from mix2fld.tasks.stepper import Draws, Learned, Start, Watch
from mix2fld.types import Inputs, Model, Samples, Tensors, Weights

TEST_BATCH = 32  # the fastest for the networks of the package on a CPU
EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec("devices")

# JAX fixes its CPU devices at first use; where that has happened already, they stay as they are.
with suppress(RuntimeError):
    jax.config.update("jax_num_cpu_devices", usable_cores())


class XlaStepper:
    """Steps and tests of one model, compiled by XLA."""

    name = "xla"

    def __init__(self, learner: TrainingSetup) -> None:
        self.learner = learner

    def draw_weights(self, seed: int) -> Tensors:
        """The model's initial weights for one seed."""
        return tensors_of(self.learner.model.init(jax.random.key(seed)))

    def hold(self, samples: Samples, extra: Samples | None = None) -> Any:
        """A copy of the samples on each core."""
        return on_every_core((samples,) if extra is None else (samples, extra))

    def train(
        self, loss: Loss, held: Any, starts: Sequence[Start], draws: Sequence[Draws], watch: Watch
    ) -> Learned:
        """All learners at once, stopping where the watched one is looked at."""
        learner = self.learner
        weights = self._tree(_stacked(_weights(starts)))
        teachers, chosen = np.stack([start.teacher for start in starts]), np.stack(draws)
        own = _offsets(starts), _factors(starts), _pulls(starts, weights), self._drifts(starts)
        steps = over_devices(begin_steps, (learner, starts[0].teacher.shape), (), (weights,))
        snapshots = []
        for begin, end in pairwise([0, *watch.steps]):
            run = LearnerProgress(steps, teachers, chosen[:, begin:end], *own)
            steps = over_devices(sgd_steps, (learner, loss), (held,), (run,))
            snapshots.append((end, tensors_of(pick(steps.phase.weights, watch.place))))
        phases = [pick(steps.phase, place) for place in range(len(starts))]
        return Learned([p._replace(weights=tensors_of(p.weights)) for p in phases], snapshots)

    def train_one(self, loss: Loss, samples: Samples, start: Start, draws: Draws) -> Tensors:
        """One learner, on one core."""
        begun = self._tree(start.weights)
        factor = None if start.rate_factor == 1 else np.float32(start.rate_factor)
        pull = Pull(np.float32(start.pull), begun) if start.pull else None
        drift = None if start.drift is None else self._tree(start.drift)
        run = (begun, start.teacher, draws, start.logit_offset, factor, pull, drift)
        return tensors_of(_train_one(self.learner, loss, samples, run))

    def logits(self, weights: Tensors, inputs: Inputs) -> NDArray[np.float32]:
        """What the model answers for samples, [n, O]: batch after batch, all of one size."""
        tree, found = self._tree(weights), []
        for begin in range(0, len(inputs), TEST_BATCH):
            batch = inputs[begin : begin + TEST_BATCH]
            nothing = np.zeros((TEST_BATCH - len(batch), *batch.shape[1:]), batch.dtype)
            answers = _logits(self.learner.model, tree, np.concatenate([batch, nothing]))
            found.append(np.asarray(answers)[: len(batch)])
        return np.concatenate(found)

    def hold_tests(self, inputs: Inputs, labels: NDArray[np.int32]) -> Any:
        """The samples in batches, filled up with ones that no model can label correctly."""
        padding = -len(labels) % TEST_BATCH
        nothing = np.zeros((padding, *inputs.shape[1:]), inputs.dtype)
        batches = np.concatenate([inputs, nothing]).reshape(-1, TEST_BATCH, *inputs.shape[1:])
        truth = np.concatenate([labels, np.full(padding, -1)]).reshape(-1, TEST_BATCH)
        return on_every_core((batches, truth.astype(np.int32)))

    def count_correct(self, tests: Any, models: Sequence[Tensors]) -> list[int]:
        """Count for all models in one call."""
        if not models:
            return []
        stacked = self._tree(_stacked(models))
        correct = over_devices(correct_predictions, (self.learner.model,), tests, (stacked,))
        return [int(count) for count in correct]

    def _drifts(self, starts: Sequence[Start]) -> Weights | None:
        """What is added to the gradients of all learners; None if no learner has such."""
        if all(start.drift is None for start in starts):
            return None
        none = tuple(map(np.zeros_like, starts[0].weights))
        return self._tree(_stacked([none if s.drift is None else s.drift for s in starts]))

    def _tree(self, tensors: Sequence[Any]) -> Weights:
        return jax.tree.unflatten(_structure(self.learner.model), tensors)


def tensors_of(weights: Weights) -> Tensors:
    """The arrays of a weight tree, in the order in which a payload carries them."""
    return tuple(np.asarray(tensor) for tensor in jax.tree.leaves(weights))


@lru_cache(maxsize=1)
def cores() -> Mesh:
    """All accelerators, or every CPU core as a device of its own."""
    return Mesh(np.array(jax.devices()), ("devices",))


def walks_one_by_one() -> bool:
    """Whether a core takes its devices one after the other, or all in one batch."""
    return bool(cores().devices.flat[0].platform == "cpu")


def on_every_core(tree: Any) -> Any:
    """A copy on each core, made once, of what all devices share."""
    return jax.device_put(tree, NamedSharding(cores(), EVERYWHERE))


def over_devices(
    function: Callable[..., Any], fixed: tuple[Any, ...], shared: tuple[Any, ...], own: Any
) -> Any:
    """``function(*fixed, *shared, *own[d])`` for every d of the leading axis of ``own``.

    ``fixed`` is compiled in; ``shared`` comes from ``on_every_core``; ``own`` and the result are
    host arrays.
    """
    count = len(jax.tree.leaves(own)[0])
    padding = -count % cores().size
    padded = jax.tree.map(lambda a: np.concatenate([a, *[a[-1:]] * padding]), own)
    spread = jax.device_put(padded, NamedSharding(cores(), SPLIT))
    result = _mapped(function, fixed, shared, spread)
    return jax.tree.map(lambda a: np.asarray(a)[:count], result)


def pick(stacked: Any, device: int) -> Any:
    """One device's part of arrays with a device axis."""
    return jax.tree.map(lambda tensor: tensor[device], stacked)


@partial(jax.jit, static_argnums=(0, 1))
def _mapped(function: Callable[..., Any], fixed: Any, shared: Any, own: Any) -> Any:
    def on_one_core(shared: Any, own: Any) -> Any:
        def one(args: Any) -> Any:
            return function(*fixed, *shared, *args)

        return jax.lax.map(one, own) if walks_one_by_one() else jax.vmap(one)(own)

    return jax.shard_map(
        on_one_core, mesh=cores(), in_specs=(EVERYWHERE, SPLIT), out_specs=SPLIT, check_vma=False
    )(shared, own)


@partial(jax.jit, static_argnums=0)
def _logits(model: Model, weights: Weights, inputs: Any) -> Any:
    return model.apply(weights, unit_pixels(inputs))


@partial(jax.jit, static_argnums=(0, 1))
def _train_one(learner: TrainingSetup, loss: Loss, samples: Any, run: Any) -> Weights:
    weights, *rest = run
    begun = begin_steps(learner, rest[0].shape, weights)
    steps: Steps = sgd_steps(learner, loss, (samples,), LearnerProgress(begun, *rest))
    return steps.phase.weights


def _weights(starts: Sequence[Start]) -> list[Tensors]:
    return [start.weights for start in starts]


def _offsets(starts: Sequence[Start]) -> NDArray[np.float32] | None:
    """The offsets of all learners [D, N_L]; None if no learner has one."""
    if all(start.logit_offset is None for start in starts):
        return None
    none = np.zeros(starts[0].teacher.shape[0], np.float32)
    return np.stack([none if s.logit_offset is None else s.logit_offset for s in starts])


def _factors(starts: Sequence[Start]) -> NDArray[np.float32] | None:
    """The factors of all learners [D]; None if all are 1."""
    factors = np.array([start.rate_factor for start in starts], np.float32)
    return None if (factors == 1).all() else factors


def _pulls(starts: Sequence[Start], weights: Weights) -> Pull | None:
    """The proximal terms of all learners, at whose weights they begin; None if all are 0."""
    strengths = np.array([start.pull for start in starts], np.float32)
    return Pull(strengths, weights) if strengths.any() else None


def _stacked(models: Sequence[Tensors]) -> list[NDArray[np.float32]]:
    """The weights of all learners, with a leading axis for them."""
    return [np.stack(column) for column in zip(*models, strict=True)]


@lru_cache(maxsize=16)
def _structure(model: Model) -> Any:
    """The tree of a model's weights."""
    return jax.tree.structure(jax.eval_shape(model.init, jax.random.key(0)))
