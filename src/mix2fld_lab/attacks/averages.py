"""Membership in averages: are sums and a scatter likelier with a candidate in them or without?

All that the attacker knows of samples is the mean and the covariance of public ones. No training.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld_lab.attacks.box import violations
from mix2fld_lab.attacks.rates import Scores
from mix2fld_lab.attacks.residual import Prior
from mix2fld_lab.attacks.unmixing import Candidates

Floats = NDArray[np.floating]
LEAST_VARIANCE = 1e-6
"""Of a direction, in parts of the largest variance: in no direction are samples quite alike."""
LEAST_OF_A_MEAN = 2
"""Samples of a label, for one of them to be apart from their mean."""
RIDGE = 0.005
"""Added to the covariance of a label, in parts of its mean variance: what a few public samples have
in common with a candidate, such as ink in a corner, must not decide."""


class Sums(NamedTuple):
    """Sums of samples of one label each, as they arrive."""

    totals: Floats  # [g, v]
    counts: NDArray[np.integer]  # [g]
    labels: NDArray[np.integer]  # [g]
    rounding: Floats  # [g], variance of what rounding adds to each value
    half_steps: Floats | None = None  # [g], of rounding, if samples are within [0, 1]


class Population(NamedTuple):
    """Public samples of one label."""

    mean: Floats  # [v]
    covariance: Floats  # [v, v]
    detector: Floats  # [v, v], the inverse covariance


class Scatter(NamedTuple):
    """The scatter of samples about the means of their labels, as it arrives."""

    matrix: Floats  # [v, v]
    means: Floats  # [N_L, v]
    counts: NDArray[np.integer]  # [N_L]
    rounding: float  # variance of what rounding adds to each entry


def fit_populations(public: Candidates, num_labels: int) -> list[Population]:
    """Mean and covariance of every label; of all samples where a label has less than two."""
    found = []
    for label in range(num_labels):
        own = public.labels == label
        values = public.values[own] if own.sum() >= LEAST_OF_A_MEAN else public.values
        covariance = np.cov(values.T, dtype=np.float64).reshape(2 * (values.shape[1],))
        ridge = max(RIDGE * float(covariance.trace()) / len(covariance), LEAST_VARIANCE)
        detector = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
        single = (part.astype(np.float32) for part in (values.mean(axis=0), covariance, detector))
        found.append(Population(*single))
    return found


def sum_scores(candidates: Candidates, sums: Sums, populations: Sequence[Population]) -> Scores:
    """Largest log likelihood ratio over all sums of the candidate's label: [n].

    A sum is looked at along the direction in which the candidate moves it most, measured by the
    covariance of its label: there it is Gaussian, with the candidate and without. A candidate that
    leaves something outside of the range of the other samples is impossible.
    """
    scores = np.full(len(candidates.labels), -np.inf)
    for label in np.unique(sums.labels):
        rows = np.flatnonzero(candidates.labels == label)
        its = np.flatnonzero(sums.labels == label)
        ratios = _ratios(candidates.values[rows], sums, its, populations[label])
        scores[rows] = ratios.max(axis=1)
    return scores


def _ratios(values: Floats, sums: Sums, its: NDArray[np.integer], population: Population) -> Scores:
    """Log likelihood ratio of each candidate and each of some sums, all of one label: [n, g]."""
    off = values - population.mean
    along = off @ population.detector
    variance = ((along @ population.covariance) * along).sum(axis=1, keepdims=True)
    length = (along**2).sum(axis=1, keepdims=True)
    counts, noise = sums.counts[its], length * sums.rounding[its]
    seen = along @ (sums.totals[its] - counts[:, None] * population.mean).T
    left = seen - (along * off).sum(axis=1, keepdims=True)
    without, given = counts * variance + noise, (counts - 1) * variance + noise
    without, given = np.maximum(without, LEAST_VARIANCE), np.maximum(given, LEAST_VARIANCE)
    ratios = 0.5 * (seen**2 / without - left**2 / given + np.log(without / given))
    if sums.half_steps is None:
        return ratios
    beyond = [
        violations(values, sums.totals[g] / n, 1 / n, sums.half_steps[g] / n)
        for g, n in zip(its, counts, strict=True)
    ]
    return np.where(np.stack(beyond, axis=1) > 0, -np.inf, ratios)


def scatter_scores(candidates: Candidates, scatter: Scatter, prior: Prior) -> Scores:
    """Log likelihood ratio of a Wishart scatter with the candidate and without: [n].

    If r is a candidate's distance from the mean of its n, the scatter without it is smaller by
    n / (n - 1) r rᵀ. Directions that rounding drowns are left out; a candidate that the scatter
    has no room for is impossible.
    """
    counts = scatter.counts
    freedom = int(counts.sum() - (counts > 0).sum())
    edge = 2 * np.sqrt(len(scatter.matrix) * scatter.rounding)
    variances = _variances(prior)
    kept = np.argsort(-variances)[: max(0, freedom - 3)]
    kept = kept[freedom * variances[kept] > edge]
    axes = prior.axes[:, kept].astype(np.float64)
    inverse = np.linalg.pinv(axes.T @ scatter.matrix @ axes, hermitian=True)
    shares = counts / np.maximum(counts - 1, 1)
    rest = (candidates.values - scatter.means[candidates.labels]) @ axes
    weight = shares[candidates.labels]
    taken = weight * np.einsum("nj,jk,nk->n", rest, inverse, rest)
    usual = weight * (rest**2 / variances[kept]).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_rest = np.log(np.maximum(1 - taken, 0))
    scores: Scores = 0.5 * ((freedom - len(kept) - 2) * log_rest + usual)
    return np.where(counts[candidates.labels] >= LEAST_OF_A_MEAN, scores, 0.0)


def _variances(prior: Prior) -> Floats:
    least: Floats = np.maximum(prior.variances, LEAST_VARIANCE * prior.variances.max())
    return least
