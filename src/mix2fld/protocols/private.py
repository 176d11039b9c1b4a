"""Uploads of statistics that keep a privacy budget: class sums first, then the scatter.

Noise is drawn once for each of both: an upload that is lost and sent again has the same noise, and
a scatter is counted from the same means, so that whoever hears both learns nothing more.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import integer, stream
from mix2fld.codecs import (
    PartOfStatistics,
    Weights,
    WeightsWithMeans,
)
from mix2fld.codecs.statistics import LARGEST_WHOLE
from mix2fld.protocols.base import Downlink, Inbox, Protocol, StepInfo, Turn, Uplink, named
from mix2fld.protocols.guarantees import of_local_noise, of_trusted_sum
from mix2fld.protocols.noise import NO_KEY, NOISE_KEY, noise_stream
from mix2fld.protocols.statistics import OF_STATISTICS, from_statistics, own_closed_form
from mix2fld.tasks.edges import Floats, edge_network, has_edges
from mix2fld.tasks.features import Features
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.private_statistics import (
    GRID,
    MEANS,
    Bounds,
    Deviations,
    Measured,
    bounds_of,
    class_scatter,
    class_sums,
    clean_covariance,
    deviations,
    means_of,
    network_of,
    noisy_covariance,
    shrunk_means,
)
from mix2fld.tasks.sample_features import FEATURE_KINDS, samples_of
from mix2fld.tasks.stepper import Start, draw_samples
from mix2fld.types import (
    Dimensions,
    Inputs,
    Local,
    Samples,
    SeedSet,
    ServerState,
    State,
    StatisticsPart,
    Tensors,
    Upload,
)

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

STAGE = "stage"


SUMS, SCATTER, DONE = (np.array(stage) for stage in range(3))


@dataclass(frozen=True)
class PrivateStatistics(Uplink):
    """Class sums and counts, then the scatter about the means that the server makes of them.

    With ``summed`` a device adds no noise: whoever sums what devices send is trusted to do so, and
    to show nothing but the noisy sum.
    """

    summed: bool = False
    kind: str = "model"
    """What statistics are taken of: features of the model, or low frequencies of samples."""
    payload: PartOfStatistics = field(default_factory=lambda: PartOfStatistics(1))

    @property
    def measures_samples(self) -> bool:
        """Always."""
        return True

    def measures_now(self, state: State) -> bool:
        """Until all is sent."""
        return bool(state[STAGE] != DONE)

    @property
    def needs_trusted_sum(self) -> bool:
        """Where the device adds no noise."""
        return self.summed

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the number of features, and the bits of a value."""
        features = FEATURE_KINDS[self.kind].features(dims, config.statistics.feature_side)
        bits = config.statistics.statistics_bits
        return replace(self, payload=PartOfStatistics(features, bits, self.summed))

    def start(self, weights: Tensors) -> State:
        """Sums are due."""
        del weights
        return {STAGE: SUMS, NOISE_KEY: NO_KEY}

    def value(self, state: State, local: Local, turn: Turn) -> StatisticsPart | None:
        """What is due, if it can be made."""
        stage, own, means = int(state[STAGE]), local.measured, state[MEANS]
        if stage == DONE or (stage == SCATTER and not means.any()):
            return None  # all is sent, or no means have come down
        if not isinstance(own, Measured):
            raise TypeError("statistics need the features of the device's samples")
        exact = class_scatter(own, means) if stage == SCATTER else class_sums(own, len(means))
        if self.summed:
            codes = np.rint(exact / GRID)
            whole = np.clip(codes, -LARGEST_WHOLE, LARGEST_WHOLE).astype(np.int32)
            return StatisticsPart(stage, whole)
        rng = noise_stream(turn, state[NOISE_KEY], stage)
        noisy = exact + own.noise[stage] * rng.normal(size=exact.shape)
        return StatisticsPart(stage, noisy.astype(np.float32))

    def delivered(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The next one is due."""
        del local
        return {} if read() is None else {STAGE: (SCATTER, DONE, DONE)[int(state[STAGE])]}

    def replaced(self, state: State, weights: Tensors) -> State:
        """Means from which a scatter may have been counted stay."""
        del weights
        keep = state[STAGE] != SUMS and state[MEANS].any()
        return {MEANS: state[MEANS]} if keep else {}

    def forgotten(self, state: State) -> State:
        """The budget may be spent: nothing is sent any more."""
        del state
        return {STAGE: DONE}


@dataclass(frozen=True)
class WeightsAndMeans(Downlink):
    """The global model, and the class means that the scatter of devices is counted from."""

    payload: WeightsWithMeans = field(default_factory=lambda: WeightsWithMeans(1))
    kind: str = "model"
    """What the means are of."""

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the number of features and the bits of a weight."""
        features = FEATURE_KINDS[self.kind].features(dims, config.statistics.feature_side)
        weights = Weights(config.updates.downlink_bits)
        return replace(self, payload=WeightsWithMeans(features, weights))

    def start(self, dims: Dimensions) -> State:
        """No means are known: zeros."""
        return {MEANS: np.zeros((dims.num_labels, self.payload.features), np.float32)}

    def value(self, server: ServerState) -> Any:
        """The server's model, and its means."""
        return server.weights, (server.memory[MEANS],)

    def received(self, value: Any) -> State:
        """New weights, and means."""
        weights, (means,) = value
        return {"weights": weights, MEANS: means}


GENERATED = 300
"""Samples of each label that are generated."""


PARTS = ("sums", "scatter")


@dataclass(frozen=True)
class TakeStatistics:
    """A model from all noisy parts so far, whenever new ones are delivered.

    With ``summed`` devices add no noise and trust whoever sums what they send. This simulates that
    party: the server keeps of each round only the noisy sum of what arrived, and no device is in
    two sums of the same part.
    """

    summed: bool = False
    kind: str = "model"
    """What statistics are of: a head on features of the model follows, or samples to train on."""

    @property
    def trains(self) -> bool:
        """Whether the model comes of steps of training."""
        return self.kind == "samples"

    @property
    def words(self) -> str:
        """What the server does, in a sentence."""
        if self.trains:
            then = "the server draws samples from the statistics and trains a model on these."
        else:
            then = "the server solves for the model."
        if self.summed:
            return f"A trusted sum adds noise once; {then}"
        return f"Noisy statistics are added up; {then}"

    def __call__(
        self,
        state: ServerState,
        inbox: Inbox,
        seeds: SeedSet | None,
        learning: Learning,
        round_number: int,
    ) -> tuple[ServerState, StepInfo]:
        """The server's step."""
        del seeds
        memory, noise = state.memory, deviations(learning, self.kind, on_grid=self.summed)
        for name, arrived in _by_part(inbox):
            values = [upload.value.values for upload in arrived]
            total, draws = np.sum(values, axis=0), len(arrived)
            if self.summed:
                rng = stream(learning.seed, f"privacy-{name}", round_number)
                total, draws = trusted_sum(values, getattr(noise, name), rng), 1
            memory = {**memory, **_added(memory, name, total, arrived, draws)}
        if memory is state.memory or "sums" not in memory:
            return replace(state, memory=memory), StepInfo()
        means, weights = self._model(memory, learning, noise, round_number)
        known = {**memory, MEANS: means.astype(np.float32)}
        info = StepInfo(learning.config.learning.server_steps if self.trains else 0)
        return replace(state, memory=known, weights=weights, updates=state.updates + 1), info

    def _model(
        self, memory: State, learning: Learning, noise: Deviations, round_number: int
    ) -> tuple[Floats, Tensors]:
        """Class means, and the model that follows from all parts."""
        bounds, features = bounds_of(learning, self.kind), FEATURE_KINDS[self.kind].make(learning)
        means = self._means(memory, noise, bounds)
        covariance = np.eye(means.shape[1]) * bounds.residual**2 / means.shape[1]
        if "scatter" in memory:
            samples, draws = memory["scatter_counts"].tolist()
            clean = clean_covariance if self.kind == "samples" else noisy_covariance
            covariance = clean(memory["scatter"], samples, noise.scatter * math.sqrt(draws))
        if self.kind == "samples":
            return means, train_on_generated(features, means, covariance, learning, round_number)
        return means, network_of(features, means, covariance)

    def _means(self, memory: State, noise: Deviations, bounds: Bounds) -> Floats:
        """Class means; those that seeds are generated from know how much of them is noise."""
        samples, draws = memory["sums_counts"].tolist()
        if self.kind == "samples":
            deviation = noise.sums * math.sqrt(draws)
            return shrunk_means(memory["sums"], samples, bounds, deviation)
        return means_of(memory["sums"], samples, bounds)


take_private_statistics = TakeStatistics()


take_trusted_sums = TakeStatistics(summed=True)


take_private_seeds = TakeStatistics(kind="samples")


take_summed_seeds = TakeStatistics(summed=True, kind="samples")


def train_on_generated(
    features: Features, means: Floats, covariance: Floats, learning: Learning, round_number: int
) -> Tensors:
    """A model after K_s steps on samples drawn from a Gaussian for each label.

    The student begins with edges where the model has them, which need no data.
    """
    labels = np.arange(len(means)).repeat(GENERATED)
    rng = stream(learning.seed, "generated", round_number)
    drawn = means[labels] + rng.normal(size=(len(labels), means.shape[1])) @ root_of(covariance)
    inputs = samples_of(features, drawn, learning.dims)
    begun = edge_network(learning.dims) if has_edges(learning.dims) else learning.common_weights
    return train_student(begun, inputs, labels, learning, rng, round_number)


def root_of(covariance: Floats) -> Floats:
    """The symmetric root of a covariance, by which draws of unit variance become its own."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def train_student(
    begun: Tensors,
    inputs: Inputs,
    labels: NDArray[np.integer[Any]],
    learning: Learning,
    rng: np.random.Generator,
    round_number: int,
) -> Tensors:
    """What is begun with, after K_s steps on samples that the server generated."""
    settings, count = learning.config.learning, learning.dims.num_labels
    samples = Samples(inputs, one_hot(labels.astype(np.int32), count))
    draws = draw_samples(rng, len(labels), settings.server_steps, settings.batch_size)
    no_teacher = np.zeros((count, count), np.float32)
    start = Start(
        begun,
        no_teacher,
        randomness=partial(integer, learning.seed, "student model", round_number),
    )
    return learning.stepper.train_one(label_loss, samples, start, draws)


def trusted_sum(
    values: Sequence[NDArray[np.int32]], deviation: float, rng: np.random.Generator
) -> Floats:
    """The exact sum of whole numbers with noise, in units of the grid.

    Noise that is rounded before it is added to whole numbers is noise that is rounded after.
    """
    total = np.sum(np.asarray(values, np.int64), axis=0)
    return np.asarray(GRID * (total + np.rint(deviation / GRID * rng.normal(size=total.shape))))


def _by_part(inbox: Inbox) -> Iterator[tuple[str, list[Upload]]]:
    """The uploads of each part that arrived, in the order of devices."""
    for stage, name in enumerate(PARTS):
        arrived = [inbox[device] for device in sorted(inbox) if inbox[device].value.stage == stage]
        if arrived:
            yield name, arrived


def _added(memory: State, name: str, total: Floats, arrived: Sequence[Upload], draws: int) -> State:
    """The sum of one part with what is new: of how many samples, and how often noise is in it."""
    counts = np.array([sum(upload.samples for upload in arrived), draws])
    return {
        name: memory.get(name, 0.0) + total.astype(np.float64),
        f"{name}_counts": memory.get(f"{name}_counts", 0) + counts,
    }


from_private_statistics = replace(from_statistics, logit_adjustment=1.5)
OF_PRIVATE = {**OF_STATISTICS, **named("epsilon", "delta", "feature_clip")}

DP_STATISTICS = Protocol(
    "DP statistics", label_loss, PrivateStatistics(), None, take_private_statistics,
    WeightsAndMeans(), from_private_statistics, own_closed_form, of_local_noise,
    parameters=OF_PRIVATE, colour="#882255", line="--",
)  # fmt: skip
DP_SUM = replace(
    DP_STATISTICS, title="DP sum", uplink=PrivateStatistics(summed=True),
    server_step=take_trusted_sums, promise=of_trusted_sum, line=":",
)  # fmt: skip
DP_SEEDS = Protocol(
    "DP seeds", label_loss, PrivateStatistics(kind="samples"), None, take_private_seeds,
    WeightsAndMeans(kind="samples"), from_private_statistics, promise=of_local_noise,
    parameters={**OF_PRIVATE, **named("server_steps")}, colour="#6f5f00", line="--",
)  # fmt: skip
DP_SEEDS_SUM = replace(
    DP_SEEDS, title="DP seeds, summed", uplink=PrivateStatistics(summed=True, kind="samples"),
    server_step=take_summed_seeds, promise=of_trusted_sum, line=":",
)  # fmt: skip
