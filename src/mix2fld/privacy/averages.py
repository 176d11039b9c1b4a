"""Membership in averages: are sums and a scatter likelier with a candidate in them or without?

Samples of a label are taken as Gaussian, with public means and one public covariance. No training.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.privacy.box import Candidates
from mix2fld.privacy.rates import Scores
from mix2fld.privacy.residual import Prior

Floats = NDArray[np.floating]
LEAST_VARIANCE = 1e-6
"""Of a direction, in parts of the largest variance: in no direction are samples quite alike."""
LEAST_OF_A_MEAN = 2
"""Samples of a label, for one of them to be apart from their mean."""


class Sums(NamedTuple):
    """Sums of samples of one label each, as they arrive."""

    totals: Floats  # [g, v]
    counts: NDArray[np.integer]  # [g]
    labels: NDArray[np.integer]  # [g]
    rounding: Floats  # [g], variance of what rounding adds to each value


class Scatter(NamedTuple):
    """The scatter of samples about the means of their labels, as it arrives."""

    matrix: Floats  # [v, v]
    means: Floats  # [N_L, v]
    counts: NDArray[np.integer]  # [N_L]
    rounding: float  # variance of what rounding adds to each entry


def sum_scores(candidates: Candidates, sums: Sums, prior: Prior) -> Scores:
    """Largest log likelihood ratio over all sums of the candidate's label: [n].

    A sum of n samples has n means and n covariances; one that holds the candidate has the
    candidate, and n - 1 of both.
    """
    variances = _variances(prior)
    along, totals = candidates.values @ prior.axes, sums.totals @ prior.axes
    scores = np.full(len(candidates.labels), -np.inf)
    for total, count, label, noise in zip(
        totals, sums.counts, sums.labels, sums.rounding, strict=True
    ):
        rows = np.flatnonzero(candidates.labels == label)
        off = total - count * prior.means[label]
        without, given = count * variances + noise, (count - 1) * variances + noise
        baseline = 0.5 * (off**2 / without + np.log(without / given)).sum()
        left = off - (along[rows] - prior.means[label])
        scores[rows] = np.maximum(scores[rows], baseline - 0.5 * (left**2 / given).sum(axis=1))
    return scores


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
        room = np.log(np.maximum(1 - taken, 0))
    scores: Scores = 0.5 * ((freedom - len(kept) - 2) * room + usual)
    return np.where(counts[candidates.labels] >= LEAST_OF_A_MEAN, scores, 0.0)


def _variances(prior: Prior) -> Floats:
    least: Floats = np.maximum(prior.variances, LEAST_VARIANCE * prior.variances.max())
    return least
