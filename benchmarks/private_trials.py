"""Trials of ideas for statistics and generated seeds within a privacy budget.

A trial takes what all devices hold together, with the noise that they would add; values are not
rounded as they are on the link.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import mix2fld
from benchmarks import private_conversions as ways
from benchmarks.private_conversions import Covariance, Known, Labels, Means, Move
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, load_dataset
from mix2fld.data.measured import measured_samples
from mix2fld.protocols.private import GENERATED, root_of, train_student
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.tasks.class_statistics import upper_triangle
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.edges import Floats
from mix2fld.tasks.features import Features, clip_norms
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.private_statistics import (
    MeasuredFeatures,
    bounds_of,
    class_sums,
    deviations,
    network_of,
)
from mix2fld.tasks.sample_features import FEATURE_KINDS, samples_of
from mix2fld.types import Dataset, Inputs, Tensors

SETTINGS: dict[str, Any] = {
    "link": "ideal",
    "rounds": 5,
    "local_steps": 1600,
    "curve_points": 1,
    "measured_on": "validation",
    "test_samples": 5000,
}
SEEDS = (100, 101)
"""Not among those that are reported on the test set."""
EPSILONS = (8.0, 4.0, 2.0, 1.0)
ROWS = {"dp-seeds": "dp-seeds-sum", "dp-statistics": "dp-sum"}
"""Those with local noise, and those with a trusted sum beside them."""
PUBLIC_DATASET, PUBLIC_SAMPLES = "fashion-mnist", 3000
WHOLE_SIDE = 14
"""The feature side at which no frequency of 28 x 28 pixels is left out."""
LOWEST = "lowest frequencies"


class Idea(NamedTuple):
    """How one trial differs from the starting point."""

    settings: Mapping[str, Any] = MappingProxyType({})
    basis: str = LOWEST
    means: Means = ways.plain_means
    covariance: Covariance = ways.plain_covariance
    move: Move = ways.stay
    slants: bool = False
    """Two means for each label."""
    by_label: bool = False
    """A covariance for each label."""


BASE = "starting point"
SHARED: dict[str, Idea] = {
    BASE: Idea(),
    "k = 4": Idea({"feature_side": 4}),
    "k = 3": Idea({"feature_side": 3}),
    "share of the sums 0.2": Idea({"sums_budget": 0.2}),
    "share of the sums 0.7": Idea({"sums_budget": 0.7}),
    "means shrunk by their noise": Idea(means=ways.shrunk_means),
    "optimal eigenvalues": Idea(covariance=ways.optimal_covariance),
    "variances alone": Idea(covariance=ways.diagonal_covariance),
    "public covariance": Idea(covariance=ways.public_covariance),
    "public and private covariance": Idea(covariance=ways.blended_covariance),
    "public principal directions": Idea(basis="public"),
    "random directions": Idea(basis="random"),
}
EDGES, LONGER = {"initial_weights": "edges"}, {"server_steps": 12_800}
MORE_FOR_SUMS = {"sums_budget": 0.7}
TOGETHER = Idea({**EDGES, **LONGER}, means=ways.shrunk_means, move=ways.shifted)
IDEAS: dict[str, dict[str, Idea]] = {
    "dp-statistics": {
        **SHARED,
        "share 0.7, shrunk means": Idea(MORE_FOR_SUMS, means=ways.shrunk_means),
    },
    "dp-seeds": {
        **SHARED,
        "a covariance for each label": Idea(by_label=True),
        "two means for each label": Idea(slants=True),
        "generated images shifted": Idea(move=ways.shifted),
        "four times the server's steps": Idea(LONGER),
        "server begins with edges": Idea(EDGES),
        "edges, shifts, steps and shrunk means": TOGETHER,
        "edges, share 0.7, shrunk means": Idea({**EDGES, **MORE_FOR_SUMS}, means=ways.shrunk_means),
    },
}
"""By the row with local noise, and by the words of the page."""
WITH_DEVICES = (
    BASE,
    "k = 4",
    "means shrunk by their noise",
    "server begins with edges",
    "share 0.7, shrunk means",
    "edges, share 0.7, shrunk means",
)
"""Ideas whose model devices begin with too, in the runs of the first seed."""


class Case(NamedTuple):
    """One trial."""

    row: str
    idea: str
    epsilon: float
    seed: int


class Held(NamedTuple):
    """All samples of all devices and public ones, in all frequencies; and how models are tested."""

    inputs: Inputs
    labels: Labels
    whole: Features
    values: Floats  # [n, F]
    public: Floats
    public_labels: Labels
    test: tuple[Inputs, Labels]


def cases() -> Iterator[Case]:
    """Seed by seed, starting points first."""
    for seed, (local, summed) in product(SEEDS, ROWS.items()):
        for idea, row, epsilon in product(IDEAS[local], (local, summed), EPSILONS):
            yield Case(row, idea, epsilon, seed)


def idea_of(case: Case) -> Idea:
    """What a case tries."""
    local = {summed: local for local, summed in ROWS.items()}.get(case.row, case.row)
    return IDEAS[local][case.idea]


def learning_of(case: Case, dataset: Dataset, **changes: Any) -> Learning:
    """The run that a case belongs to."""
    given = {"protocol": case.row, "seed": case.seed, "epsilon": case.epsilon}
    config = Config.of(**SETTINGS).replace(**{**given, **idea_of(case).settings, **changes})
    return make_learning(config, dataset.samples, Classification(dataset.num_labels))


def kind_of(row: str) -> str:
    """What a row takes statistics of."""
    return "samples" if row.startswith("dp-seeds") else "model"


@lru_cache(maxsize=2)
def held_by(seed: int, kind: str) -> Held:
    """Measured once for all trials of a seed."""
    dataset = load_dataset(Config().data)
    known = load_dataset(Config.of(dataset=PUBLIC_DATASET).data)
    row = "dp-seeds" if kind == "samples" else "dp-statistics"
    learning = learning_of(Case(row, BASE, 8.0, seed), dataset, feature_side=WHOLE_SIDE)
    rows = np.concatenate(device_parts(dataset, learning.config))
    whole = FEATURE_KINDS[kind].make(learning)
    inputs, labels = dataset.train_inputs[rows], dataset.train_labels[rows]
    public, public_labels = (
        known.train_inputs[:PUBLIC_SAMPLES],
        known.train_labels[:PUBLIC_SAMPLES],
    )
    test = measured_samples(dataset, learning.config)
    found = whole.measure(inputs), whole.measure(public)
    return Held(inputs, labels, whole, *found, public_labels, test)


def server_model(case: Case, dataset: Dataset) -> tuple[Learning, Tensors]:
    """What the server makes of the noisy statistics of all devices."""
    idea, kind, learning = idea_of(case), kind_of(case.row), learning_of(case, dataset)
    held, lowest = held_by(case.seed, kind), FEATURE_KINDS[kind].make(learning)
    chosen = ways.directions(
        idea.basis, lowest.projection @ held.whole.projection.T, held.public, case.seed
    )
    features = replace(lowest, projection=chosen @ held.whole.projection)
    rng = stream(case.seed, "ideas-noise", round(1000 * case.epsilon))
    means, covariances = noisy_statistics(case, learning, chosen, rng)
    if kind == "model":
        return learning, network_of(features, means, covariances[0])
    labels = np.arange(len(means)).repeat(GENERATED * learning.dims.num_labels // len(means))
    roots = [root_of(each) for each in covariances]
    drawn = [
        means[group] + rng.normal(size=(count, means.shape[1])) @ roots[group % len(roots)]
        for group, count in enumerate(np.bincount(labels))
    ]
    images = samples_of(features, np.concatenate(drawn), learning.dims)
    inputs = idea.move(rng, images)
    every = labels % learning.dims.num_labels
    return learning, train_student(learning.common_weights, inputs, every, learning, rng, 2)


def noisy_statistics(
    case: Case, learning: Learning, chosen: Floats, rng: np.random.Generator
) -> tuple[Floats, list[Floats]]:
    """Means of each group and covariances, from sums and scatters with noise."""
    idea, kind = idea_of(case), kind_of(case.row)
    held, bounds = held_by(case.seed, kind), bounds_of(learning, kind)
    summed = case.row in ROWS.values()
    noise = deviations(learning, kind, on_grid=summed)
    times = 1.0 if summed else float(np.sqrt(learning.config.data.devices))
    labels, groups = held.labels, learning.dims.num_labels
    if idea.slants:
        labels, groups = ways.by_slant(held.inputs, labels, groups), 2 * groups
    values = clip_norms(held.values @ chosen.T, bounds.longest)
    public = _within(held.public @ chosen.T, held.public_labels)
    known = partial(Known, kind, len(labels), bounds=bounds, public=public)
    sums = class_sums(MeasuredFeatures(values, labels.astype(np.int32), bounds, noise), groups)
    sums = sums + times * noise.sums * rng.normal(size=sums.shape)
    means = idea.means(sums, known(times * noise.sums))
    rest = clip_norms(values - means[labels], bounds.residual)
    parts = [rest[labels == label] for label in range(groups)] if idea.by_label else [rest]
    found = []
    for part in parts:
        scatter = upper_triangle(part.T @ part)
        noisy = scatter + times * noise.scatter * rng.normal(size=scatter.shape)
        about = known(times * noise.scatter)
        found.append(idea.covariance(noisy, about._replace(samples=len(labels) // len(parts))))
    return means, found


def _within(values: Floats, labels: Labels) -> Floats:
    """The covariance within labels."""
    means = np.stack([values[labels == label].mean(axis=0) for label in np.unique(labels)])
    rest = values - means[np.unique(labels, return_inverse=True)[1]]
    return rest.T @ rest / len(rest)


def measure(case: Case, dataset: Dataset, *, with_devices: bool) -> dict[str, float]:
    """Accuracies on the validation split: of the server's model, and of devices that begin so."""
    learning, weights = server_model(case, dataset)
    inputs, labels = held_by(case.seed, kind_of(case.row)).test
    right = learning.stepper.logits(weights, inputs).argmax(axis=1) == labels
    found = {"server": float(right.mean())}
    if with_devices:
        found["devices"] = device_accuracy(case, dataset, learning, weights)
    return found


def device_accuracy(case: Case, dataset: Dataset, learning: Learning, weights: Tensors) -> float:
    """Of the devices of a run that begin with the server's model and train as the row does."""
    begun = replace(
        PROTOCOLS["own-statistics"],
        training=PROTOCOLS[case.row].training,
        first_model=lambda *_: weights,
    )
    PROTOCOLS["tried"] = begun
    (result,) = mix2fld.run(learning.config.replace(protocol="tried"), dataset=dataset)
    return float(result.summary["scores"]["mean"])
