"""Statistics of attackers: found, left out of the closed form, and named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.errors import InputError
from mix2fld.codecs import PayloadError
from mix2fld.config.settings import PRESETS
from mix2fld.config.trust import DefenceConfig
from mix2fld.engine.attackers import check_attack
from mix2fld.engine.checks import check_upload
from mix2fld.protocols.aggregation.outliers import far_statistics, trusted_statistics
from mix2fld.protocols.suspects import in_words
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import SampleFormat, Statistics, Upload
from toy_statistics import some_features, statistics_of
from toys import bars, toy_config, toy_dataset

ROBUST = DefenceConfig(aggregation="filtered-median", sample_weights="capped")


def honest(seed: int, devices: int = 7) -> dict[int, Statistics]:
    rng = np.random.default_rng(seed)
    return {d: statistics_of(*some_features(rng, 200)) for d in range(devices)}


def times(own: Statistics, factor: float) -> Statistics:
    return Statistics(*(np.float32(factor) * part for part in own))


@given(st.integers(0, 2**32))
def test_nobody_honest_is_far(seed: int) -> None:
    assert far_statistics(honest(seed)) == {}


@pytest.mark.parametrize("bad", [(1,), (0, 4), (2, 3, 6)])
@pytest.mark.parametrize("lie", ["labels", "sums", "scatter", "counts"])
def test_a_lie_in_any_part_is_far(bad: tuple[int, ...], lie: str) -> None:
    held = honest(3)
    for device in bad:
        own = held[device]
        held[device] = {
            "labels": Statistics(np.roll(own.counts, 1), np.roll(own.sums, 1, axis=0), own.scatter),
            "sums": own._replace(sums=-own.sums),
            "scatter": own._replace(scatter=10 * own.scatter),
            "counts": own._replace(counts=own.counts / 100),
        }[lie]
    assert tuple(far_statistics(held)) == bad
    assert tuple(trusted_statistics(held, bad, ROBUST)) == tuple(d for d in held if d not in bad)
    assert trusted_statistics(held, bad, DefenceConfig()) == held


def test_never_half_of_all_are_left_out_and_two_cannot_be_compared() -> None:
    held = honest(4, 6)
    held = {d: own._replace(sums=(10.0**d) * own.sums) for d, own in held.items()}
    assert len(far_statistics(held)) <= 2
    assert far_statistics({d: held[d] for d in (0, 5)}) == {}


def test_a_device_counts_for_so_many_samples() -> None:
    """Enlarged as a whole, statistics are those of more samples: they are not far, but capped."""
    held = honest(5)
    held[2] = times(held[2], 1000)
    capped = trusted_statistics(held, (), DefenceConfig(sample_weights="capped"))
    assert capped[2].counts.sum() == pytest.approx(400, rel=1e-5)
    np.testing.assert_allclose(capped[2].sums, held[2].sums / 500, rtol=1e-5)
    np.testing.assert_array_equal(capped[0].sums, held[0].sums)
    ignored = trusted_statistics(held, (), DefenceConfig(sample_weights="ignored"))
    assert {round(float(own.counts.sum())) for own in ignored.values()} == {200}


def test_a_label_that_two_devices_hold_is_not_compared() -> None:
    """Of two, nobody can say who lies."""
    held = {}
    for device, own in honest(6).items():
        counts, sums = own.counts.copy(), own.sums.copy()
        if device > 1:
            counts[2], sums[2] = 0, 0
        held[device] = Statistics(counts, sums, own.scatter)
    sums = held[1].sums.copy()
    sums[2] = -sums[2]
    assert far_statistics({**held, 1: held[1]._replace(sums=sums)}) == {}


def test_counts_below_zero_are_refused() -> None:
    own = honest(7)[0]
    upload = Upload(None, 200, times(own, -10))
    with pytest.raises(PayloadError, match=r"samples of a label; must not be below 0"):
        check_upload(PROTOCOLS["statistics"], upload, SampleFormat((4, 4, 1)))


@pytest.mark.parametrize("attack", ["label-shift", "random", "scaling", "sign-flip"])
def test_an_attacked_run_is_nearly_that_without_the_attacker(attack: str) -> None:
    fields = {"protocol": "statistics", "model": "paper-cnn", "feature_side": 2, "devices": 6}
    config = toy_config(
        **fields, samples_per_device=96, attack=attack, attackers=1, **PRESETS["robust"]
    )
    simulation = make_simulation(config, bars())
    _, info = simulation.run_round(simulation.start())
    if attack in ("random", "sign-flip"):  # counts below zero are refused
        assert len(info.uploads["devices"]) == 5
    else:
        (suspect,) = info.suspects
        assert suspect["upload"] == "statistics"
        assert in_words(suspect).startswith(f"device {suspect['device']} uploaded statistics ")
    plain = make_simulation(config.replace(attack="none"), bars())
    _, without = plain.run_round(plain.start())
    assert without.suspects == []
    assert info.scores["global"] > without.scores["global"] - 0.1


@pytest.mark.parametrize(
    ("attack", "words"),
    [("seed-label-shift", "must be a share of seeds, at most 1"), ("label-shift", "no factor")],
)
def test_a_strength_that_an_attack_has_not_is_refused(attack: str, words: str) -> None:
    config = toy_config(protocol="fld", attack=attack, attackers=1, attack_strength=1.5)
    with pytest.raises(InputError, match=words):
        check_attack(make_simulation(config, toy_dataset()).scenario)
