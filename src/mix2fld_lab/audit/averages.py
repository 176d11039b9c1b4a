"""Attacks on averages without noise: statistics of a device, and means of ten samples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mix2fld.codecs.weights import FULL_PRECISION
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.class_statistics import square
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.features import fixed_features
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Statistics
from mix2fld_lab.attacks.averages import (
    Floats,
    Population,
    Scatter,
    Sums,
    fit_populations,
    scatter_scores,
    sum_scores,
)
from mix2fld_lab.attacks.rates import FALSE_POSITIVES, Scores
from mix2fld_lab.attacks.residual import Prior, fit_prior
from mix2fld_lab.attacks.unmixing import Candidates
from mix2fld_lab.audit.ground import Ground, Rows
from mix2fld_lab.audit.seeds import Scored, rates_at, strangers
from mix2fld_lab.audit.separators import PUBLIC_AT_MOST

TEN = 10
PIXEL_STEPS = 255
HALF = 0.501
"""Of a step: what rounding changes at most, and a little for single precision."""
Attack = Callable[[Candidates], Scores]
"""From what is held of a device: how likely each candidate is part of it."""


def attack_device_statistics(ground: Ground, seed: int, devices: Sequence[int]) -> dict[str, Any]:
    """Membership in the statistics that a device uploads without noise."""
    learning = make_learning(
        ground.config.at("statistics", seed),
        ground.dataset.samples,
        Classification(ground.dataset.num_labels),
    )
    features = fixed_features(learning)

    def measured(rows: Rows) -> Candidates:
        values = features.measure(ground.dataset.train_inputs[rows]).astype(np.float32)
        return Candidates(values, ground.dataset.train_labels[rows])

    def upload(rows: Rows) -> Attack:
        arrived = _arrived(learning, ground, rows)
        return lambda candidates: _statistics_scores(candidates, arrived, learning, known)

    public, labels = measured(ground.public[:PUBLIC_AT_MOST]), ground.dataset.num_labels
    known = fit_populations(public, labels), fit_prior(public, labels)
    return _membership(ground, seed, devices, measured, upload)


def attack_means_of_ten(ground: Ground, seed: int, devices: Sequence[int]) -> dict[str, Any]:
    """Membership in the means of ten samples of one label, which no protocol here uploads."""
    public = ground.candidates(ground.public[:PUBLIC_AT_MOST])
    populations = fit_populations(public, ground.dataset.num_labels)

    def upload(rows: Rows) -> Attack:
        sums = _means_of_ten(ground.candidates(rows))
        return lambda candidates: sum_scores(candidates, sums, populations)

    return _membership(ground, seed, devices, ground.candidates, upload)


def _membership(
    ground: Ground,
    seed: int,
    devices: Sequence[int],
    candidates: Callable[[Rows], Candidates],
    upload: Callable[[Rows], Attack],
) -> dict[str, Any]:
    """True-positive rates, with null experiments; every sample of a device is a member."""
    found = []
    for device in devices:
        own = ground.parts(seed)[device]
        groups = candidates(own), candidates(ground.outsiders_like(own))
        its, outsiders = (upload(own)(group) for group in groups)
        others = [upload(held) for held in strangers(ground, own, seed, device)]
        null_its, null_outsiders = (
            np.concatenate([attack(group) for attack in others]) for group in groups
        )
        found.append(Scored([its], [outsiders], [null_its], [null_outsiders], []))
    return {f"{rate:g}": rates_at(rate, found) for rate in FALSE_POSITIVES}


def _arrived(learning: Learning, ground: Ground, rows: Rows) -> Statistics:
    """The statistics of these samples, through the bytes that cross the link."""
    once = get_protocol("statistics").statistics
    assert once is not None
    inputs, labels = ground.dataset.train_inputs[rows], ground.dataset.train_labels[rows]
    made = once.collect(np.random.default_rng(0), inputs, labels, learning)
    payload = once.payload(learning)
    arrived: Statistics = payload.decode(payload.encode(made, learning.dims).data, learning.dims)
    return arrived


def _statistics_scores(
    candidates: Candidates,
    arrived: Statistics,
    learning: Learning,
    known: tuple[Sequence[Population], Prior],
) -> Scores:
    """Sums and scatter taken as independent."""
    bits = learning.config.statistics.statistics_bits
    counts = np.rint(arrived.counts).astype(np.int64)
    held = np.flatnonzero(counts)
    of_sums = _rounding(arrived.sums, bits)
    sums = Sums(arrived.sums[held], counts[held], held, np.full(len(held), of_sums))
    means = arrived.sums / np.maximum(counts, 1)[:, None]
    scatter = Scatter(
        square(arrived.scatter.astype(np.float64)), means, counts, _rounding(arrived.scatter, bits)
    )
    populations, prior = known
    by_scatter = scatter_scores(candidates, scatter, prior)
    return sum_scores(candidates, sums, populations) + by_scatter


def _rounding(values: Floats, bits: int) -> float:
    """Variance of rounding to even steps between the smallest and the largest value."""
    if bits == FULL_PRECISION:
        return 0.0
    return float((values.max() - values.min()) / (2**bits - 1)) ** 2 / 12


def _means_of_ten(own: Candidates) -> Sums:
    """Means of ten samples of a label in 8 bits a value, the last the remainder, as sums."""
    totals, counts, labels = [], [], []
    for label in np.unique(own.labels):
        values = own.values[own.labels == label]
        for begin in range(0, len(values), TEN):
            some = values[begin : begin + TEN]
            mean = np.rint(some.mean(axis=0) * PIXEL_STEPS) / PIXEL_STEPS
            totals.append(len(some) * mean)
            counts.append(len(some))
            labels.append(int(label))
    step = np.array(counts) / PIXEL_STEPS
    held = np.stack(totals), np.array(counts), np.array(labels)
    return Sums(*held, rounding=step**2 / 12, half_steps=HALF * step)
