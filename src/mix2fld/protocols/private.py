"""Uploads of statistics that keep a privacy budget: class sums first, then the scatter.

Noise is drawn once for each of both: an upload that is lost and sent again has the same noise, and
a scatter is relative to the same means, so that both together tell nothing more.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.discrete_noise import discrete_gaussian
from mix2fld.base.streams import integer, stream
from mix2fld.codecs import ClassMeans, Named, PartOfStatistics
from mix2fld.codecs.statistics import LARGEST_WHOLE
from mix2fld.protocols.base import ValueGrid
from mix2fld.protocols.masked import sum_threshold
from mix2fld.protocols.parts import (
    NO_KEY,
    NOISE_KEY,
    Device,
    Inbox,
    Line,
    MakeModel,
    Promise,
    StepInfo,
    Stepped,
    Turn,
    noise_stream,
    of_devices,
    of_local_noise,
    of_trusted_sum,
    setting,
)
from mix2fld.protocols.statistics import from_statistics, own_closed_form
from mix2fld.protocols.weights import DownloadsWeights
from mix2fld.tasks.edges import Floats, edge_network, has_edges
from mix2fld.tasks.features import Features
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.private_statistics import (
    GRID,
    MEANS,
    Bounds,
    Deviations,
    MeasuredFeatures,
    bounds_of,
    class_scatter,
    class_sums,
    clean_covariance,
    deviations,
    means_of,
    measure_samples,
    network_of,
    noisy_covariance,
    shrunk_means,
)
from mix2fld.tasks.sample_features import FEATURE_KINDS, samples_of
from mix2fld.tasks.stepper import Start, draw_samples
from mix2fld.tasks.training import Training
from mix2fld.types import (
    Inputs,
    Local,
    Samples,
    ServerState,
    State,
    StatisticsPart,
    Tensors,
    Upload,
)

STAGE = "stage"
SUMS, SCATTER, DONE = (np.array(stage) for stage in range(3))
PARTS = ("sums", "scatter")
from_private_statistics = replace(from_statistics, logit_adjustment=1.5)
GENERATED = 300
"""Samples of each label that are generated."""


@dataclass(frozen=True, kw_only=True)
class PrivateStatistics(DownloadsWeights):
    """Class sums and counts, then the scatter about the means that the server makes of them.

    With ``trusted_sum`` only sums over devices have all the noise, and no device is in two sums of
    the same part. Under masks (``sums = masked``) each device adds its share of the noise, and the
    server learns nothing but the sum. Otherwise a party is trusted to sum what devices send without
    noise, and to show nothing but the noisy sum; this simulates that party.
    """

    needs_labels = True
    downlinks: ClassVar[tuple[str, ...]] = ("weights",)

    features_of: ClassVar[str] = "model"
    """What statistics are taken of: features of the model, or low frequencies of samples."""
    training: Training = from_private_statistics
    promise: Promise | None = of_local_noise
    feature_side: int = setting("statistics.feature_side", 6)
    statistics_bits: int = setting("statistics.statistics_bits", 8)
    epsilon: float = setting("privacy.epsilon", 8.0)
    delta: float = setting("privacy.delta", 1e-5)
    feature_clip: str | float = setting("privacy.feature_clip", "auto")

    @property
    def upload_codec(self) -> PartOfStatistics:
        return PartOfStatistics(self._features, self.statistics_bits, self.trusted_sum)

    @property
    def adds_codes(self) -> bool:  # type: ignore[override]
        """Whole numbers are made to be added."""
        return self.trusted_sum

    @property
    def grid(self) -> ValueGrid:
        return ValueGrid(1.0, LARGEST_WHOLE)

    @property
    def counts(self) -> tuple[int, ...]:
        """Of sums, and of the scatter."""
        return self.upload_codec.values_of(self.dims)

    def to_add(self, value: StatisticsPart | None) -> tuple[int, NDArray[np.int32]] | None:
        return None if value is None else (value.stage, value.values.ravel())

    def from_added(self, kind: int, total: Floats, devices: int, turn: Turn) -> StatisticsPart:
        shape = self.upload_codec.shape_of(kind, self.dims)
        return StatisticsPart(kind, np.rint(total).astype(np.int64).reshape(shape))

    @property
    def _masked(self) -> bool:
        return self.trusted_sum and self.config.privacy.sums == "masked"

    @property
    def download_codec(self) -> Named:
        """The class means that the scatter of devices is relative to, and the global model."""
        weights = super().download_codec
        return Named({"means": ClassMeans(self._features), "weights": weights})

    @property
    def _features(self) -> int:
        if self.sizes is None:
            return 1
        return FEATURE_KINDS[self.features_of].features(self.sizes, self.feature_side)

    def start(self, weights: Tensors) -> State:
        """No means are known, and sums are due."""
        means = np.zeros((self.dims.num_labels, self._features), np.float32)
        return {MEANS: means, STAGE: SUMS, NOISE_KEY: NO_KEY}

    def upload(self, device: Device, local: Local) -> StatisticsPart | None:
        """What is due, if it can be made."""
        stage, means = device.state[STAGE], device.state[MEANS]
        if stage == DONE or (stage == SCATTER and not means.any()):
            return None  # all is sent, or no means have come down
        own = measure_samples(self.learning, *device.samples(), self.features_of)
        return self.part_of(own, device.state, device.turn)

    def part_of(self, own: MeasuredFeatures, state: State, turn: Turn) -> StatisticsPart:
        stage, means = int(state[STAGE]), state[MEANS]
        exact = class_scatter(own, means) if stage == SCATTER else class_sums(own, len(means))
        if self.trusted_sum:
            codes = np.rint(exact / GRID)
            whole = np.clip(codes, -LARGEST_WHOLE, LARGEST_WHOLE).astype(np.int32)
            if self._masked:
                noise = deviations(self.learning, self.features_of, on_grid=True)[stage] / GRID
                rng = noise_stream(turn, state[NOISE_KEY], stage)
                share = noise / math.sqrt(sum_threshold(self.config))
                whole += discrete_gaussian(rng, share, whole.shape).astype(np.int32)
            return StatisticsPart(stage, whole)
        rng = noise_stream(turn, state[NOISE_KEY], stage)
        noisy = exact + own.noise[stage] * rng.normal(size=exact.shape)
        return StatisticsPart(stage, noisy.astype(np.float32))

    def on_acknowledged(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The next part of the statistics is due."""
        return {} if read() is None else {STAGE: (SCATTER, DONE, DONE)[int(state[STAGE])]}

    def download(self, server: ServerState) -> Any:
        return {"means": (server.memory[MEANS],), "weights": server.weights}

    def received(self, value: Any) -> State:
        (means,) = value["means"]
        return {"weights": value["weights"], MEANS: means}

    def on_download(self, state: State, weights: Tensors) -> State:
        """Means that a scatter may have been relative to stay."""
        keep = state[STAGE] != SUMS and state[MEANS].any()
        return {MEANS: state[MEANS]} if keep else {}

    def on_state_lost(self, state: State) -> State:
        """The budget may be spent: nothing more is sent."""
        return {STAGE: DONE}

    @property
    def server_words(self) -> str:
        """It solves for a model, or trains one."""
        if self.server_steps:
            then = "the server draws samples from the statistics and trains a model on these."
        else:
            then = "the server solves for the model."
        if self.trusted_sum:
            return f"A trusted sum adds noise once; {then}"
        return f"Noisy statistics are added up; {then}"

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """A model from all noisy parts so far, whenever new ones are delivered."""
        learning, memory = self.learning, server.memory
        noise = deviations(learning, self.features_of, on_grid=self.trusted_sum)
        for name, arrived in _by_part(inbox):
            values = [upload.value.values for upload in arrived]
            total, draws = np.sum(values, axis=0), float(len(arrived))
            if self._masked:
                total = GRID * total
                draws = sum(own.devices for own in arrived) / sum_threshold(self.config)
            elif self.trusted_sum:
                rng = stream(learning.seed, f"privacy-{name}", round_number)
                total, draws = trusted_sum(values, getattr(noise, name), rng), 1.0
            memory = {**memory, **_added(memory, name, total, arrived, draws)}
        if memory is server.memory or "sums" not in memory:
            return replace(server, memory=memory), StepInfo()
        bounds = bounds_of(learning, self.features_of)
        means = self._means(memory, noise, bounds)
        weights, steps = self._model(memory, means, noise, round_number)
        known = {**memory, MEANS: means.astype(np.float32)}
        after = replace(server, memory=known, weights=weights, updates=server.updates + 1)
        words = f"added up statistics of {of_devices(inbox)} and " + (
            f"took {steps:,} steps on samples drawn from them" if steps else "solved for the model"
        )
        return after, StepInfo(steps, words=words)

    @abstractmethod
    def _means(self, memory: State, noise: Deviations, bounds: Bounds) -> Floats:
        """Class means from noisy sums."""

    @abstractmethod
    def _model(
        self, memory: State, means: Floats, noise: Deviations, round_number: int
    ) -> tuple[Tensors, int]:
        """The model that follows from all parts, and the SGD steps that it took."""

    def _covariance(
        self,
        memory: State,
        size: int,
        noise: Deviations,
        clean: Callable[[Floats, int, float], Floats],
    ) -> Floats:
        """Within classes; before a scatter was delivered, what its bound suggests."""
        if "scatter" not in memory:
            residual = bounds_of(self.learning, self.features_of).residual
            return np.eye(size) * residual**2 / size
        samples, draws = memory["scatter_counts"].tolist()
        return clean(memory["scatter"], samples, noise.scatter * math.sqrt(draws))

    def tensors_in(self, value: Any, samples: int) -> Tensors:
        """What it comes to for one sample."""
        return () if value is None else (value.values / max(samples, 1),)


@dataclass(frozen=True, kw_only=True)
class DPStatistics(PrivateStatistics):
    """Noisy statistics of features, and the network that follows from them in closed form."""

    title: str = "DP statistics"
    colour: str = "#882255"
    line: Line = "--"
    first_model: MakeModel | None = own_closed_form

    def _means(self, memory: State, noise: Deviations, bounds: Bounds) -> Floats:
        samples, _ = memory["sums_counts"].tolist()
        return means_of(memory["sums"], samples, bounds)

    def _model(
        self, memory: State, means: Floats, noise: Deviations, round_number: int
    ) -> tuple[Tensors, int]:
        covariance = self._covariance(memory, means.shape[1], noise, noisy_covariance)
        features = FEATURE_KINDS[self.features_of].make(self.learning)
        return network_of(features, means, covariance), 0


@dataclass(frozen=True, kw_only=True)
class DPSeeds(PrivateStatistics):
    """Noisy statistics of samples, from which the server draws samples to train a model on."""

    features_of = "samples"
    title: str = "DP seeds"
    colour: str = "#6f5f00"
    line: Line = "--"
    server_steps: int = setting("learning.server_steps", 3200)  # K_s

    def _means(self, memory: State, noise: Deviations, bounds: Bounds) -> Floats:
        """What samples are drawn from must know how much of the means is noise."""
        samples, draws = memory["sums_counts"].tolist()
        return shrunk_means(memory["sums"], samples, bounds, noise.sums * math.sqrt(draws))

    def _model(
        self, memory: State, means: Floats, noise: Deviations, round_number: int
    ) -> tuple[Tensors, int]:
        covariance = self._covariance(memory, means.shape[1], noise, clean_covariance)
        features = FEATURE_KINDS[self.features_of].make(self.learning)
        weights = train_on_generated(features, means, covariance, self.learning, round_number)
        return weights, self.server_steps


DP_SUM = DPStatistics(title="DP sum", trusted_sum=True, promise=of_trusted_sum, line=":")
DP_SEEDS_SUM = DPSeeds(title="DP seeds, summed", trusted_sum=True, promise=of_trusted_sum, line=":")


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


def _added(
    memory: State, name: str, total: Floats, arrived: Sequence[Upload], draws: float
) -> State:
    """The sum of one part with what is new: of how many samples, and how often noise is in it."""
    counts = np.array([sum(upload.samples for upload in arrived), draws])
    return {
        name: memory.get(name, 0.0) + total.astype(np.float64),
        f"{name}_counts": memory.get(f"{name}_counts", 0) + counts,
    }
