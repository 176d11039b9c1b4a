"""Attacks against plain oracles: rates, inversion, box and residual tests, LiRA."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from mix2fld.base.errors import InputError
from mix2fld.data.samples import Coding, mix
from mix2fld.protocols.inverse_mixup import Groups, Pool, unmix
from mix2fld.types import SampleFormat
from mix2fld_lab.attacks.averages import (
    Scatter,
    Sums,
    fit_populations,
    scatter_scores,
    sum_scores,
)
from mix2fld_lab.attacks.box import box_scores, violations
from mix2fld_lab.attacks.inversion import recover_uploads
from mix2fld_lab.attacks.lira import SHARED_BY_ALL, group_ratios, likelihood_ratios, margin
from mix2fld_lab.attacks.rates import Share, check_candidates, share_above, threshold
from mix2fld_lab.attacks.residual import fit_prior, residual_scores
from mix2fld_lab.attacks.unmixing import Candidates, Mixes
from mix2fld_lab.audit.seeds import Scored, rates_at
from toys import examples

FORMAT = SampleFormat((4, 4, 1))


@given(st.floats(0.02, 0.49), st.sampled_from([4, 8]), st.integers(0, 1000))
@examples(40)
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
        (
            share_above(rng.normal(size=1000), threshold(rng.normal(size=1000), 0.01))
            for _ in range(200)
        ),
        Share(0, 0),
    )
    assert passed.rate == pytest.approx(0.01, rel=0.15)


def test_ties_with_outsiders_are_not_members() -> None:
    assert share_above(np.zeros(5), threshold(np.zeros(1000), 0.01)).found == 0


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
        assert (
            share_above(box_scores(as_candidates(own, labels[:20]), mixes, part), limit).rate == 1
        )
        wrong = as_candidates(own, 1 - labels[:20])
        assert share_above(box_scores(wrong, mixes, part), limit).found == 0


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
    box = share_above(box_scores(own, mixes, 0), threshold(box_scores(out, mixes, 0), 0.01))
    limit = threshold(residual_scores(out, mixes, prior, 0), 0.01)
    assert share_above(residual_scores(own, mixes, prior, 0), limit).rate > box.rate + 0.3


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
        each = [np.cov(own[:, n].T) for n in range(4)]
        weight = 2 * SHARED_BY_ALL / (9 + 2 * SHARED_BY_ALL)
        for n in range(4):
            covariance = (1 - weight) * each[n] + weight * np.mean(each, axis=0)
            density = multivariate_normal(own.mean(axis=0)[n], covariance)
            expected[n] += sign * density.logpdf(target[n])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_under_a_model_of_strangers_own_samples_pass_at_the_stated_rate() -> None:
    rng = np.random.default_rng(7)
    count, models = 4000, 32
    usual = rng.standard_t(3, size=count)
    effect = np.abs(rng.standard_t(3, size=count))
    order = rng.random((models // 2, count)).argsort(axis=1) < count // 2
    saw = np.concatenate([order, ~order])

    def statistics(seen: np.ndarray) -> np.ndarray:
        return (usual + effect * seen + rng.standard_t(5, size=count))[:, None]

    shadows = np.stack([statistics(seen) for seen in saw])
    own, labels = np.arange(count) < count // 2, np.zeros(count, int)
    target, stranger = (
        likelihood_ratios(statistics(seen), shadows, saw, labels) for seen in (own, 0 * own)
    )
    low, high = share_above(stranger[own], threshold(stranger[~own], 0.01)).interval()
    assert low <= 0.01 <= high
    assert share_above(target[own], threshold(target[~own], 0.01)).interval()[0] > 0.02


def test_rows_that_groups_share_find_members_of_small_groups_alone() -> None:
    rng = np.random.default_rng(9)
    groups = np.concatenate([np.arange(10).repeat(4), np.full(1960, 10)])
    own, models = np.arange(2000) % 2 == 0, 64
    halves = [
        np.concatenate([_half(rng, 4) for _ in range(10)] + [_half(rng, 1960)]) for _ in "ab" * 16
    ]
    saw = np.array([*halves, *(~half for half in halves)])
    effects = rng.normal(size=(2000, 5))

    def rows(seen: np.ndarray) -> np.ndarray:
        sums = np.stack([(effects * seen[:, None])[groups == g].sum(axis=0) for g in range(11)])
        sizes = np.bincount(groups)[:, None] / 2
        return (sums / sizes + 0.3 * rng.normal(size=(11, 5)))[groups]

    shadows = np.stack([rows(seen) for seen in saw])
    assert len(shadows) == models
    seen, stranger = rows(own), rows(np.zeros(2000))
    found = group_ratios(seen, shadows, saw, groups)
    small = groups < 10
    assert share_above(found[own & small], threshold(found[~own], 0.002)).rate > 0.4
    assert not share_above(found[own & ~small], threshold(found[~own], 0.002)).found
    usual = likelihood_ratios(seen, shadows, saw, groups)
    assert np.abs(found[~small]).max() < 0.2 * np.abs(usual[~small]).max()  # only errors
    null = group_ratios(stranger, shadows, saw, groups)
    low, high = share_above(null[own], threshold(null[~own], 0.01)).interval()
    assert low <= 0.01 <= high


def test_group_ratios_are_those_of_plain_loops() -> None:
    rng = np.random.default_rng(4)
    groups, statistics, models = np.array([0, 0, 0, 1, 1]), 2, 24
    saw = np.array([rng.permutation(models) < models // 2 for _ in groups]).T
    effects = rng.normal(size=(len(groups), statistics)) + 1.0
    noise = rng.normal(size=(models, len(groups), statistics))
    shadows = 3.0 + saw[..., None] * effects + 0.5 * noise
    target = 3.0 + effects + 0.5 * rng.normal(size=effects.shape)
    expected = np.zeros(len(groups))
    for group in (0, 1):
        its = [n for n in range(len(groups)) if groups[n] == group]
        within, count = np.zeros((statistics, statistics)), 0
        means = {}
        for n in its:
            means[n] = [shadows[saw[:, n] == seen, n].mean(axis=0) for seen in (True, False)]
            for s in range(models):
                off = shadows[s, n] - means[n][0 if saw[s, n] else 1]
                within += np.outer(off, off)
            count += models - 2
        inverse = np.linalg.inv(within / count + 1e-9 * np.eye(statistics))
        apart = {n: means[n][0] - means[n][1] for n in its}
        found = sum(apart[n] @ inverse @ apart[n] for n in its)
        errors = sum(1 / saw[:, n].sum() + 1 / (~saw[:, n]).sum() for n in its)
        kept = max(0.0, 1 - statistics * errors / found)
        for n in its:
            expected[n] = kept * apart[n] @ inverse @ (target[n] - sum(means[n]) / 2)
    found_ratios = group_ratios(target, shadows, saw, groups)
    np.testing.assert_allclose(found_ratios, expected, rtol=1e-9)
    assert np.abs(expected).min() > 0.01


def _half(rng: np.random.Generator, count: int) -> np.ndarray:
    chosen: np.ndarray = rng.permutation(count) < count // 2
    return chosen


def test_shadow_models_that_all_saw_a_candidate_are_refused() -> None:
    with pytest.raises(InputError, match="shadows = 4"):
        likelihood_ratios(
            np.zeros((2, 1)), np.zeros((4, 2, 1)), np.ones((4, 2), bool), np.zeros(2, int)
        )


def test_a_part_that_tells_nothing_spoils_no_other() -> None:
    rng = np.random.default_rng(0)
    tells_nothing = np.zeros(300), np.zeros(4000)
    own, outside = rng.normal(size=300) + 20.0 * (np.arange(300) < 60), rng.normal(size=4000)
    null = rng.normal(size=3000)
    tested = Scored(
        [tells_nothing[0], own],
        [tells_nothing[1], outside],
        [np.zeros(3000), null],
        [tells_nothing[1], outside],
        [np.arange(300) >= 240, np.arange(300) < 60],
    )
    found = rates_at(0.01, [tested])
    assert found["dominant"]["rate"] == 1
    assert found["minor"]["found"] == 0
    assert 60 <= found["device"]["found"] <= 66
    low, high = found["null"]["interval"]
    assert low <= 0.005 <= high  # of the part that tells something: half of the rate


def gaussian(rng: np.random.Generator, count: int, spread: np.ndarray) -> Candidates:
    labels = np.arange(count, dtype=np.int32) % 2
    values = rng.normal(size=(count, len(spread))) * spread + labels[:, None]
    return Candidates(values.astype(np.float32), labels)


def test_members_of_sums_and_scatters_are_likelier_than_others() -> None:
    rng = np.random.default_rng(0)
    spread = np.linspace(0.3, 1.5, 60)
    public = gaussian(rng, 8000, spread)
    populations = fit_populations(public, 2)
    own, outside = gaussian(rng, 100, spread), gaussian(rng, 1000, spread)
    counts = np.array([50, 50])
    totals = np.stack([own.values[own.labels == label].sum(axis=0) for label in (0, 1)])
    means = totals / 50
    rest = own.values - means[own.labels]
    scatter = Scatter(rest.T @ rest, means, counts, 0.0)
    sums = Sums(totals, counts, np.array([0, 1]), np.full(2, 1e-6))
    its, others = (sum_scores(group, sums, populations) for group in (own, outside))
    low, high = share_above(its, threshold(others, 0.01)).interval()
    # ratios of members lie sqrt(d / n) deviations above others
    assert low <= norm.cdf(np.sqrt(60 / 50) + norm.ppf(0.01)) <= high
    prior = fit_prior(public, 2)
    by_scatter = [scatter_scores(group, scatter, prior) for group in (own, outside)]
    assert share_above(by_scatter[0], threshold(by_scatter[1], 0.01)).interval()[0] > 0.05
    ones = Sums(own.values, np.ones(100, int), own.labels, np.full(100, 1e-6))
    its, others = (sum_scores(group, ones, populations) for group in (own, outside))
    assert share_above(its, threshold(others, 0.001)).rate == 1


def test_the_ratio_of_a_sum_is_that_of_two_gaussians_along_one_direction() -> None:
    rng = np.random.default_rng(1)
    populations = fit_populations(gaussian(rng, 5000, np.array([0.5, 2.0])), 2)
    one = gaussian(rng, 2, np.array([0.5, 2.0]))
    total, noise, n = np.array([[1.0, 2.0]]), 0.01, 5
    mean, covariance, detector = populations[0]
    direction = detector @ (one.values[0] - mean)
    spread, rounding = direction @ covariance @ direction, noise * direction @ direction
    seen, own = direction @ total[0], direction @ one.values[0]
    middle = direction @ mean
    without = norm.logpdf(seen, n * middle, np.sqrt(n * spread + rounding))
    with_it = norm.logpdf(seen, (n - 1) * middle + own, np.sqrt((n - 1) * spread + rounding))
    sums = Sums(total, np.array([n]), np.array([0]), np.array([noise]))
    found = sum_scores(one, sums, populations)
    assert found[0] == pytest.approx(with_it - without, rel=1e-4)
    assert found[1] == -np.inf


@given(st.integers(1, 10), st.integers(0, 1000))
@examples(30)
def test_no_member_of_a_rounded_mean_is_impossible(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = as_candidates(sparse(rng, count), np.zeros(count, np.int32))
    public = as_candidates(sparse(rng, 200), np.zeros(200, np.int32))
    sums, populations = rounded_means(members, count), fit_populations(public, 1)
    assert np.isfinite(sum_scores(members, sums, populations)).all()
    empty = np.flatnonzero(sums.totals[0] == 0)
    if len(empty):
        inked = members.values.copy()
        inked[:, empty[0]] = 1.0  # ink where the mean has none
        others = Candidates(inked, members.labels)
        assert (sum_scores(others, sums, populations) == -np.inf).all()


def rounded_means(members: Candidates, count: int) -> Sums:
    """Means of so many members each, in 8 bits a value."""
    groups = len(members.values) // count
    means = members.values.reshape(groups, count, -1).mean(axis=1)
    step = np.full(groups, count / 255)
    totals = count * np.rint(255 * means) / 255
    counts, labels = np.full(groups, count), np.zeros(groups, int)
    return Sums(totals, counts, labels, step**2 / 12, 0.501 * step)


def test_strangers_of_rounded_means_pass_at_the_stated_rate() -> None:
    rng = np.random.default_rng(6)
    public, own, outside, hidden = (
        as_candidates(sparse(rng, n), np.zeros(n, np.int32)) for n in (3000, 4000, 12_000, 50)
    )
    populations = fit_populations(public, 1)
    tens = rounded_means(hidden, 10)
    its, others = (sum_scores(group, tens, populations) for group in (own, outside))
    low, high = share_above(its, threshold(others, 0.01)).interval()
    assert low <= 0.01 <= high
    pairs = rounded_means(hidden, 2)
    members, others = (sum_scores(group, pairs, populations) for group in (hidden, outside))
    assert share_above(members, threshold(others, 0.001)).rate == 1
