"""Membership by residual, for samples that leave the box test little to hold on to.

The box test lives from values at the ends of their range. Where there are few, what a candidate
leaves of a mix can still be more or less likely as a sample of the other label: all samples are
taken as Gaussian with the means of their labels and one covariance, both from public samples.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld_lab.attacks.box import violations
from mix2fld_lab.attacks.rates import Scores
from mix2fld_lab.attacks.unmixing import Candidates, Floats, Mixes

MOST_SAMPLES = 10_000


class Prior(NamedTuple):
    """Public samples as Gaussians, in the directions in which their covariance is diagonal."""

    axes: NDArray[np.float32]  # [v, v], columns
    variances: NDArray[np.float64]  # [v], within a label
    means: NDArray[np.float64]  # [N_L, v], along the axes


def fit_prior(public: Candidates, num_labels: int) -> Prior:
    """Means of labels and the covariance within them."""
    values, labels = public.values[:MOST_SAMPLES], public.labels[:MOST_SAMPLES]
    means = np.stack([_mean(values, labels == label) for label in range(num_labels)])
    off = values - means[labels]
    covariance = off.T @ off / len(off)
    variances, axes = np.linalg.eigh(covariance.astype(np.float64))
    along = axes.astype(np.float32)
    return Prior(along, np.maximum(variances, 0), (means @ along).astype(np.float64))


def residual_scores(candidates: Candidates, mixes: Mixes, prior: Prior, part: int) -> Scores:
    """Largest log likelihood ratio over all mixes of two that name the candidate's label: [n].

    Is the mix likelier with this candidate as its ``part``, or with any sample of that label? What
    the box rules out counts against it by the scale of rounding.
    """
    weight, rest = mixes.ratios[part], mixes.ratios[1 - part]
    noise = max(mixes.rounding, 1e-4) ** 2 / 3  # of uniform rounding
    without = (weight**2 + rest**2) * prior.variances + noise
    given = rest**2 * prior.variances + noise
    constant = 0.5 * np.log(without / given).sum()
    along = candidates.values @ prior.axes
    seen = mixes.values @ prior.axes
    scores = np.full(len(candidates.labels), -np.inf)
    for number, labels in enumerate(mixes.labels):
        rows = np.flatnonzero(candidates.labels == labels[part])
        other = seen[number] - rest * prior.means[labels[1 - part]]
        expected = other - weight * prior.means[labels[part]]
        baseline = 0.5 * (expected**2 / without).sum() + constant
        ratio = baseline - 0.5 * (((other - weight * along[rows]) ** 2) / given).sum(axis=1)
        impossible = violations(
            candidates.values[rows], mixes.values[number], weight, mixes.rounding
        )
        scores[rows] = np.maximum(scores[rows], ratio - impossible / (2 * noise))
    return scores


def _mean(values: Floats, rows: NDArray[np.bool_]) -> NDArray[np.float32]:
    return values[rows].mean(axis=0) if rows.any() else values.mean(axis=0)
