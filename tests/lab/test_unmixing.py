"""Mixes taken apart without a network: links, intervals and linear equations against oracles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mix2fld_lab.attacks.unmixing import (
    Candidates,
    Mixes,
    class_means,
    dominants,
    link_dominants,
    minors,
)
from mix2fld_lab.audit.recurring import determined
from toys import examples

ROUNDING = 0.5001 / 255


def mixes_of(samples: np.ndarray, pairs: np.ndarray, labels: np.ndarray, ratio: float) -> Mixes:
    codes = np.rint(255 * (ratio * samples[pairs[:, 0]] + (1 - ratio) * samples[pairs[:, 1]]))
    values = (codes / 255).astype(np.float32)
    return Mixes(values, labels[pairs], (ratio, 1 - ratio), ROUNDING)


def images(rng: np.random.Generator, count: int) -> np.ndarray:
    """Mostly black, some white, whole 8-bit values."""
    values = rng.integers(0, 256, (count, 60)) / 255
    values[rng.random(values.shape) < 0.6] = 0
    return values


def test_mixes_that_share_their_dominant_sample_are_linked_and_no_others() -> None:
    rng = np.random.default_rng(0)
    samples, labels = images(rng, 8), np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32)
    pairs = np.array([[0, 4], [1, 4], [2, 5], [3, 4], [1, 6], [4, 0]])
    for ratio in (0.1, 0.3):
        groups = link_dominants(mixes_of(samples, pairs, labels, ratio))
        assert (groups == groups[0]).tolist() == [True, True, False, True, False, False]
        assert len(np.unique(groups)) == 4


def test_several_mixes_of_a_sample_give_it_away_better_than_one() -> None:
    rng = np.random.default_rng(1)
    samples, labels = images(rng, 12), np.array([0] * 6 + [1] * 6, np.int32)
    pairs = np.array([[0, 6], [1, 6], [2, 6], [3, 6]])
    mixes = mixes_of(samples, pairs, labels, 0.4)
    means = class_means(Candidates(samples.astype(np.float32), labels), 3)
    np.testing.assert_allclose(means[2], samples.mean(axis=0), atol=1e-6)
    together = dominants(mixes, link_dominants(mixes), means)
    alone = dominants(mixes, np.arange(4), means)
    errors = [np.abs(found - samples[6]).mean() for found in (together, alone)]
    assert errors[0] < 0.5 * errors[1]
    left = minors(mixes, np.tile(samples[6], (4, 1)).astype(np.float32))
    np.testing.assert_allclose(left, samples[:4], atol=0.5 / 255 / 0.4 + 1e-4)


@examples(50)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.3, 0.49]))
def test_estimates_stay_within_what_every_mix_allows(seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    samples, labels = images(rng, 6), np.array([0, 0, 0, 1, 1, 1], np.int32)
    pairs = np.array([[0, 3], [1, 3], [2, 4], [0, 5]])
    mixes = mixes_of(samples, pairs, labels, ratio)
    means = class_means(Candidates(samples.astype(np.float32), labels), 2)
    found = dominants(mixes, link_dominants(mixes), means)
    rest = mixes.values - np.float32(1 - ratio) * found
    assert rest.min() > -2 * ROUNDING
    assert (rest / ratio).max() < 1 + 4 * ROUNDING / ratio


def test_constituents_are_determined_where_there_are_as_many_mixes_as_samples() -> None:
    ratios = (0.3, 0.7)
    assert not determined(np.array([[0, 1]]), ratios).any()
    assert determined(np.array([[0, 1], [1, 0]]), ratios).all()
    assert determined(np.array([[0, 1], [1, 2], [2, 0]]), ratios).all()
    assert not determined(np.array([[0, 1], [1, 2], [2, 3]]), ratios).any()
    with_a_cycle = np.array([[10, 11], [11, 10], [12, 11], [13, 14]])
    assert determined(with_a_cycle, ratios).tolist() == [True, True, True, False, False]
