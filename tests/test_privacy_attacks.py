"""Attacks against plain oracles: rates, inversion, box and residual tests, LiRA."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mix2fld.data.samples import Coding, mix
from mix2fld.errors import InputError
from mix2fld.privacy.box import Candidates, Mixes, box_scores, violations
from mix2fld.privacy.inversion import recover_uploads
from mix2fld.privacy.lira import likelihood_ratios, margin
from mix2fld.privacy.rates import Share, above, check_candidates, threshold
from mix2fld.privacy.residual import fit_prior, residual_scores
from mix2fld.server.inverse_mixup import Groups, Pool, unmix
from mix2fld.types import SampleFormat

FORMAT = SampleFormat((4, 4, 1))


@given(st.floats(0.02, 0.49), st.sampled_from([4, 8]), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_both_inverses_of_a_pair_give_the_uploads_back(ratio: float, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratios, coding = (ratio, 1 - ratio), Coding(FORMAT, bits)
    raw = rng.integers(0, 256, (6, 2, 4, 4, 1)).astype(np.uint8)
    uploads = coding.carry(mix(raw, ratios))
    pool = Pool(uploads, np.zeros((6, 2), np.int32), np.arange(6))
    groups = Groups(np.array([[0, 1], [2, 3], [4, 5]]), np.zeros((3, 2), np.int32))
    made = unmix(pool, groups, ratios, coding)
    np.testing.assert_array_equal(recover_uploads(made, ratios, coding), uploads[groups.members])


def test_the_exact_interval_is_that_of_binomial_tails() -> None:
    from scipy.stats import binom

    low, high = Share(7, 50).interval()
    assert binom.sf(6, 50, low) == pytest.approx(0.025)
    assert binom.cdf(7, 50, high) == pytest.approx(0.025)
    assert Share(0, 10).interval()[0] == 0
    assert Share(10, 10).interval()[1] == 1
    assert Share(1, 2) + Share(2, 3) == Share(3, 5)


def test_a_threshold_lets_new_outsiders_pass_at_the_stated_rate() -> None:
    rng = np.random.default_rng(0)
    passed = sum(
        (above(rng.normal(size=1000), threshold(rng.normal(size=1000), 0.01)) for _ in range(200)),
        Share(0, 0),
    )
    assert passed.rate == pytest.approx(0.01, rel=0.15)


def test_ties_with_outsiders_are_not_members() -> None:
    assert above(np.zeros(5), threshold(np.zeros(1000), 0.01)).found == 0


def test_a_rate_that_too_few_candidates_cannot_measure_is_refused() -> None:
    with pytest.raises(InputError, match=r"candidates = 500: .* 0\.1 % .* at least 1,000"):
        check_candidates(500, 0.001)
    with pytest.raises(InputError, match="candidates = 999"):
        threshold(np.zeros(999), 0.001)


def test_violations_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    candidates, one = rng.random((3, 5)).astype(np.float32), rng.random(5).astype(np.float32)
    expected = []
    for x in candidates:
        total = 0.0
        for value, mixed in zip(x, one, strict=True):
            rest = mixed - 0.3 * value
            total += max(0, -rest - 0.01, rest - 0.7 - 0.01) ** 2
        expected.append(total)
    np.testing.assert_allclose(violations(candidates, one, 0.3, 0.01), expected, rtol=1e-4)


def sparse(rng: np.random.Generator, count: int) -> np.ndarray:
    """Images of whole 8-bit values, mostly black or white."""
    values = rng.integers(0, 256, (count, 64))
    values[rng.random((count, 64)) < 0.6] = 0
    values[rng.random((count, 64)) < 0.2] = 255
    return values


def mixes_of(members: np.ndarray, others: np.ndarray, ratio: float) -> Mixes:
    codes = np.rint(ratio * members + (1 - ratio) * others)
    values = (codes / 255).astype(np.float32)
    labels = np.tile(np.array([0, 1], np.int32), (len(values), 1))
    return Mixes(values, labels, (ratio, 1 - ratio), 0.5001 / 255)


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.49])
def test_the_box_finds_members_and_no_others(ratio: float) -> None:
    rng = np.random.default_rng(2)
    members, others, outside = sparse(rng, 20), sparse(rng, 20), sparse(rng, 2000)
    mixes = mixes_of(members, others, ratio)
    for part, own in enumerate((members, others)):
        labels = np.full(len(outside), part, np.int32)
        scores = box_scores(as_candidates(outside, labels), mixes, part)
        limit = threshold(scores, 0.001)
        assert above(box_scores(as_candidates(own, labels[:20]), mixes, part), limit).rate == 1
        wrong = as_candidates(own, 1 - labels[:20])
        assert above(box_scores(wrong, mixes, part), limit).found == 0


def as_candidates(values: np.ndarray, labels: np.ndarray) -> Candidates:
    return Candidates((values / 255).astype(np.float32), labels)


def test_the_residual_finds_what_the_box_cannot() -> None:
    rng = np.random.default_rng(3)
    axes = rng.normal(size=(64, 64)) * np.linspace(0.02, 1, 64)

    def gray(count: int) -> np.ndarray:
        return np.clip(np.rint(128 + 3 * rng.normal(size=(count, 64)) @ axes.T), 30, 225)

    members, others, outside, public = gray(30), gray(30), gray(2000), gray(3000)
    labels = np.zeros(len(public), np.int32)
    prior = fit_prior(as_candidates(public, labels), 2)
    mixes = mixes_of(members, others, 0.3)
    own, out = as_candidates(members, labels[:30]), as_candidates(outside, labels[:2000])
    box = above(box_scores(own, mixes, 0), threshold(box_scores(out, mixes, 0), 0.01))
    limit = threshold(residual_scores(out, mixes, prior, 0), 0.01)
    assert above(residual_scores(own, mixes, prior, 0), limit).rate > box.rate + 0.3


def test_margins_are_logits_of_the_true_probability() -> None:
    logits = np.random.default_rng(4).normal(size=(2, 5, 3))
    labels = np.array([0, 1, 2, 1, 0], np.int32)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    true = np.take_along_axis(p, labels[None, :, None].repeat(2, 0), -1)[..., 0]
    np.testing.assert_allclose(margin(logits, labels), np.log(true / (1 - true)))


def test_likelihood_ratios_are_those_of_two_gaussians() -> None:
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(5)
    saw = np.tile(np.arange(20)[:, None] % 2 == 0, (1, 4))
    shadows = rng.normal(size=(20, 4, 2)) + saw[..., None]
    target, groups = rng.normal(size=(4, 2)), np.zeros(4, int)
    found = likelihood_ratios(target, shadows, saw, groups)
    expected = np.zeros(4)
    for rows, sign in ((saw[:, 0], 1), (~saw[:, 0], -1)):
        own = shadows[rows]
        off = (own - own.mean(axis=0)).reshape(-1, 2)
        covariance = off.T @ off / (4 * (rows.sum() - 1))
        for n in range(4):
            density = multivariate_normal(own.mean(axis=0)[n], covariance)
            expected[n] += sign * density.logpdf(target[n])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_shadow_models_that_all_saw_a_candidate_are_refused() -> None:
    with pytest.raises(InputError, match="shadows = 4"):
        likelihood_ratios(
            np.zeros((2, 1)), np.zeros((4, 2, 1)), np.ones((4, 2), bool), np.zeros(2, int)
        )
