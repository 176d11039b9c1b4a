"""Rounds in which the server reads sums alone: the same numbers as open sums, up to rounding."""

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.engine.masked_sums import PartialSum
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.links import Memoryless
from mix2fld.masking.party import Overhead
from mix2fld.protocols.weights import FL
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.private_statistics import GRID, class_sums, deviations, measure_samples
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset

MASKED = {"sums": "masked", "sample_weights": "ignored"}
SUMMED = ["fl", "fl8", "projected", "projected:share=0.2", "vote"]


def rounds(link=None, **fields):
    simulation = make_simulation(toy_config(**fields), toy_dataset(), link=link)
    scenario, fleet = simulation.scenario, simulation.fleet
    state, infos = start_run(scenario, fleet), []
    for _ in range(scenario.config.rounds):
        state, info = run_round(scenario, fleet, state)
        infos.append(info)
    return state, infos, scenario


@pytest.mark.parametrize("protocol", SUMMED)
def test_a_masked_run_is_an_open_one_up_to_the_rounding_of_its_values(protocol):
    open_, _, _ = rounds(protocol=protocol)
    masked, infos, scenario = rounds(protocol=protocol, **MASKED, sum_bits=24)
    assert infos[0].uploads["delivered"] == 4
    step = scenario.wire.protocol.grid.step
    if protocol == "fl8":  # rounded to the grid here, to the range of each array there
        step = 0.05
    pairs = zip(open_.server.weights, masked.server.weights, strict=True)
    assert all(np.abs(a - b).max() < 4 * step + 1e-5 for a, b in pairs)


def test_bits_charged_are_those_of_the_numbers_and_of_keys_and_shares():
    _, infos, scenario = rounds(protocol="fl", **MASKED, sum_bits=12)
    weights = scenario.learning.dims.num_weights
    numbers = 8 + weights * (12 + 2)  # 4 devices: a sum of 4 numbers takes two bits more
    assert infos[0].bits["up"] == 4 * (numbers + Overhead.of(4).up)
    assert infos[0].bits["down"] == 32 * weights + Overhead.of(4).down


class Losing(Memoryless):
    """Loses the uploads of some devices, round by round."""

    slot_seconds, max_slots = 0.001, 1

    def __init__(self, *lost):
        self._lost = list(lost)

    def deliver(self, direction, bits, rng):
        arrived = np.ones(len(bits), np.bool_)
        if direction == "uplink":
            arrived[list(self._lost.pop(0))] = False
        return Delivery(arrived, np.ones(len(bits), np.int64))


def test_lost_uploads_are_left_out_of_the_sum_and_too_many_leave_none():
    state, infos, scenario = rounds(Losing((2,), (0, 1)), protocol="fl", rounds=2, **MASKED)
    assert [info.uploads["devices"] for info in infos] == [[0, 1, 3], []]
    assert state.server.updates == 1  # three of four is the threshold
    open_, _, _ = rounds(Losing((2,)), protocol="fl", rounds=1, sample_weights="ignored")
    pairs = zip(open_.server.weights, state.server.weights, strict=True)
    assert all(np.abs(a - b).max() < scenario.wire.protocol.grid.step for a, b in pairs)
    assert infos[0].server["did"] == "averaged the weights of 3 devices"


def test_the_server_is_never_given_numbers_of_one_device(monkeypatch):
    """Neither the step nor the check of uploads sees more than one entry: the sum."""
    seen, step = [], FL.step

    def watched(self, server, inbox, number):
        seen.append(dict(inbox))
        return step(self, server, inbox, number)

    monkeypatch.setattr(FL, "step", watched)
    rounds(protocol="fl", **MASKED)
    assert [list(inbox) for inbox in seen] == [[-1], [-1]]
    assert all(inbox[-1].devices == 4 for inbox in seen)


@pytest.mark.parametrize("name", ["dp-sum", "dp-seeds-sum"])
def test_private_sums_have_noise_of_the_devices_alone(name, monkeypatch):
    """The whole noise is in the sum of as many devices as the threshold says."""
    fields = {"protocol": name, "feature_side": 2, "sums": "masked", "rounds": 3}
    simulation = make_simulation(toy_config(**fields), toy_dataset())
    scenario, fleet = simulation.scenario, simulation.fleet
    totals, add_up = [], fleet.add_up

    def watched(part: PartialSum):
        totals.append(add_up(part))
        return totals[-1]

    monkeypatch.setattr(fleet, "add_up", watched)
    state = start_run(scenario, fleet)
    for _ in range(3):
        state, _ = run_round(scenario, fleet, state)
    assert len(totals) == 2  # sums, then the scatter, each once
    protocol, learning = scenario.wire.protocol, scenario.learning
    exact = sum(
        np.rint(
            class_sums(measure_samples(learning, *fleet.own(d), protocol.features_of), 4) / GRID
        )
        for d in range(4)
    )
    noise = scenario.wire.masks.codec.signed(totals[0].numbers).reshape(exact.shape) - exact
    deviation = deviations(learning, protocol.features_of, on_grid=True).sums / GRID
    expected = deviation * np.sqrt(4 / 3)  # four devices, of which three have enough
    assert 0.8 * expected < np.sqrt(np.mean(noise**2)) < 1.2 * expected


def test_buffered_uploads_are_added_under_masks():
    _, infos, _ = rounds(
        protocol="fl", rounds=4, wait="buffered:3", device_step_us=(1e5, 2e5, 3e5, 7e5),
        server_step_us=0, **MASKED,
    )  # fmt: skip
    assert [info.uploads["delivered"] for info in infos] == [3] * 4
    assert any(any(info.waiting["staleness"].values()) for info in infos)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"protocol": "murmur"}, "sums = masked: a sum of the codes of Murmur has no meaning"),
        ({"protocol": "mix2fld"}, "a sum of the codes of Mix2FLD has no meaning"),
        ({"sum_threshold": 5}, "sum_threshold = 5: must be more than half of the 4 devices"),
        ({"sum_threshold": 2}, "sum_threshold = 2: must be more than half of the 4 devices"),
        ({"sample_weights": "claimed"}, "sample_weights = claimed: all devices of a sum count"),
        ({"aggregation": "median"}, "aggregation = median: needs single uploads"),
        ({"wait": "buffered:9"}, "a buffer of uploads must be a whole number from 1 to 4"),
        ({"wait": "asynchronous"}, "must be at least 2 devices in a sum"),
        ({"protocol": "projected:share=0.2", "wait": "buffered:3"}, "other directions in each"),
        ({"attack": "sign-flip"}, "attack = sign-flip: is of single uploads"),
        ({"link": "air"}, "link = air: adds signals"),
        ({"sum_bits": 24, "devices": 300, "samples_per_device": 1}, "sums of 300 devices take 33"),
        ({"protocol": "projected", "downlink": "relay"}, "downlink = relay"),
        ({"sum_threshold": 0}, "auto, or a number of devices from 1"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_under_masks_is_refused(fields, words):
    def start():
        config = toy_config(**{"protocol": "fl", **MASKED, **fields})
        start_run(*make_simulation(config, toy_dataset())[:2])

    with pytest.raises(InputError, match=words):
        start()
