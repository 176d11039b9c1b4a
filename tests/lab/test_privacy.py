"""Sample privacy against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mix2fld.config.uploads import SeedingConfig
from mix2fld.protocols.inverse_mixup import inverse_ratios
from mix2fld_lab.attacks.measure import closest_pair, measure
from mix2fld_lab.gallery import sample_privacy, statistics
from toys import toy_dataset

RATIOS = (0.001, 0.1, 0.3, 0.49)


def test_by_hand() -> None:
    raw = np.array([[[0.0, 0.0], [3.0, 4.0]]])  # one sample made of two, a distance of 5 apart
    made = 0.4 * raw[:, 0] + 0.6 * raw[:, 1]
    assert_allclose(sample_privacy(made, raw), [np.log(0.4 * 5)])
    assert sample_privacy(raw[:, 1], raw) == [-np.inf]


@pytest.mark.parametrize("ratio", RATIOS)
def test_mixup_is_the_logarithm_of_ratio_times_distance(ratio: float) -> None:
    """So the column of a table follows ln λ: what decision 18 infers its columns from."""
    found = measure(toy_dataset(1200), (ratio, 0.25), seed_samples=50, seed=3)["ratios"]
    for name in ("min", "mean", "median", "q05", "q95"):
        of_ratio, of_quarter = (found[key]["mixup"][name] for key in (f"{ratio:g}", "0.25"))
        assert_allclose(of_ratio - of_quarter, np.log(ratio / 0.25), atol=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_mix2up_of_four_samples_by_its_closed_form(ratio: float) -> None:
    """s~ - s_j' = λ²/(1-2λ) (s_j' - s_i) + λ(1-λ)/(1-2λ) (s_i' - s_j), from Eqs. 6 to 8."""
    own_i, own_j, other_i, other_j = np.random.default_rng(5).uniform(0, 255, (4, 6))
    ratios = SeedingConfig(mixing_ratio=(ratio,)).ratios
    mixed = ratio * own_i + (1 - ratio) * own_j, ratio * other_i + (1 - ratio) * other_j
    made = inverse_ratios(ratios)[0] @ np.stack(mixed)
    far = ratio**2 / (1 - 2 * ratio) * (other_j - own_i)
    far = far + ratio * (1 - ratio) / (1 - 2 * ratio) * (other_i - own_j)
    assert_allclose(made - other_j, far, atol=1e-9 / (1 - 2 * ratio))


def test_rounding_to_8_bits_undoes_a_tiny_ratio() -> None:
    """At λ = 0.001 no pixel moves by half a step: the server gets the raw sample."""
    found = measure(toy_dataset(1200), (0.001, 0.1), seed_samples=20, seed=0)["ratios"]
    assert found["0.001"]["mixup_8bit"]["min"] is None
    assert found["0.001"]["mixup"]["min"] is not None
    assert_allclose(found["0.1"]["mixup_8bit"]["min"], found["0.1"]["mixup"]["min"], atol=0.05)


def test_closest_pair_against_all_pairs() -> None:
    data = toy_dataset()
    images, labels = data.train_inputs[:60], data.train_labels[:60]
    flat = images.reshape(60, -1).astype(float)
    smallest = min(
        np.linalg.norm(flat[a] - flat[b])
        for a in range(60)
        for b in range(60)
        if labels[a] != labels[b]
    )
    assert_allclose(closest_pair(images, labels), smallest)


def test_statistics_without_any_sample() -> None:
    assert statistics(np.zeros(0)) == {
        "min": None, "mean": None, "q05": None, "median": None, "q95": None, "count": 0.0,
    }  # fmt: skip


def test_a_quantile_is_the_privacy_of_a_sample() -> None:
    values = np.array([3.0, 1.0, 2.0, -np.inf])
    assert statistics(values) == {
        "min": None, "mean": None, "q05": None, "median": 1.0, "q95": 2.0, "count": 4.0,
    }  # fmt: skip
