"""What each device can expect of a link: closed forms against enumeration and simulation."""

from itertools import combinations

import numpy as np
import pytest

from mix2fld.config.settings import ChannelConfig
from mix2fld.links import IdealLink, Link, Memoryless, RayleighLink
from mix2fld.links.budget import mean_slowest
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset

FL_BITS = 32 * 12_544
STEPS = np.array([1] * 8 + [0])


def test_the_slowest_of_any_choice_of_devices_is_the_mean_over_all_choices():
    rng = np.random.default_rng(0)
    arrived = np.sort(rng.random((6, 9)), axis=1)
    for count in range(1, 7):
        chosen = [np.prod(arrived[list(some)], axis=0) for some in combinations(range(6), count)]
        expected = np.sum(1 - np.mean(chosen, axis=0)[:-1])
        assert mean_slowest(arrived, count, STEPS) == pytest.approx(expected, rel=1e-12)
    same = np.tile(arrived[0], (6, 1))
    assert mean_slowest(same, 4, STEPS) == pytest.approx(np.sum(1 - arrived[0][:-1] ** 4))
    assert mean_slowest(arrived, 0, STEPS) == 0


def test_the_forecast_of_the_papers_link_is_its_budget():
    link = RayleighLink.from_config(ChannelConfig(), 10)
    for bits in (3200, 316_800, FL_BITS, 10**7):
        forecast = link.forecast("uplink", np.full(10, bits), {})
        budget = link.budget("uplink", bits, 10)
        assert forecast.probability == pytest.approx(budget.delivery_probability, rel=1e-12)
        assert forecast.expected_slots == pytest.approx(budget.expected_slots, rel=1e-12)
        assert forecast.round_slots == pytest.approx(budget.expected_round_slots, rel=1e-12)
        assert forecast.standard_error is None


def test_each_device_has_the_chance_of_its_own_payload():
    """Three of ten devices transmit; what the others would send takes nothing from them."""
    link = RayleighLink.from_config(ChannelConfig(max_slots=46), 10)
    bits = np.array([0, FL_BITS, 3200, 10**7])
    forecast = link.forecast("uplink", bits, {})
    for device, size in enumerate(bits.tolist()):
        budget = link.budget("uplink", size, 3)
        assert forecast.probability[device] == pytest.approx(budget.delivery_probability)
        assert forecast.expected_slots[device] == pytest.approx(budget.expected_slots)
    sampled = link.forecast("uplink", np.full(10, FL_BITS), {}, transmitting=3)
    assert sampled.probability == pytest.approx(forecast.probability[1])
    assert sampled.round_slots == pytest.approx(
        link.budget("uplink", FL_BITS, 3).expected_round_slots
    )


@pytest.mark.parametrize("transmitting", [None, 3])
def test_an_estimated_forecast_is_within_its_error_of_the_closed_form(transmitting):
    link = RayleighLink.from_config(
        ChannelConfig(max_slots=106 if transmitting is None else 46), 10
    )
    bits = np.full(10, 372_000 if transmitting is None else FL_BITS)
    exact = link.forecast("uplink", bits, {}, transmitting=transmitting)
    found = Link.forecast(link, "uplink", bits, {}, transmitting=transmitting, draws=2000)
    assert 0.2 < exact.probability[0] < 0.8
    share = exact.probability[0]
    times = 2000 if transmitting is None else 600  # that a device took part
    assert found.standard_error == pytest.approx(np.sqrt(share * (1 - share) / times), rel=0.1)
    assert (np.abs(found.probability - share) < 4.5 * found.standard_error).all()
    assert found.expected_slots == pytest.approx(exact.expected_slots, abs=0.6)
    assert found.round_slots == pytest.approx(exact.round_slots, abs=0.4)
    assert found.draws == 2000


def test_an_estimate_without_an_outage_does_not_claim_that_there_is_none():
    found = Link.forecast(IdealLink(), "uplink", np.array([5, 0]), {}, draws=50)
    assert found.probability.tolist() == [1, 1]
    assert 0 < found.standard_error[0] < 0.05
    assert found.standard_error[1] == 0


class OnlyOdd(Memoryless):
    """Reaches devices with odd numbers in odd rounds, and nobody in the others."""

    slot_seconds, max_slots = 0.001, 4

    def begin_round(self, state, seconds, rng):
        number = state.get("number", 0) + 1
        reached = np.arange(6) % 2 == (1 if number % 2 else 7)
        return reached, {"number": number, "seconds": seconds}

    def deliver(self, direction, bits, rng):
        slots = np.where(bits > 0, 2, 0)
        return Delivery(np.ones(len(bits), np.bool_), slots, slots / 2)


def test_a_link_says_who_can_be_reached_in_a_round():
    config = toy_config(protocol="mix2fld", devices=6, local_steps=2, rounds=4)
    simulation = make_simulation(config, toy_dataset(), link=OnlyOdd())
    state = simulation.start()
    asked, passed = [], []
    for _ in range(4):
        state, info = simulation.run_round(state)
        asked.append(info.asked)
        passed.append(state.link["seconds"])
    assert asked == [[1, 3, 5], [], [1, 3, 5], []]
    assert passed[0] == 0
    assert passed[1] > 0
    assert info.uploads == {"attempted": 0, "delivered": 0, "devices": []}
    assert passed[3] > passed[2] > passed[1]


def test_on_air_is_checked_like_the_rest():
    from mix2fld.base.errors import InputError
    from mix2fld.links import check_delivery

    ok, slots = np.ones(2, np.bool_), np.array([1, 2])
    check_delivery(OnlyOdd(), Delivery(ok, slots, np.array([0.5, 2.0])), 2)
    for bad in (np.array([2.0, 1.0]), np.zeros(3)):
        with pytest.raises(InputError, match="on_air"):
            check_delivery(OnlyOdd(), Delivery(ok, slots, bad), 2)
