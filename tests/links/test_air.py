"""Over-the-air computation against its closed forms."""

import math

import numpy as np
import pytest
from scipy.special import exp1

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.links import make_link
from mix2fld.links.channels.air import CONTROL_BITS, PILOTS, AirLink
from mix2fld.runs.simulation import make_simulation
from toys import toy_config, toy_dataset

PAPER = {"link": "air"}


def air(devices: int = 10, **fields: object) -> AirLink:
    link = make_link(Config.of(**{**PAPER, **fields}), devices)
    assert isinstance(link, AirLink)
    return link


def test_the_signal_of_a_device_is_as_strong_as_truncated_inversion_makes_it() -> None:
    """P r^-alpha / (W N_0 E_1(g)), by the numbers of the paper's link."""
    power, band, noise = 10 ** ((23 - 30) / 10), 2 * 10e6, 10 ** ((-174 - 30) / 10)
    expected = power * 1000.0**-4 / (band * noise) / exp1(0.1)
    assert air().snr == pytest.approx(expected, rel=1e-9)


def test_mean_power_is_that_of_a_digital_transmitter() -> None:
    """rho / h where h >= g, and nothing elsewhere, over many draws of the channel."""
    link, gains = air(), np.random.default_rng(0).exponential(size=2_000_000)
    power = link.snr / link.digital.radio("uplink", 1).mean_snr  # rho, in units of P
    spent = np.where(gains >= link.truncation, power / gains, 0.0).mean()
    assert spent == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("devices", [2, 50])
def test_noise_of_the_mean_is_that_of_the_closed_form(devices: int) -> None:
    """Deviation of scale / (heard sqrt(snr)), with the gain that pilots measure."""
    link, rng = air(devices), np.random.default_rng(1)
    signals = np.tile(rng.normal(size=link.values_per_slot), (devices, 1))
    scale, errors, heard = math.sqrt(np.mean(signals[0] ** 2)), list[float](), 0
    for _ in range(40):
        found = link.superpose(signals, np.ones(devices), rng)
        if found is None:
            continue
        gain = float(found @ signals[0] / (signals[0] @ signals[0]))
        errors.append(float(np.var(found - gain * signals[0])))
        heard += 1
    counts = np.arange(1, devices + 1)
    chance = np.array(
        [math.comb(devices, n) * math.exp(-0.1 * n) * (1 - math.exp(-0.1)) ** (devices - n)
         for n in counts]
    )  # fmt: skip
    expected = scale**2 / link.snr * float(np.sum(chance / counts**2) / chance.sum())
    assert heard >= 38
    assert np.mean(errors) == pytest.approx(expected, rel=0.25)


def test_a_fleet_that_nobody_hears_leaves_nothing() -> None:
    link = air(3, air_truncation=10.0)
    assert link.superpose(np.ones((3, 10)), np.ones(3), np.random.default_rng(0)) is None


def test_the_uplink_takes_as_long_for_many_devices_as_for_few() -> None:
    values = np.full(100, 12_544)
    slots = air(100).deliver("uplink", values, np.random.default_rng(0)).slots
    assert slots.max() - 1 <= 2 * 6  # control both ways, then one slot
    assert air().uses_per_slot == 20_000
    assert air().values_per_slot == 2 * (20_000 - PILOTS)
    assert CONTROL_BITS == 32


@pytest.mark.parametrize(
    "protocol", ["fl", "projected", "projected:share=0.25", "vote", "feedsign:bits=8"]
)
def test_a_round_over_the_air_learns_from_the_sum_alone(protocol: str) -> None:
    config = toy_config(**{**PAPER, "protocol": protocol, "rounds": 2, "uplink_power_dbm": 23.0})
    simulation = make_simulation(config, toy_dataset())
    state = simulation.start()
    for _ in range(2):
        state, info = simulation.run_round(state)
    assert info.uploads["delivered"] == 4
    assert state.server.updates == 2
    assert info.scores["global"] is not None


def test_what_is_left_out_of_a_projection_is_due_next() -> None:
    """With feedback, two halves of an update that share no direction would be the whole of it."""
    config = toy_config(protocol="projected:share=0.5", link="ideal", rounds=1)
    simulation = make_simulation(config, toy_dataset())
    state, info = simulation.run_round(simulation.start())
    residual = [part for device in state.devices for part in device["residual"]]
    assert sum(float(np.sum(part**2)) for part in residual) > 0
    assert info.bits["up"] == 4 * 32 * round(simulation.scenario.learning.dims.num_weights / 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"slot_ms": 0.001}, "slot_ms = 0.001: a slot has 20 channel uses"),
        ({"protocol": "mix2fld"}, "Mix2FLD.*a sum of these has no meaning"),
        ({"wait": "buffered:2"}, r"wait = buffered:2.*must be all"),
        ({"protocol": "projected:share=2"}, "share=2: must be above 0 and at most 1"),
        ({"protocol": "vote:step_size=0"}, "step_size=0: must be above 0"),
    ],
)
def test_bad_input(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_simulation(toy_config(**{"protocol": "fl", **PAPER, **fields}), toy_dataset())
