"""The radio link of Sec. II-C against loops, exact fractions and decibels."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mix2fld.base.errors import InputError
from mix2fld.config.settings import ChannelConfig, Config
from mix2fld.links import LINKS, Direction, IdealLink, RayleighLink, check_delivery, make_link
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
    sharing = sum(size > 0 for size in bits) if direction == "uplink" else 1
    bandwidth_hz = radio.bandwidth_hz / sharing
    delivered, slots = [], []
    senders = [device for device, size in enumerate(bits) if size]
    drawn = [{d: rng.exponential() for d in senders} for _ in range(link.max_slots)]
    for device, size in enumerate(bits):
        received, latency = 0.0, 0 if size == 0 else None
        for t in range(1, link.max_slots + 1):
            h = drawn[t - 1].get(device, 0.0)
            snr = (
                radio.power_w
                * h
                * link.distance_m ** (-link.path_loss_exponent)
                / (bandwidth_hz * link.noise_w_per_hz)
            )
            if snr >= radio.snr_threshold:
                received += link.slot_seconds * bandwidth_hz * math.log2(4)
            if latency is None and received >= size:
                latency = t
        delivered.append(latency is not None)
        slots.append(link.max_slots if latency is None else latency)
    return delivered, slots


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("distance_m", [1000.0, 2000.0])
def test_transmit_is_eq4(direction, distance_m):
    link = paper_link(distance_m=distance_m, max_slots=30)
    bits = [1, 1, 3200, 4000, 4001, 65_920, 112_000, 120_001, 10**15, 100_000]
    some = [0, 1, 3200, 0, 5001, 65_920, 112_000, 120_001, 10**15, 100_000]
    for seed, sizes in product(range(20), (bits, some)):
        expected = eq4_by_loops(link, direction, sizes, np.random.default_rng(seed))
        actual = link.deliver(direction, np.array(sizes), np.random.default_rng(seed))
        assert actual.delivered.tolist() == expected[0]
        assert actual.slots.tolist() == expected[1]
        assert actual.delivered.dtype == np.bool_
        assert actual.slots.dtype == np.int64


def test_same_generator_same_fading_for_every_payload():
    link = paper_link()
    latencies, draws_left = [], []
    for bits in (1, 3200, 65_920, 316_800, FL_BITS):
        rng = np.random.default_rng(7)
        latencies.append(link.deliver("uplink", np.full(10, bits), rng).slots)
        draws_left.append(rng.integers(2**62))
    assert len(set(draws_left)) == 1
    assert all(np.all(a <= b) for a, b in pairwise(latencies))


def test_a_device_without_bits_sends_nothing():
    delivery = paper_link().deliver("uplink", np.array([0, FL_BITS]), np.random.default_rng(0))
    assert delivery.delivered[0]
    assert delivery.slots[0] == 0


def test_an_outage_takes_all_slots():
    link = paper_link(max_slots=100)
    delivery = link.deliver("uplink", np.full(10, FL_BITS), np.random.default_rng(0))
    assert not delivery.delivered.any()
    assert (delivery.slots == 100).all()


def test_bandwidth_and_slots_of_the_paper():
    assert paper_link().radio("uplink", 10).bits_per_slot == 4000
    assert paper_link().radio("downlink", 10).bits_per_slot == 20_000
    assert paper_link().radio("uplink", 50).bits_per_slot == 800
    assert paper_link().radio("uplink", 10).slots_needed(FL_BITS) == 101
    assert paper_link().radio("uplink", 50).slots_needed(FL_BITS) == 502
    assert paper_link().radio("uplink", 50).slots_needed(3200 + 10 * 6272) == 83
    assert paper_link().radio("uplink", 50).slots_needed(3200 + 50 * 6272) == 396
    assert paper_link().radio("uplink", 10).slots_needed(0) == 0
    assert paper_link().radio("uplink", 10).slots_needed(1) == 1


def test_the_uplink_is_shared_by_the_devices_that_transmit():
    """3 of 10 devices have W N_ch / 3 each; the multicast downlink is shared by none."""
    link, config = paper_link(10), ChannelConfig()
    three = link.radio("uplink", 3)
    assert three.bandwidth_hz == config.bandwidth_hz * config.uplink_channels / 3
    mean_snr_db = 23 - 120 + 174 - 10 * math.log10(2e7 / 3)
    assert three.mean_snr == pytest.approx(10 ** (mean_snr_db / 10), rel=1e-12)
    assert three.bits_per_slot == pytest.approx(1e-3 * 2e7 / 3 * 2, rel=1e-15)
    assert link.radio("downlink", 3) == link.radio("downlink", 10)
    assert link.radio("uplink", 0) == link.radio("uplink", 1)  # nobody has anything to share


@pytest.mark.parametrize("transmitting", [1, 3, 9])
def test_some_devices_transmit_as_if_the_others_were_not_there(transmitting):
    """The same fading decides, slot by slot, over the bandwidth that those who transmit have."""
    config = {"distance_m": 1500.0, "max_slots": 40}
    bits = np.zeros(10, np.int64)
    bits[10 - transmitting :] = 200_000
    fraction = transmitting / 10
    alone = paper_link(10, uplink_channels=2.0 / fraction, **config)  # as much for each of 10
    for seed in range(10):
        some = paper_link(10, **config).deliver("uplink", bits, np.random.default_rng(seed))
        everyone = alone.deliver("uplink", np.full(10, 200_000), np.random.default_rng(seed))
        asked = bits > 0
        np.testing.assert_array_equal(some.slots[asked], everyone.slots[asked])
        np.testing.assert_array_equal(some.delivered[asked], everyone.delivered[asked])
        assert some.delivered[~asked].all()
        assert (some.slots[~asked] == 0).all()


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
    assert link.radio("uplink", devices).slots_needed(bits) == math.ceil(bits / per_slot)


@pytest.mark.parametrize(
    ("direction", "power_dbm", "bandwidth"), [("uplink", 23, 2e6), ("downlink", 40, 1e7)]
)
def test_success_probability_from_decibels(direction, power_dbm, bandwidth):
    mean_snr_db = power_dbm - 40 * math.log10(1000) + 174 - 10 * math.log10(bandwidth)
    expected = math.exp(-3 / 10 ** (mean_snr_db / 10))
    assert paper_link().radio(direction, 10).success_probability == pytest.approx(
        expected, rel=1e-12
    )


def test_slots_are_decoded_as_often_as_the_success_probability_says():
    link, rng = paper_link(max_slots=1), np.random.default_rng(1)
    count = sum(
        link.deliver("uplink", np.full(10, 4000), rng).delivered.sum() for _ in range(20_000)
    )
    interval = stats.binomtest(int(count), 200_000).proportion_ci(0.9999)
    assert interval.low <= link.radio("uplink", 10).success_probability <= interval.high
    assert interval.high - interval.low < 0.006


def test_fading_is_independent_across_slots_and_devices():
    """A block of ten slots is decoded whole with probability q^10, and two devices with q^20."""
    link = paper_link(uplink_channels=0.4, max_slots=10)  # each of two has 2 MHz
    rng = np.random.default_rng(2)
    whole = np.stack(
        [link.deliver("uplink", np.full(2, 40_000), rng).delivered for _ in range(9000)]
    )
    q10 = link.radio("uplink", 2).success_probability ** 10
    for count, chance in ((int(whole[:, 0].sum()), q10), (int(whole.all(axis=1).sum()), q10**2)):
        interval = stats.binomtest(count, len(whole)).proportion_ci(0.9999)
        assert interval.low <= chance <= interval.high


def test_make_link():
    assert make_link(Config(), 10) == paper_link()
    assert {"rayleigh", "ideal"} <= LINKS.keys()
    ideal = make_link(Config.of(link="ideal", slot_ms=2.0), 10)
    assert isinstance(ideal, IdealLink)
    assert ideal.slot_seconds == 0.002
    delivery = ideal.deliver("uplink", np.array([0, 10**12]), np.random.default_rng(0))
    assert delivery.delivered.tolist() == [True, True]
    assert delivery.slots.tolist() == [0, 0]


def test_an_unknown_link_is_named():
    with pytest.raises(InputError, match=r"link = 'raylegh'.*did you mean 'rayleigh'"):
        make_link(Config.of(link="raylegh"), 10)


def test_a_link_of_the_registry_is_made_by_its_name(monkeypatch):
    monkeypatch.setitem(LINKS, "quick", lambda config, devices: IdealLink(max_slots=devices))
    assert make_link(Config.of(link="quick"), 7) == IdealLink(max_slots=7)


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
    assert 0 <= link.radio("uplink", 10).success_probability <= 1
    delivery = link.deliver("uplink", np.array([bits]), np.random.default_rng(0))
    check_delivery(link, delivery, 1)


def test_negative_bits_are_refused():
    with pytest.raises(InputError, match="bits = -1"):
        paper_link().radio("uplink", 10).slots_needed(-1)


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
        paper_link(max_slots=limit).deliver("uplink", bits, np.random.default_rng(3))
        for limit in (100, 110)
    )
    assert short.delivered.any()
    assert not short.delivered.all()
    assert long.delivered[short.delivered].all()
    np.testing.assert_array_equal(long.slots[short.delivered], short.slots[short.delivered])
