"""Closed forms against the paper's numbers, exact enumeration, textbook limits and simulation."""

import json
import math
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.settings import ChannelConfig
from mix2fld.links import IdealLink, Link, Memoryless, RayleighLink
from mix2fld.links.channels.rayleigh import Transmitter
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset

FL_BITS = 32 * 12_544


def one_bit_slots(success: float, max_slots: int, devices: int = 1) -> RayleighLink:
    """A link whose slots carry one bit and are decoded with probability ``success``."""
    one = Transmitter(bandwidth_hz=1.0, power_w=-1 / math.log(success), snr_threshold=1.0)
    return RayleighLink(
        replace(one, bandwidth_hz=float(devices)), one, 1.0, 2.0, 1.0, 1.0, max_slots
    )


@pytest.mark.parametrize(
    ("max_slots", "asymmetric", "symmetric"),
    [(100, 0, 0), (105, 0.006, 1.0), (110, 0.19, 1.0), (114, 0.59, 1.0), (120, 0.95, 1.0)],
)
def test_success_of_an_fl_upload(max_slots, asymmetric, symmetric):
    for power, expected in ((23, asymmetric), (40, symmetric)):
        config = ChannelConfig(max_slots=max_slots, uplink_power_dbm=power)
        result = RayleighLink.from_config(config, 10).budget("uplink", FL_BITS, 10)
        assert result.slots_needed == 101
        assert result.fits == (max_slots >= 101)
        digits = 3 if expected == 0.006 else 2
        assert round(result.delivery_probability, digits) == expected
        assert result.expected_delivered == 10 * result.delivery_probability


@pytest.mark.parametrize("success", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("needed", [1, 3, 7, 8, 9])
@pytest.mark.parametrize("devices", [1, 4])
def test_closed_form_is_the_sum_over_all_fading_outcomes(success, needed, devices):
    max_slots = 8
    chance = np.zeros(max_slots + 1)  # of a latency of t slots; index 0 is an outage
    for outcome in product((0, 1), repeat=max_slots):
        decoded = np.cumsum(outcome)
        latency = int(np.argmax(decoded >= needed)) + 1 if decoded[-1] >= needed else 0
        chance[latency] += success ** sum(outcome) * (1 - success) ** (max_slots - sum(outcome))
    arrives = chance[1:].sum()
    times = np.arange(1, max_slots + 1)
    at_most = np.cumsum(chance[1:]) ** devices
    at_most[-1] = 1  # an outage ends at T_max too
    result = one_bit_slots(success, max_slots, devices).budget("uplink", needed, devices)

    assert result.slot_success == pytest.approx(success)
    assert result.delivery_probability == pytest.approx(arrives, abs=1e-14)
    assert result.expected_delivered == pytest.approx(devices * arrives, abs=1e-14)
    assert result.expected_slots == pytest.approx(chance[1:] @ times + chance[0] * max_slots)
    assert result.expected_round_slots == pytest.approx(times @ np.diff(at_most, prepend=0))
    if needed > max_slots:
        assert not result.fits
        assert result.mean_slots_if_delivered is None
    else:
        assert result.mean_slots_if_delivered == pytest.approx(chance[1:] @ times / arrives)


@pytest.mark.parametrize(
    ("direction", "bits"), [("uplink", FL_BITS), ("downlink", FL_BITS), ("uplink", 65_920)]
)
def test_simulation_agrees_with_the_closed_form(direction, bits):
    """Within the 99.99 % binomial interval, and for means within 4 standard errors."""
    devices, draws = 10, 3000
    link = RayleighLink.from_config(ChannelConfig(max_slots=110), devices)
    expected = link.budget(direction, bits, devices)
    rng = np.random.default_rng(3)
    sent = [link.deliver(direction, np.full(devices, bits), rng) for _ in range(draws)]
    delivered = np.stack([delivery.delivered for delivery in sent])
    slots = np.stack([delivery.slots for delivery in sent])

    interval = stats.binomtest(int(delivered.sum()), delivered.size).proportion_ci(0.9999)
    assert interval.low <= expected.delivery_probability <= interval.high
    for sample, mean in (
        (slots.ravel(), expected.expected_slots),
        (slots[delivered], expected.mean_slots_if_delivered),
        (slots.max(axis=1), expected.expected_round_slots),
        (delivered.sum(axis=1), expected.expected_delivered),
    ):
        error = sample.std() / math.sqrt(sample.size)
        # A sample without any spread still leaves rare outcomes open that it did not meet.
        assert abs(sample.mean() - mean) <= 4 * error + 10 / sample.size


def test_without_fading_the_latency_is_fixed():
    link = RayleighLink.from_config(ChannelConfig(distance_m=1e-3), 10)
    result = link.budget("uplink", FL_BITS, 10)
    assert result.slot_success == 1.0
    assert result.delivery_probability == 1.0
    for slots in (
        result.mean_slots_if_delivered,
        result.expected_slots,
        result.expected_round_slots,
    ):
        assert slots == pytest.approx(101, rel=1e-12)


def test_one_slot_is_a_geometric_latency():
    success, devices, max_slots = 0.3, 5, 400
    result = one_bit_slots(success, max_slots, devices).budget("uplink", 1, devices)
    fail = 1 - success
    assert result.mean_slots_if_delivered == pytest.approx(1 / success)
    assert result.expected_slots == pytest.approx(1 / success)
    # The largest of D geometric variables, by inclusion and exclusion.
    slowest = sum(
        (-1) ** (k + 1) * math.comb(devices, k) / (1 - fail**k) for k in range(1, devices + 1)
    )
    assert result.expected_round_slots == pytest.approx(slowest)

    short = one_bit_slots(success, 4).budget("uplink", 1, 1)
    assert short.delivery_probability == pytest.approx(1 - fail**4)
    assert short.expected_slots == pytest.approx((1 - fail**4) / success)


def test_many_slots_take_n_over_q_on_average():
    result = one_bit_slots(0.25, 4000).budget("uplink", 200, 1)
    assert result.expected_slots == pytest.approx(200 / 0.25)


def test_rare_deliveries_keep_their_conditional_mean():
    """For tiny q the deliveries that do occur are spread like a random choice of n of the slots."""
    needed, max_slots = 20, 50
    result = one_bit_slots(1e-14, max_slots).budget("uplink", needed, 1)
    assert 0 < result.delivery_probability < 1e-200
    last_of_choice = needed * (max_slots + 1) / (needed + 1)
    assert result.mean_slots_if_delivered == pytest.approx(last_of_choice)


def test_nothing_to_send_takes_no_time():
    for link in (one_bit_slots(0.5, 10), IdealLink()):
        result = link.budget("downlink", 0, 3)
        assert result.fits
        assert result.delivery_probability == 1
        assert result.expected_delivered == 3
        assert result.expected_round_slots == result.expected_slots == 0


def test_an_ideal_link_takes_no_time():
    result = IdealLink().budget("uplink", FL_BITS, 10)
    assert result.fits
    assert result.delivery_probability == result.slot_success == 1
    assert result.expected_round_slots == result.mean_slots_if_delivered == 0
    assert result.expected_delivered == 10


@given(
    distance_m=st.floats(1e-6, 1e6),
    bits=st.integers(0, 10**15),
    max_slots=st.integers(1, 2000),
    devices=st.integers(1, 60),
)
def test_numbers_hang_together_at_any_scale(distance_m, bits, max_slots, devices):
    config = ChannelConfig(distance_m=distance_m, max_slots=max_slots)
    result = RayleighLink.from_config(config, devices).budget("uplink", bits, devices)
    p, mean = result.delivery_probability, result.mean_slots_if_delivered
    assert 0 <= p <= 1
    assert p == 0 or result.fits
    assert -1e-9 <= result.expected_slots <= result.expected_round_slots * (1 + 1e-9) + 1e-9
    assert result.expected_round_slots <= max_slots * (1 + 1e-12)
    if mean is None:
        assert p == 0
    else:
        assert result.slots_needed <= mean * (1 + 1e-9)
        assert mean <= max_slots * (1 + 1e-9)
        assert result.expected_slots == pytest.approx(p * mean + (1 - p) * max_slots, rel=1e-7)
    assert json.loads(json.dumps(asdict(result), allow_nan=False)) == asdict(result)


class TwoStateLink(Memoryless):
    """A custom link: each transfer takes 2 slots, or fails with probability 1/4."""

    slot_seconds = 0.01
    max_slots = 8

    def deliver(self, direction, bits, rng):
        delivered = rng.random(len(bits)) >= 0.25
        return Delivery(delivered, np.where(delivered, 2, self.max_slots))


def test_a_custom_link_is_estimated():
    result = TwoStateLink().budget("uplink", 1000, devices=3, draws=4000)
    assert result == TwoStateLink().budget("uplink", 1000, devices=3, draws=4000)
    assert result.draws == 4000
    assert result.fits
    assert result.slots_needed is result.slot_success is None
    assert result.mean_slots_if_delivered == pytest.approx(2)
    interval = stats.binomtest(round(12_000 * result.delivery_probability), 12_000)
    low, high = interval.proportion_ci(0.9999)
    assert low <= 0.75 <= high
    assert result.expected_delivered == pytest.approx(3 * result.delivery_probability)
    assert result.expected_slots == pytest.approx(2 + 6 * (1 - result.delivery_probability))
    assert result.expected_round_slots == pytest.approx(2 + 6 * (1 - 0.75**3), abs=0.2)
    assert TwoStateLink().budget("uplink", 1000, 3).draws > 0


def test_the_estimate_of_a_rayleigh_link_is_near_its_closed_form():
    link = RayleighLink.from_config(ChannelConfig(), 10)
    exact = link.budget("uplink", 316_800, 10)
    guess = Link.forecast(link, "uplink", np.full(10, 316_800), {}).as_budget()
    assert exact.draws == 0 < guess.draws
    assert guess.delivery_probability == pytest.approx(exact.delivery_probability, abs=0.02)
    assert guess.expected_round_slots == pytest.approx(exact.expected_round_slots, abs=0.5)


def test_a_payload_that_never_arrives():
    link = RayleighLink.from_config(ChannelConfig(max_slots=100), 10)
    guess = Link.forecast(link, "uplink", np.full(10, FL_BITS), {}, draws=20).as_budget()
    assert not guess.fits
    assert guess.mean_slots_if_delivered is None
    assert guess.expected_round_slots == 100


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"bits": -1}, "bits = -1"),
        ({"devices": 0}, "devices = 0"),
        ({"draws": 0}, "draws = 0"),
    ],
)
def test_bad_numbers_are_refused(arguments, named):
    with pytest.raises(InputError, match=named):
        TwoStateLink().budget("uplink", **{"bits": 1, "devices": 1, **arguments})


@pytest.mark.parametrize("link", [RayleighLink.from_config(ChannelConfig(), 10), IdealLink()])
@pytest.mark.parametrize(
    ("arguments", "named"), [({"bits": -1}, "bits = -1"), ({"devices": 0}, "devices = 0")]
)
def test_a_closed_form_refuses_the_same(link, arguments, named):
    with pytest.raises(InputError, match=named):
        link.budget("uplink", **{"bits": 1, "devices": 1, **arguments})


def test_three_of_ten_devices_that_transmit_have_the_closed_form_of_three():
    """Simulated with seven idle devices beside them; others would have a smaller share."""
    link, draws = RayleighLink.from_config(ChannelConfig(max_slots=46), 10), 3000
    bits = np.where(np.isin(np.arange(10), [1, 4, 8]), FL_BITS, 0)
    rng = np.random.default_rng(5)
    sent = [link.deliver("uplink", bits, rng) for _ in range(draws)]
    delivered = np.stack([delivery.delivered[bits > 0] for delivery in sent])
    slots = np.stack([delivery.slots[bits > 0] for delivery in sent])
    expected = link.budget("uplink", FL_BITS, 3)
    assert expected.slots_needed == math.ceil(FL_BITS / (40_000 / 3)) == 31
    interval = stats.binomtest(int(delivered.sum()), delivered.size).proportion_ci(0.9999)
    assert interval.low <= expected.delivery_probability <= interval.high
    assert 0.01 < expected.delivery_probability < 0.99
    for sample, mean in (
        (slots.ravel(), expected.expected_slots),
        (slots.max(axis=1), expected.expected_round_slots),
        (delivered.sum(axis=1), expected.expected_delivered),
    ):
        assert abs(sample.mean() - mean) <= 4 * sample.std() / math.sqrt(sample.size)
    for devices in (2, 4, 10):
        assert (
            not interval.low
            <= link.budget("uplink", FL_BITS, devices).delivery_probability
            <= (interval.high)
        )


class GilbertElliott(Link):
    """Each device is in a good or a bad state and moves on between transmissions; bad is lost."""

    slot_seconds = 0.01
    max_slots = 6
    to_bad, to_good = 0.1, 0.3

    def start(self, devices, rng):
        del rng
        return {"good": np.ones(devices, np.bool_)}

    def transmit(self, direction, bits, rng, state):
        moved = rng.random(len(bits))
        good = np.where(state["good"], moved >= self.to_bad, moved < self.to_good)
        delivered = good | (bits == 0)
        return Delivery(delivered, np.where(delivered, 1, self.max_slots)), {"good": good}


def test_the_forecast_of_a_link_with_a_state_follows_its_states():
    """Of devices in the good state the share 1 - to_bad stays there, of others to_good gets there;
    in the long run the share in it is that of the chain: to_good / (to_good + to_bad)."""
    link, bits, rng = GilbertElliott(), np.full(5, 8), np.random.default_rng(0)
    for good, share in ((True, 0.9), (False, 0.3)):
        state = {"good": np.full(5, good)}
        found = link.forecast("uplink", bits, state, draws=4000).probability
        assert found == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000))
    state, delivered = link.start(5, rng), []
    for _ in range(4000):
        sent, state = link.transmit("uplink", bits, rng, state)
        delivered.append(sent.delivered.mean())
    # A chain with correlation 0.6 has (1 + 0.6) / (1 - 0.6) = 4 times the variance of free draws.
    error = math.sqrt(0.75 * 0.25 / 20_000 * 4)
    assert np.mean(delivered) == pytest.approx(0.75, abs=4 * error)


def test_the_state_of_a_link_is_carried_from_round_to_round():
    """Uplink and downlink of every round continue one chain for each device, as a loop has it."""
    link, config = GilbertElliott(), toy_config(protocol="fl", devices=6, local_steps=2, rounds=6)
    simulation = make_simulation(config, toy_dataset(), link=link)
    state = simulation.start()
    good, carried = [True] * 6, []
    for number in range(1, config.rounds + 1):
        state, info = simulation.run_round(state)
        arrived = {}
        for direction in ("uplink", "downlink"):
            moved = stream(0, direction, number).random(6)
            for d in range(6):
                good[d] = moved[d] >= 0.1 if good[d] else moved[d] < 0.3
            arrived[direction] = [d for d in range(6) if good[d]]
        assert info.uploads["devices"] == arrived["uplink"]
        assert info.downloads["devices"] == arrived["downlink"]
        assert state.link["good"].tolist() == good
        carried.append(tuple(good))
    assert len(set(carried)) > 2
