"""Ideas for a privacy budget: what conversions keep, and the page that is made of the record."""

from functools import partial

import numpy as np
import pytest
from benchmarks import private_conversions as ways
from benchmarks.private_ideas import page, recorded
from benchmarks.private_trials import IDEAS, ROWS, Case, cases, idea_of

from mix2fld.tasks.class_statistics import upper_triangle
from mix2fld.tasks.private_statistics import COUNT_WEIGHT, Bounds, means_of, shrunk_means
from places import ROOT

BOUNDS = Bounds(3.0, 1.0, nonnegative=True)
SAMPLES, FEATURES = 1000, 6


def known(deviation: float, kind: str = "samples") -> ways.Known:
    return ways.Known(kind, SAMPLES, deviation, BOUNDS, np.diag(np.arange(1.0, FEATURES + 1)))


def sums_of(means: np.ndarray, deviation: float, seed: int = 0) -> np.ndarray:
    """Class sums of ten labels with a hundred samples each, with noise."""
    counts = np.full((len(means), 1), SAMPLES / len(means))
    sums = np.concatenate([counts * means, COUNT_WEIGHT * BOUNDS.longest * counts], axis=1)
    noise = np.random.default_rng(seed).normal(size=sums.shape)
    return np.asarray(sums + deviation * noise)


def test_the_page_is_made_of_the_record() -> None:
    assert (ROOT / "docs" / "private_ideas.md").read_text(encoding="utf-8") == page(recorded())


def test_every_recorded_trial_is_one_that_is_run() -> None:
    assert recorded().keys() <= set(cases())
    for local, summed in ROWS.items():
        for row in (local, summed):
            assert idea_of(Case(row, "variances alone", 8.0, 0)) is IDEAS[local]["variances alone"]


def test_means_without_noise_are_not_shrunk() -> None:
    means = np.random.default_rng(1).normal(size=(10, FEATURES))
    found = shrunk_means(sums_of(means, 0.0), SAMPLES, BOUNDS, 0.0)
    np.testing.assert_allclose(found, means, atol=1e-9)
    alike = np.ones((10, FEATURES))  # no variance at all
    np.testing.assert_allclose(shrunk_means(sums_of(alike, 0.0), SAMPLES, BOUNDS, 0.0), alike)


def test_shrunk_means_are_nearer_to_the_true_ones() -> None:
    rng, deviation, errors = np.random.default_rng(2), 40.0, []
    for seed in range(20):
        means = rng.normal(size=(10, FEATURES)) * np.array([1, 1, 0.3, 0.3, 0.01, 0.01])
        sums = sums_of(means, deviation, seed)
        shrunk = shrunk_means(sums, SAMPLES, BOUNDS, deviation)
        errors.append(
            [((each - means) ** 2).sum() for each in (shrunk, means_of(sums, SAMPLES, BOUNDS))]
        )
    shrunk_error, plain_error = np.mean(errors, axis=0)
    assert shrunk_error < 0.8 * plain_error


@pytest.mark.parametrize("basis", ["lowest frequencies", "public", "random"])
def test_directions_are_orthonormal(basis: str) -> None:
    """So no feature vector becomes longer, and the sensitivity stays."""
    lowest = np.eye(12)[:5]
    public = np.random.default_rng(3).normal(size=(50, 12)) * np.arange(1, 13)
    found = ways.directions(basis, lowest, public, 0)
    np.testing.assert_allclose(found @ found.T, np.eye(5), atol=1e-9)
    assert basis != "public" or np.var(public @ found.T) > np.var(public[:, :5])


@pytest.mark.parametrize(
    "find", [ways.plain_covariance, ways.optimal_covariance, ways.blended_covariance]
)
def test_covariances_without_noise_are_the_true_one(find: ways.Covariance) -> None:
    true = np.diag([3.0, 2, 1, 0.5, 0.2, 0.1]) + 0.05
    found = find(upper_triangle(SAMPLES * true), known(0.0))
    np.testing.assert_allclose(found, true, atol=1e-9)


def test_the_public_covariance_counts_by_the_noise() -> None:
    true = np.diag(np.arange(FEATURES, 0.0, -1))
    exact, far = upper_triangle(SAMPLES * true), partial(np.linalg.norm, ord="fro")
    some, much = (ways.blended_covariance(exact, known(d, "model")) for d in (1.0, 1e5))
    prior = ways.public_covariance(exact, known(1.0))
    assert far(some - true) < 0.1 * far(some - prior)
    assert far(much - prior) < 0.1 * far(much - true)


def test_groups_and_shifts_keep_labels_and_sizes() -> None:
    rng = np.random.default_rng(4)
    images = np.zeros((6, 8, 8, 1))
    images[:3, 6, 6], images[3:, 6, 1] = 1.0, 1.0  # on either diagonal
    labels = np.array([0, 1, 2, 0, 1, 2])
    groups = ways.by_slant(images, labels, 3)
    np.testing.assert_array_equal(groups % 3, labels)
    np.testing.assert_array_equal(groups // 3, [1, 1, 1, 0, 0, 0])
    images[:, 3, 3] = 1.0
    moved = ways.shifted(rng, images)
    assert moved.shape == images.shape
    assert (moved.sum(axis=(1, 2, 3)) >= 1).all()  # the middle stays inside
    assert not np.array_equal(moved, images)
    assert ways.stay(rng, images) is images
