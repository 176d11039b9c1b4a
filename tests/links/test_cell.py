"""Cells: the paper's link draw for draw, closed forms against simulation, and monotony."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.links import CellLink, Link, RayleighLink, check_delivery, make_link
from toys import examples

FL_BITS = 32 * 12_544


def cell(devices: int = 10, **fields: object) -> CellLink:
    link = make_link(Config.of(link="cell", devices=devices, **fields), devices)
    assert isinstance(link, CellLink)
    return link


def start(link: Link, devices: int = 10, seed: int = 0):
    return link.start(devices, stream(seed, "link"))


@pytest.mark.parametrize("direction", ["uplink", "downlink"])
@pytest.mark.parametrize("changes", [{}, {"distance_m": 1700.0, "max_slots": 40}])
def test_with_the_papers_pieces_a_cell_is_the_papers_link_draw_for_draw(direction, changes):
    mine = cell(**changes)
    papers = RayleighLink.from_config(Config.of(**changes).channel, 10)
    state = start(mine)
    for seed in range(15):
        for sizes in ([FL_BITS] * 10, [0, 1, 3200, 0, 5001, 65_920, 112_000, 120_001, 10**9, 9]):
            bits = np.array(sizes)
            found, after = mine.transmit(direction, bits, np.random.default_rng(seed), state)
            expected = papers.deliver(direction, bits, np.random.default_rng(seed))
            np.testing.assert_array_equal(found.delivered, expected.delivered)
            np.testing.assert_array_equal(found.slots, expected.slots)
            np.testing.assert_array_equal(found.on_air, expected.slots)
            assert after is state


def test_with_the_papers_pieces_a_cell_has_the_papers_forecast():
    mine, papers = cell(), RayleighLink.from_config(Config().channel, 10)
    bits = np.array([0, 3200, 316_800, FL_BITS, FL_BITS, 10**8, 1, 1, 1, 1])
    for direction in ("uplink", "downlink"):
        found = mine.forecast(direction, bits, start(mine))
        expected = papers.forecast(direction, bits, {})
        for name in ("probability", "expected_slots", "on_air_slots", "round_slots"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
    assert mine.budget("uplink", 316_800, 10).delivery_probability == pytest.approx(
        papers.budget("uplink", 316_800, 10).delivery_probability
    )


RING = {"ring_m": (300.0, 1500.0)}
CLOSED = {
    "ring": {**RING},
    "shadowing": {**RING, "shadowing_db": 6.0, "max_slots": 60},
    "tdma": {**RING, "sharing": "tdma", "max_slots": 300},
    "dedicated": {**RING, "sharing": "dedicated", "uplink_channels": 0.2},
    "rician": {**RING, "fading": "rician", "rician_k_db": 3.0},
    "no fading": {**RING, "fading": "none", "shadowing_db": 8.0},
    "optimal": {**RING, "rate": "optimal", "max_slots": 12},
    "given": {**RING, "rate": "given", "uplink_bps": 4e7, "downlink_bps": 2e7},
    "duty cycle": {**RING, "uplink_duty_cycle": 0.25, "max_slots": 400, "delay_ms": 5.0},
    "packets": {**RING, "packet_bytes": 1000, "header_bytes": 40, "retransmissions": 2},
    "umi": {"path_loss": "umi", "ring_m": (10.0, 400.0), "extra_loss_db": 20.0},
    "multicast mcs": {**RING, "rate": "amc", "downlink_mcs": "64qam", "max_slots": 12},
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_within_the_error_of_a_simulation(name):
    """Each chance within 4.5 standard errors, each mean of slots likewise; 20 devices x 2 sides."""
    link = cell(**CLOSED[name])
    state = link.lasting(start(link))
    for direction in ("uplink", "downlink"):
        bits = np.where(np.arange(10) % 3, 200_000, 40_000)
        if name == "multicast mcs" and direction == "uplink":
            continue
        exact = link.forecast(direction, bits, state)
        assert exact.draws == 0
        draws = 3000
        found = link._by_simulation(direction, bits, state, 10, draws)
        assert found.standard_error is not None
        # A chance that is 0 or 1 to within 1 / draws may not have been met.
        slack = 4.5 * found.standard_error + 4 / draws
        assert (np.abs(found.probability - exact.probability) < slack).all()
        for mean in ("expected_slots", "on_air_slots"):
            most = 4.5 * link.max_slots * found.standard_error + 0.03 * getattr(exact, mean) + 0.1
            assert (np.abs(getattr(found, mean) - getattr(exact, mean)) < most).all(), mean
        share = exact.round_slots / link.max_slots  # bounds the variance of the slowest
        most = 4.5 * link.max_slots * math.sqrt(share * (1 - share) / draws)
        assert abs(found.round_slots - exact.round_slots) <= most + 1e-6


def test_the_forecasts_of_the_closed_forms_are_not_all_trivial():
    shares = []
    for fields in CLOSED.values():
        link = cell(**fields)
        bits = np.where(np.arange(10) % 3, 200_000, 40_000)
        shares.append(
            link.forecast("uplink", bits, link.lasting(start(link)), draws=20).probability
        )
    between = [(share > 0.02) & (share < 0.98) for share in shares]
    assert sum(each.any() for each in between) >= 6


STEADY = [{}, {"sharing": "tdma"}, {"sharing": "dedicated"}]
RATES = [{}, {"rate": "optimal"}, {"rate": "given", "uplink_bps": 3e7, "downlink_bps": 2e7}]
FADINGS = [{}, {"fading": "rician"}, {"shadowing_db": 7.0}, {"fading": "none", "shadowing_db": 4.0}]
PACKETS = [{}, {"packet_bytes": 200, "header_bytes": 20, "retransmissions": 3}]


@given(
    sharing=st.sampled_from(STEADY),
    rate=st.sampled_from(RATES),
    fading=st.sampled_from(FADINGS),
    packets=st.sampled_from(PACKETS),
    direction=st.sampled_from(["uplink", "downlink"]),
    power=st.floats(5, 45),
    more_power=st.floats(0, 20),
    distance=st.floats(100, 4000),
    nearer=st.floats(0.2, 1),
    bits=st.integers(1, 10**6),
    fewer=st.floats(0, 1),
)
@examples(60)
def test_more_power_less_distance_fewer_bits_never_lower_the_chance(
    sharing, rate, fading, packets, direction, power, more_power, distance, nearer, bits, fewer
):
    pieces = {**sharing, **rate, **fading, **packets, "max_slots": 60}

    def chance(power_dbm, distance_m, size):
        fields = {"uplink_power_dbm": power_dbm, "downlink_power_dbm": power_dbm}
        link = cell(3, distances_m=(distance_m, 700.0, 900.0), **fields, **pieces)
        state = link.lasting(start(link, 3))
        return link.forecast(direction, np.array([size, 5000, 5000]), state).probability[0]

    before = chance(power, distance, bits)
    assert chance(power + more_power, distance, bits) >= before - 1e-9
    assert chance(power, distance * nearer, bits) >= before - 1e-9
    if direction == "uplink" or rate != {"rate": "optimal"}:  # all listeners get the same bits
        assert chance(power, distance, max(1, int(bits * fewer))) >= before - 1e-9


SIMULATED = {
    "amc": {"rate": "amc"},
    "amc, no harq": {"rate": "amc", "harq": 0, "uplink_mcs": "16qam"},
    "round robin": {"sharing": "round-robin", "resource_blocks": 7},
    "proportional fair": {"sharing": "proportional-fair"},
    "proportional fair amc": {"sharing": "proportional-fair", "rate": "amc"},
    "aloha": {"sharing": "aloha"},
    "doppler": {"doppler_hz": 10.0},
    "doppler rician": {"doppler_hz": 40.0, "fading": "rician"},
}


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_links_keep_their_promises_and_gain_by_power_nearness_and_fewer_bits(name):
    """Steps of 3 dB, half the distance, half the bits; within 4.5 standard errors."""
    fields = {"max_slots": 40, "ring_m": (300.0, 1800.0), **SIMULATED[name]}
    link = cell(**fields)
    bits = np.full(10, 150_000 if "amc" in name else 60_000)
    state = link.lasting(start(link))
    before = link.forecast("uplink", bits, state, draws=1000)
    assert before.draws == 1000
    louder = cell(**fields, uplink_power_dbm=26.0).forecast("uplink", bits, state, draws=1000)
    near = {**state, "distance_m": state["distance_m"] / 2}
    nearer = link.forecast("uplink", bits, near, draws=1000)
    smaller = link.forecast("uplink", bits // 2, state, draws=1000)
    for after in (louder, nearer, smaller):
        error = np.hypot(before.standard_error, after.standard_error)
        assert (after.probability >= before.probability - 4.5 * error).all()
        assert after.probability.mean() > before.probability.mean()
    assert before.probability.min() < 0.95
    assert before.probability.max() > 0.05
    for seed in range(5):
        rng = stream(seed, "uplink", 1)
        delivery, _ = link.transmit("uplink", bits, rng, start(link))
        check_delivery(link, delivery, 10)
        assert delivery.on_air is not None
        assert (delivery.on_air[delivery.delivered] > 0).all()


@pytest.mark.parametrize("name", SIMULATED)
def test_one_draw_of_the_channel_serves_every_payload(name):
    """With the same generator, a device that sends less is done no later, if others send the same.

    Only where others' success decides about a device's share can that differ.
    """
    link = cell(max_slots=60, ring_m=(300.0, 1800.0), **SIMULATED[name])
    state = start(link)
    for seed in range(10):
        small = np.full(10, 80_000)
        small[0] = 20_000
        little, _ = link.transmit("uplink", small, stream(seed, "uplink", 1), state)
        much, _ = link.transmit("uplink", np.full(10, 80_000), stream(seed, "uplink", 1), state)
        assert little.slots[0] <= much.slots[0]
        if "sharing" not in SIMULATED[name]:
            np.testing.assert_array_equal(little.slots[1:], much.slots[1:])
