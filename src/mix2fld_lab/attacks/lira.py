"""The likelihood-ratio attack (LiRA): is what was uploaded likelier with the sample or without?

Shadow models are trained like the device, each on a known part of the candidates. For every
candidate the statistic of the models that saw it, and of those that did not, is taken as Gaussian.
Carlini et al., Membership inference attacks from first principles, 2022.
"""

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld_lab.attacks.rates import Scores

LEAST_SHADOWS = 16
LEAST_SEEN = 2
SMALLEST_VARIANCE = 1e-9
SHARED_BY_ALL = 16
"""Models that the covariance of a whole group counts as, for each statistic."""


def margin(logits: NDArray[np.floating], labels: NDArray[np.int32]) -> Scores:
    """The logit of the probability of the true label, for outputs [..., n, N_L]: [..., n]."""
    outputs = logits.astype(np.float64)
    chosen = labels.reshape((1,) * (outputs.ndim - 2) + (-1, 1))
    true = np.take_along_axis(outputs, np.broadcast_to(chosen, (*outputs.shape[:-1], 1)), -1)[
        ..., 0
    ]
    others = outputs.copy()
    np.put_along_axis(others, np.broadcast_to(chosen, (*outputs.shape[:-1], 1)), -np.inf, -1)
    largest = others.max(axis=-1)
    rest = np.log(np.exp(others - largest[..., None]).sum(axis=-1)) + largest
    return true - rest


def likelihood_ratios(
    target: Scores, shadows: Scores, saw: NDArray[np.bool_], groups: NDArray[np.integer]
) -> Scores:
    """Log likelihood ratio of each candidate, from the statistics of one target model.

    ``target`` [n, k] and ``shadows`` [s, n, k] are k statistics of every candidate under each
    model; ``saw`` [s, n] says whether shadow model s was trained on candidate n. Means are those of
    the candidate; a few dozen models are too few for a covariance [k, k] of its own, so that of all
    candidates of the same one of ``groups`` [n] counts as SHARED_BY_ALL models for each statistic.
    """
    _check_seen(saw)
    ratios = np.zeros(len(target))
    for seen, sign in ((saw, 1.0), (~saw, -1.0)):
        mean = _mean_of(shadows, seen)
        covariance = _covariances(shadows - mean, seen, groups)
        away = target - mean
        distance = np.einsum("nj,njk,nk->n", away, np.linalg.inv(covariance), away)
        ratios += sign * -0.5 * (distance + np.linalg.slogdet(covariance)[1])
    return ratios


def group_ratios(
    target: Scores, shadows: Scores, saw: NDArray[np.bool_], groups: NDArray[np.integer]
) -> Scores:
    """The same where all candidates of a group have one statistic, as a row of mean outputs.

    What a candidate of a large group moves it by is small beside the error of its estimate, which
    would decide the threshold for all. So the differences of means are shrunk by the part that this
    error explains in the whole group: one that tells nothing scores zero. Models that saw a
    candidate and others have the same covariance here.
    """
    _check_seen(saw)
    means = _mean_of(shadows, saw), _mean_of(shadows, ~saw)
    apart, middle = means[0] - means[1], (means[0] + means[1]) / 2
    off = shadows - np.where(saw[..., None], *means)
    error = 1 / saw.sum(axis=0) + 1 / (~saw).sum(axis=0)
    ratios, count = np.zeros(len(target)), target.shape[1]
    for group in np.unique(groups):
        its = groups == group
        squares = np.einsum("snj,snk->jk", off[:, its], off[:, its])
        covariance = squares / (its.sum() * (len(saw) - 2)) + SMALLEST_VARIANCE * np.eye(count)
        weighed = apart[its] @ np.linalg.inv(covariance)
        found = max(float((weighed * apart[its]).sum()), SMALLEST_VARIANCE)
        kept = max(0.0, 1 - count * float(error[its].sum()) / found)
        ratios[its] = kept * (weighed * (target - middle)[its]).sum(axis=1)
    return ratios


def _check_seen(saw: NDArray[np.bool_]) -> None:
    if min(saw.sum(axis=0).min(), (~saw).sum(axis=0).min()) < LEAST_SEEN:
        raise InputError(
            field="shadows",
            value=len(saw),
            hint=f"some candidate was seen by too many or too few of the shadow "
            f"models; must be at least {LEAST_SHADOWS}, better 64",
        )


def _mean_of(shadows: Scores, seen: NDArray[np.bool_]) -> Scores:
    """Of the models that saw a candidate: [n, k]."""
    mean: Scores = np.where(seen[..., None], shadows, 0).sum(axis=0) / seen.sum(axis=0)[:, None]
    return mean


def _covariances(
    off: Scores, seen: NDArray[np.bool_], groups: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Of every candidate, from its own models and from those of its group: [n, k, k]."""
    counted = np.where(seen[..., None], off, 0)
    own = np.einsum("snj,snk->njk", counted, counted)
    freedom = seen.sum(axis=0) - 1
    shared = np.empty_like(own)
    for group in np.unique(groups):
        its = groups == group
        shared[its] = own[its].sum(axis=0) / freedom[its].sum()
    count = own.shape[-1]
    weight = SHARED_BY_ALL * count
    smallest = SMALLEST_VARIANCE * np.eye(count)
    return (own + weight * shared) / (freedom + weight)[:, None, None] + smallest
