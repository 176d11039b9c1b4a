"""Robust aggregation against plain definitions: what it computes, and what it survives."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mix2fld.config.trust import DefenceConfig
from mix2fld.protocols.aggregation import aggregate, outliers
from mix2fld.protocols.aggregation.aggregate import (
    average_outputs,
    average_weights,
    combine_outputs,
    combine_weights,
    count_samples,
)
from mix2fld.protocols.aggregation.outliers import far_uploads
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.types import Upload

FL, FD, CFD = (PROTOCOLS[name] for name in ("fl", "fd", "cfd"))
ROBUST = [
    "trimmed-mean",
    "median",
    "clipped-mean",
    "krum",
    "geometric-median",
    "filtered-median",
    "clipped-median",
]


def rows_of(seed: int, count: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, size))


some_rows = st.builds(
    rows_of, st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 7)
)  # fmt: skip


def inbox_of(values: np.ndarray, samples: list[int] | None = None) -> dict[int, Upload]:
    """Models of two tensors each."""
    counts = samples or [5] * len(values)
    half = values.shape[1] // 2
    return {
        device: Upload((row[:half].astype(np.float32), row[half:, None].astype(np.float32)), count)
        for device, (row, count) in enumerate(zip(values, counts, strict=True))
    }


def flat(tensors: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.concatenate([tensor.ravel() for tensor in tensors])


@given(some_rows, st.integers(0, 4))
def test_trimmed_mean_is_the_mean_of_the_sorted_middle(rows: np.ndarray, bad: int) -> None:
    bad = min(bad, (len(rows) - 1) // 2)
    middle = np.sort(rows, axis=0)[bad : len(rows) - bad]
    found = aggregate.trimmed_mean(rows, np.ones(len(rows)), bad)
    np.testing.assert_allclose(found, middle.mean(axis=0), atol=1e-12)


def test_the_trimmed_mean_weighs_what_is_left() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [50.0]])
    found = aggregate.trimmed_mean(rows, np.array([9.0, 1.0, 3.0, 9.0]), 1)
    np.testing.assert_allclose(found, [(1 * 1 + 3 * 2) / 4])


@given(some_rows)
def test_krum_keeps_those_with_the_nearest_neighbours(rows: np.ndarray) -> None:
    """Scores as the paper of Krum defines them, by loops."""
    count, bad = len(rows), aggregate.bad_devices(len(rows), 0.2)
    scores = []
    for mine in range(count):
        others = [np.sum((rows[mine] - rows[o]) ** 2) for o in range(count) if o != mine]
        scores.append(sum(sorted(others)[: max(1, count - bad - 2)]))
    chosen = sorted(range(count), key=lambda device: (scores[device], device))[: count - bad]
    found = aggregate.krum(rows @ rows.T, np.ones(count), bad)
    kept = np.flatnonzero(found)
    assert sum(scores[d] for d in kept) == pytest.approx(sum(scores[d] for d in chosen), abs=1e-9)
    np.testing.assert_allclose(found[kept], 1 / len(chosen))


@given(some_rows)
def test_the_geometric_median_minimises_the_sum_of_distances(rows: np.ndarray) -> None:
    def cost(point: np.ndarray) -> float:
        return float(np.linalg.norm(rows - point, axis=1).sum())

    found = aggregate.geometric_median(rows @ rows.T, np.ones(len(rows)), 0) @ rows
    best = min(
        minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).fun
        for start in (rows.mean(axis=0), np.median(rows, axis=0))
    )
    assert cost(found) <= best * (1 + 1e-4) + 1e-9


def test_clipping_shortens_to_the_median_length() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 1.0], [600.0, -800.0]])  # lengths 5, 1, 1000
    found = aggregate.clipped_mean(rows @ rows.T, np.ones(3), 1) @ rows
    np.testing.assert_allclose(found, (rows[0] + rows[1] + rows[2] * 5 / 1000) / 3)


@pytest.mark.parametrize(
    ("uploads", "share", "bad"),
    [
        *((10, 0.2, 2), (10, 0.21, 3), (30, 0.1, 3), (4, 0.2, 1), (3, 0.2, 1)),
        *((2, 0.4, 0), (1, 0.4, 0), (5, 0.49, 2), (0, 0.2, 0)),
    ],
)
def test_fewer_than_half_are_bad(uploads: int, share: float, bad: int) -> None:
    assert aggregate.bad_devices(uploads, share) == bad


@pytest.mark.parametrize("aggregation", ROBUST)
@given(st.integers(0, 2**32), st.permutations(range(10)))
def test_two_of_ten_cannot_move_it_beyond_the_others(
    aggregation: str, seed: int, order: list[int]
) -> None:
    """However far they go and wherever they stand, as long as the centre is right."""
    config = DefenceConfig(aggregation=aggregation)
    honest = rows_of(seed, 8, 6)
    results = []
    for size in (1e2, 1e6):
        rows = np.concatenate([honest, -size * np.ones((2, 6))])[order]
        centre = tuple(np.zeros(shape, np.float32) for shape in ((3,), (3, 1)))
        results.append(flat(combine_weights(inbox_of(rows), centre, config)))
    reach = np.linalg.norm(honest, axis=1).max() * 1.5
    assert np.linalg.norm(results[0]) <= reach
    assert np.linalg.norm(results[1]) <= reach


@pytest.mark.parametrize("aggregation", ROBUST)
def test_what_all_devices_agree_on_comes_out(aggregation: str) -> None:
    rows = np.tile(rows_of(1, 1, 6), (5, 1))
    for centre in (None, tuple(np.ones(shape, np.float32) for shape in ((3,), (3, 1)))):
        found = combine_weights(inbox_of(rows), centre, DefenceConfig(aggregation=aggregation))
        np.testing.assert_allclose(flat(found), rows[0], rtol=1e-6)
        assert [tensor.shape for tensor in found] == [(3,), (3, 1)]
        assert all(tensor.dtype == np.float32 for tensor in found)


@pytest.mark.parametrize("aggregation", ROBUST)
def test_parts_of_the_coordinates_make_no_difference(
    aggregation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, config = inbox_of(rows_of(2, 7, 40)), DefenceConfig(aggregation=aggregation)
    whole = flat(combine_weights(inbox, None, config))
    monkeypatch.setattr(aggregate, "COLUMNS", 3)
    np.testing.assert_allclose(flat(combine_weights(inbox, None, config)), whole, rtol=1e-6)


@pytest.mark.parametrize("aggregation", ROBUST)
def test_the_order_of_devices_makes_no_difference(aggregation: str) -> None:
    rows, config = rows_of(3, 6, 8), DefenceConfig(aggregation=aggregation)
    backwards = {5 - d: upload for d, upload in inbox_of(rows[::-1]).items()}
    one, other = (combine_weights(inbox, None, config) for inbox in (inbox_of(rows), backwards))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_mean_is_the_mean_as_before() -> None:
    inbox = inbox_of(rows_of(4, 5, 8), [1, 2, 3, 4, 500])
    found = combine_weights(inbox, None, DefenceConfig())
    for mine, theirs in zip(found, average_weights(inbox), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_claims_of_many_samples_are_capped_or_ignored() -> None:
    rows = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [0.0, 0.0]])
    inbox = inbox_of(rows, [10, 20, 30, 1 << 31])
    capped = count_samples(inbox, "capped")
    assert [capped[d].samples for d in capped] == [10, 20, 30, 50]
    means = {
        how: flat(combine_weights(inbox, None, DefenceConfig(sample_weights=how)))[0]
        for how in ("claimed", "capped", "ignored")
    }
    assert means["claimed"] < 1e-6
    assert means["capped"] == pytest.approx((10 + 40 + 90) / 110)
    assert means["ignored"] == pytest.approx(1.5)


def test_a_claim_of_many_samples_does_not_make_others_look_far() -> None:
    """Three of ten send zeros and claim all that a cap allows: nearly half of all samples."""
    rows = 5.0 + 0.2 * rows_of(9, 10, 40)
    rows[:3] = 0.0
    inbox = inbox_of(rows, [1 << 31] * 3 + [100] * 7)
    config = DefenceConfig(aggregation="filtered-median", sample_weights="capped")
    found = flat(combine_weights(inbox, None, config))
    assert np.linalg.norm(found - rows[3:].mean(axis=0)) < np.linalg.norm(rows[3] - rows[4])


def distributions(seed: int, devices: int, labels: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(labels), (devices, labels)).astype(np.float32)


@pytest.mark.parametrize("aggregation", ROBUST)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_outputs_stay_distributions(aggregation: str, seed: int, devices: int) -> None:
    """Label by label; a label that nobody drew keeps its last row."""
    outputs = distributions(seed, devices, 4)
    outputs[0, 1], outputs[:, 2] = 0.0, 0.0
    last = np.full((4, 4), 0.25, np.float32)
    inbox = {d: Upload(rows, 1) for d, rows in enumerate(outputs)}
    found = combine_outputs(inbox, last, "skip", DefenceConfig(aggregation=aggregation))
    assert (found >= 0).all()
    np.testing.assert_array_equal(found[2], last[2])
    rest = [0, 3] if devices == 1 else [0, 1, 3]
    np.testing.assert_allclose(found[rest].sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("aggregation", ROBUST)
def test_two_of_ten_cannot_turn_outputs_over(aggregation: str) -> None:
    """Of every two that lie."""
    truth = 0.8 * np.eye(4, dtype=np.float32) + 0.05
    lie = np.roll(np.eye(4, dtype=np.float32), 1, axis=1)
    noise = distributions(5, 10, 4)
    config = DefenceConfig(aggregation=aggregation)
    for liars in combinations(range(10), 2):
        values = [lie if d in liars else 0.9 * truth + 0.1 * noise[d] for d in range(10)]
        inbox = {d: Upload(value, 1) for d, value in enumerate(values)}
        found = combine_outputs(inbox, np.zeros((4, 4), np.float32), "skip", config)
        mean = average_outputs(inbox, np.zeros((4, 4), np.float32), "skip")
        assert np.abs(found - truth).max() < 0.5 * np.abs(mean - truth).max()


def test_uncounted_zero_rows_can_be_counted() -> None:
    outputs = np.zeros((3, 2, 2), np.float32)
    outputs[:2, 0] = [[0.5, 0.5], [0.6, 0.4]]
    inbox = {d: Upload(rows, 1) for d, rows in enumerate(outputs)}
    config = DefenceConfig(aggregation="median")
    found = combine_outputs(inbox, np.zeros((2, 2), np.float32), "zero", config)
    np.testing.assert_allclose(found[0], [0.5, 0.4], atol=0.1)


def test_who_lies_far_from_the_rest_is_found() -> None:
    rows = 1.0 + 0.1 * rows_of(6, 6, 8)
    rows[4] *= -10
    inbox = inbox_of(rows)
    ((device, times),) = far_uploads(FL, inbox).items()
    middle = np.median(rows, axis=0)
    distances = np.linalg.norm(rows - middle, axis=1)
    assert (device, times) == (4, pytest.approx(distances[4] / np.median(distances), rel=1e-4))
    assert far_uploads(FL, inbox_of(np.delete(rows, 4, axis=0))) == {}
    assert far_uploads(FL, {0: inbox[0], 4: inbox[4]}) == {}


def test_outputs_are_compared_where_a_label_was_drawn() -> None:
    truth, lie = np.eye(4, dtype=np.float32), np.roll(np.eye(4, dtype=np.float32), 1, axis=1)
    noise = distributions(7, 6, 4)
    outputs = 0.9 * truth + 0.1 * noise
    outputs[1, 2] = 0.0
    inbox = {d: Upload(rows.astype(np.float32), 1) for d, rows in enumerate(outputs)}
    assert far_uploads(FD, inbox) == {}
    inbox[3] = Upload(lie, 1)
    assert list(far_uploads(FD, inbox)) == [3]


def test_many_uploads_are_compared_with_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outliers, "MEDIAN_LIMIT", 3)
    rows = 1.0 + 0.1 * rows_of(6, 20, 8)
    rows[4] *= 100
    inbox = inbox_of(rows)
    assert list(far_uploads(FL, inbox)) == [4]
    assert far_uploads(CFD, {d: Upload(object(), 1) for d in range(5)}) == {}


def test_a_clipped_median_shortens_who_is_far_and_leaves_out_nobody() -> None:
    """By hand, on a line: the median of 0, 1, 2, 3, 100 is 2, the typical distance 1."""
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    found = aggregate.aggregate_rows(rows, np.ones(5), "clipped-median", 0.2)
    assert found == pytest.approx([(1.0 + 1.0 + 2.0 + 3.0 + 3.0) / 5], abs=1e-4)
    farther = aggregate.aggregate_rows(
        rows * [[1], [1], [1], [1], [1000]], np.ones(5), "clipped-median", 0.2
    )
    assert farther == pytest.approx(found, abs=1e-4)
    without = aggregate.aggregate_rows(rows[:4], np.ones(4), "clipped-median", 0.2)
    assert found > without  # it is heard
