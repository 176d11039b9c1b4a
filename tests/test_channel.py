"""The radio link of Sec. II-C against loops, exact fractions and decibels."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mix2fld.config import ChannelConfig
from mix2fld.errors import InputError
from mix2fld.link import Direction, IdealLink, RayleighLink, check_delivery, make_link
from mix2fld.types import Delivery

FL_BITS = 32 * 12_544
DIRECTIONS: tuple[Direction, ...] = ("uplink", "downlink")


def paper_link(devices: int = 10, **changes: float) -> RayleighLink:
    return RayleighLink.from_config(ChannelConfig(**changes), devices)


def eq4_by_loops(
    link: RayleighLink, direction: Direction, bits: list[int], rng: np.random.Generator
) -> tuple[list[bool], list[int]]:
    """Eq. 4 as printed; theta = 3, so that a slot's bits are exact."""
    radio = link.uplink if direction == "uplink" else link.downlink
    delivered, slots = [], []
    fading = [[rng.exponential() for _ in bits] for _ in range(link.max_slots)]
    for device, size in enumerate(bits):
        received, latency = 0.0, 0 if size == 0 else None
        for t in range(1, link.max_slots + 1):
            h = fading[t - 1][device]
            snr = (
                radio.power_w
                * h
                * link.distance_m ** (-link.path_loss_exponent)
                / (radio.bandwidth_hz * link.noise_w_per_hz)
            )
            if snr >= radio.snr_threshold:
                received += link.slot_seconds * radio.bandwidth_hz * math.log2(4)
            if latency is None and received >= size:
                latency = t
        delivered.append(latency is not None)
        slots.append(link.max_slots if latency is None else latency)
    return delivered, slots


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("distance_m", [1000.0, 2000.0])
def test_transmit_is_eq4(direction, distance_m):
    link = paper_link(distance_m=distance_m, max_slots=30)
    bits = [0, 1, 3200, 4000, 4001, 65_920, 112_000, 120_001, 10**15, 100_000]
    for seed in range(20):
        expected = eq4_by_loops(link, direction, bits, np.random.default_rng(seed))
        actual = link.transmit(direction, np.array(bits), np.random.default_rng(seed))
        assert actual.delivered.tolist() == expected[0]
        assert actual.slots.tolist() == expected[1]
        assert actual.delivered.dtype == np.bool_
        assert actual.slots.dtype == np.int64


def test_same_generator_same_fading_for_every_payload():
    link = paper_link()
    latencies, draws_left = [], []
    for bits in (0, 3200, 65_920, 316_800, FL_BITS):
        rng = np.random.default_rng(7)
        latencies.append(link.transmit("uplink", np.full(10, bits), rng).slots)
        draws_left.append(rng.integers(2**62))
    assert len(set(draws_left)) == 1
    assert all(np.all(a <= b) for a, b in pairwise(latencies))


def test_a_device_without_bits_sends_nothing():
    delivery = paper_link().transmit("uplink", np.array([0, FL_BITS]), np.random.default_rng(0))
    assert delivery.delivered[0]
    assert delivery.slots[0] == 0


def test_an_outage_takes_all_slots():
    link = paper_link(max_slots=100)
    delivery = link.transmit("uplink", np.full(10, FL_BITS), np.random.default_rng(0))
    assert not delivery.delivered.any()
    assert (delivery.slots == 100).all()


def test_bandwidth_and_slots_of_the_paper():
    assert paper_link(10).bits_per_slot("uplink") == 4000
    assert paper_link(10).bits_per_slot("downlink") == 20_000
    assert paper_link(50).bits_per_slot("uplink") == 800
    assert paper_link(10).slots_needed("uplink", FL_BITS) == 101
    assert paper_link(50).slots_needed("uplink", FL_BITS) == 502
    assert paper_link(50).slots_needed("uplink", 3200 + 10 * 6272) == 83
    assert paper_link(50).slots_needed("uplink", 3200 + 50 * 6272) == 396
    assert paper_link(10).slots_needed("uplink", 0) == 0
    assert paper_link(10).slots_needed("uplink", 1) == 1


@given(
    devices=st.integers(1, 500),
    threshold_bits=st.integers(1, 6),
    slots=st.integers(1, 5000),
    extra=st.sampled_from([-1, 0, 1]),
)
def test_slots_needed_is_exact_at_the_edges(devices, threshold_bits, slots, extra):
    """Bits just below, at and just above what a number of slots carries."""
    link = paper_link(devices, uplink_snr_threshold=2**threshold_bits - 1)
    per_slot = Fraction(20_000 * threshold_bits, devices)
    bits = math.floor(slots * per_slot) + extra
    assert link.slots_needed("uplink", bits) == math.ceil(bits / per_slot)


@pytest.mark.parametrize(
    ("direction", "power_dbm", "bandwidth"), [("uplink", 23, 2e6), ("downlink", 40, 1e7)]
)
def test_success_probability_from_decibels(direction, power_dbm, bandwidth):
    mean_snr_db = power_dbm - 40 * math.log10(1000) + 174 - 10 * math.log10(bandwidth)
    expected = math.exp(-3 / 10 ** (mean_snr_db / 10))
    assert paper_link().success_probability(direction) == pytest.approx(expected, rel=1e-12)


def test_slots_are_decoded_as_often_as_the_success_probability_says():
    link = paper_link(max_slots=1)
    delivery = link.transmit("uplink", np.full(200_000, 4000), np.random.default_rng(1))
    count = int(delivery.delivered.sum())
    interval = stats.binomtest(count, 200_000).proportion_ci(0.9999)
    assert interval.low <= link.success_probability("uplink") <= interval.high
    assert interval.high - interval.low < 0.006


def test_fading_is_independent_across_slots_and_devices():
    """A block of ten slots is decoded whole with probability q^10, and two devices with q^20."""
    link = paper_link(max_slots=10)
    rng = np.random.default_rng(2)
    whole = np.stack(
        [link.transmit("uplink", np.full(2, 40_000), rng).delivered for _ in range(9000)]
    )
    q10 = link.success_probability("uplink") ** 10
    for count, chance in ((int(whole[:, 0].sum()), q10), (int(whole.all(axis=1).sum()), q10**2)):
        interval = stats.binomtest(count, len(whole)).proportion_ci(0.9999)
        assert interval.low <= chance <= interval.high


def test_make_link():
    assert make_link(ChannelConfig(), 10) == paper_link()
    ideal = make_link(ChannelConfig(link="ideal", slot_ms=2.0), 10)
    assert isinstance(ideal, IdealLink)
    assert ideal.slot_seconds == 0.002
    delivery = ideal.transmit("uplink", np.array([0, 10**12]), np.random.default_rng(0))
    assert delivery.delivered.tolist() == [True, True]
    assert delivery.slots.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("changes", "devices", "named"),
    [
        ({}, 0, "devices = 0"),
        ({"max_slots": 10**9}, 10, "max_slots = 1000000000"),
        ({"bandwidth_hz": 1e300}, 10, "bandwidth_hz = 1e+300"),
        ({"slot_ms": 1e-300}, 10, "slot_ms = 1e-300"),
        ({"distance_m": 1e200}, 10, "distance_m = 1e+200"),
        ({"path_loss_exponent": 1e6}, 10, "path_loss_exponent = 1e+06"),
    ],
)
def test_impossible_links_are_refused(changes, devices, named):
    with pytest.raises(InputError) as error:
        RayleighLink.from_config(ChannelConfig(**changes), devices)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@given(
    distance_m=st.floats(1e-12, 1e12),
    path_loss_exponent=st.floats(2, 8),
    bandwidth_hz=st.floats(1e-12, 1e12),
    uplink_snr_threshold=st.floats(1e-12, 1e12),
    slot_ms=st.floats(1e-12, 1e12),
    bits=st.integers(0, 2**62),
)
def test_no_accepted_link_overflows(bits, **changes):
    link = paper_link(max_slots=3, **changes)
    assert 0 <= link.success_probability("uplink") <= 1
    delivery = link.transmit("uplink", np.array([bits]), np.random.default_rng(0))
    check_delivery(link, delivery, 1)


def test_negative_bits_are_refused():
    with pytest.raises(InputError, match="bits = -1"):
        paper_link().slots_needed("uplink", -1)


@pytest.mark.parametrize(
    ("delivered", "slots", "named"),
    [
        ([True], [1, 1], "delivered"),
        ([1, 1], [1, 1], "delivered"),
        ([True, True], [1], "slots"),
        ([True, True], [1.5, 1.0], "slots"),
        ([True, True], [1, 6], "max_slots = 5"),
        ([True, True], [-1, 1], "max_slots = 5"),
        ([True, False], [1, 1], "failed transfer"),
    ],
)
def test_a_delivery_that_breaks_its_promise_is_refused(delivered, slots, named):
    with pytest.raises(InputError, match=named):
        check_delivery(
            IdealLink(max_slots=5), Delivery(np.array(delivered), np.array(slots)), devices=2
        )


def test_a_longer_limit_sees_the_same_channel():
    bits = np.full(10, 360_000)
    short, long = (
        paper_link(max_slots=limit).transmit("uplink", bits, np.random.default_rng(3))
        for limit in (100, 110)
    )
    assert short.delivered.any()
    assert not short.delivered.all()
    assert long.delivered[short.delivered].all()
    np.testing.assert_array_equal(long.slots[short.delivered], short.slots[short.delivered])
