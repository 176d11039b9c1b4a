"""The pieces of a cell against the standard's formulas, theory, and another implementation.

Numbers of Sionna are those of version 2.2.0 (Apache-2.0), run in an environment of its own; it has
the velocity of light exactly, where TR 38.901 rounds it to 3.0e8 m/s: 0.006 dB beyond a breakpoint.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.links import make_link
from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.geometry import Geometry
from mix2fld.links.channels.mcs import TABLES, TARGET_ERRORS, schemes
from mix2fld.links.channels.packets import Packets, arrived_by, log_chances
from mix2fld.links.channels.path_loss import MODELS, from_db
from mix2fld.links.channels.rate import AdaptiveScheme, Demand, OptimalTarget, Signals
from mix2fld.links.channels.sharing import Aloha, ProportionalFair, RoundRobin, Slot, Tdma, Turns

SIONNA = {
    ("umi", 2.0): (
        [10, 25, 100, 200, 600, 2000, 5000],
        [61.9003, 68.2762, 80.4534, 90.9467, 110.0176, 130.9312, 146.8487],
        [68.2801, 78.9977, 99.4671, 110.0521, 126.8822, 145.3384, 159.3856],
        [1.0, 0.8598, 0.2310, 0.0935, 0.0300, 0.0090, 0.0036],
    ),
    ("uma", 6.0): (
        [10, 25, 100, 500, 1200, 5000],
        [74.5216, 77.3426, 87.8198, 102.9509, 113.0450, 137.8334],
        [84.0967, 89.1078, 107.7192, 134.5975, 149.4407, 173.6590],
        [1.0, 0.9083, 0.3477, 0.0363, 0.0150, 0.0036],
    ),
    ("rma", 0.8): (
        [10, 100, 1000, 3000, 5000],
        [61.4608, 71.3789, 93.5580, 112.6342, 121.5075],
        [61.4608, 79.8542, 117.6047, 136.0292, 144.5993],
        [1.0, 0.9139, 0.3716, 0.0503, 0.0068],
    ),
    ("inh", 28.0): (
        [1, 3, 10, 50, 150],
        [67.3893, 70.9788, 78.7905, 90.7413, 98.9902],
        [67.3893, 74.6663, 91.9604, 118.4181, 136.6800],
        [1.0, 0.6818, 0.2874, 0.0843, 0.0039],
    ),
}
"""Distances, loss with and without a line of sight, chance of one."""
SIONNA_LDPC = [
    (2, 308, -1.63),
    (2, 449, 0.68),
    (2, 602, 2.65),
    (4, 378, 4.48),
    (4, 490, 6.34),
    (4, 616, 8.32),
    (6, 466, 9.98),
    (6, 567, 11.98),
    (6, 666, 13.75),
    (6, 772, 15.73),
    (6, 873, 17.78),
    (6, 948, 19.64),
    (8, 711, 19.27),
    (8, 797, 21.33),
    (8, 885, 23.40),
]
"""Bits of a symbol, code rate x 1024, SNR in dB at 10 % BLER of blocks of 1,000 bits, interpolated
in its tables PDSCH_table1 and PDSCH_table2."""


def model(name: str, carrier_ghz: float):
    kind = MODELS[name]
    return kind(carrier_ghz, *kind.heights_m, *([4.0] if name == "power-law" else []))


@pytest.mark.parametrize(("name", "carrier"), SIONNA)
def test_path_loss_is_that_of_sionna(name, carrier):
    distances, seen, hidden, chance = map(np.array, SIONNA[name, carrier])
    found = model(name, carrier)
    assert found.with_sight(distances) == pytest.approx(seen, abs=0.0065)
    assert found.without_sight(distances) == pytest.approx(hidden, abs=6e-5)
    assert found.chance_of_sight(distances.astype(float)) == pytest.approx(chance, abs=6e-5)


def test_path_loss_by_hand():
    """Table 7.4.1-1 with numbers put in."""
    at = np.array([100.0])
    across = math.hypot(100, 10 - 1.5)
    expected = 32.4 + 21 * math.log10(across) + 20 * math.log10(2)
    assert model("umi", 2.0).with_sight(at) == pytest.approx([expected])
    assert expected == pytest.approx(80.4534, abs=1e-4)
    corner = 4 * 9 * 0.5 * 2e9 / 3e8  # d'_BP = 120 m
    far = 32.4 + 40 * math.log10(math.hypot(500, 8.5)) + 20 * math.log10(2)
    far -= 9.5 * math.log10(corner**2 + 8.5**2)
    assert model("umi", 2.0).with_sight(np.array([500.0])) == pytest.approx([far])
    hidden = 13.54 + 39.08 * math.log10(math.hypot(300, 23.5)) + 20 * math.log10(3.5)
    assert model("uma", 3.5).without_sight(np.array([300.0])) == pytest.approx([hidden])
    assert model("uma", 3.5).chance_of_sight(np.array([18.0, 63.0])) == pytest.approx(
        [1.0, 18 / 63 + math.exp(-1) * (1 - 18 / 63)]
    )
    assert model("rma", 2.0).chance_of_sight(np.array([1010.0])) == pytest.approx([math.exp(-1)])
    assert model("inh", 2.0).chance_of_sight(np.array([39.1])) == pytest.approx([0.32 / math.e])
    friis = 20 * math.log10(600e3) + 20 * math.log10(2e9) - 147.56
    assert model("free-space", 2.0).with_sight(np.array([600e3])) == pytest.approx(
        [friis], abs=0.01
    )


@pytest.mark.parametrize("name", MODELS)
def test_losses_grow_with_distance_and_are_no_smaller_without_a_line_of_sight(name):
    found = model(name, 2.0)
    low, high = found.distances_m
    distances = np.geomspace(max(low, 1.0), min(high, 1e6), 4000)
    for losses in (found.with_sight(distances), found.without_sight(distances)):
        assert (np.diff(losses) >= -1e-9).all()
    assert (found.without_sight(distances) >= found.with_sight(distances)).all()
    assert (np.diff(found.chance_of_sight(distances)) <= 1e-9).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"path_loss": "rma", "carrier_ghz": 60.0},
            "carrier_ghz = 60: path_loss = rma is made for 0.5 to 30 GHz",
        ),
        (
            {"path_loss": "umi", "carrier_ghz": 0.1, "distance_m": 100.0},
            "carrier_ghz = 0.1: path_loss = umi is made for 0.5 to 100 GHz",
        ),
        ({"path_loss": "inh"}, "distance = 1000 m: path_loss = inh is made for 1 to 150 m"),
        ({"path_loss": "uma", "device_height_m": 20.0}, "device_height_m = 20"),
        ({"path_loss": "hata"}, "path_loss = 'hata': no such model; known: free-space, inh"),
        ({"distances_m": (100.0, 200.0)}, "distances_m: 2 distances; must be one for each of dev"),
        ({"distances_m": (-5.0,) * 10}, "distances_m = -5.0: must be greater than 0"),
        ({"ring_m": (-1.0, 5.0)}, "ring_m = -1, 5: must be two distances above 0"),
        ({"ring_m": (500.0, 50.0)}, "ring_m = 500, 50: must be two distances above 0, the near"),
        ({"distance_m": -3.0}, "distance_m = -3.0: must be greater than 0"),
        ({"uplink_duty_cycle": 0.0}, "uplink_duty_cycle = 0.0: must be greater than 0"),
        ({"downlink_duty_cycle": 1.5}, "downlink_duty_cycle = 1.5: must be less than or equal"),
        ({"delay_ms": 200.0}, "delay_ms = 200: must be below T_max"),
    ],
)
def test_bad_cells_get_one_message(fields, message):
    with pytest.raises(InputError) as error:
        make_link(Config.of(link="cell", **fields), 10)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_devices_are_uniform_in_their_ring_and_shadowing_keeps_its_spread_and_its_memory():
    fields = {"ring_m": (200.0, 900.0), "shadowing_db": 7.0, "shadowing_memory": 0.8}
    geometry = Geometry.from_config(Config.of(**fields))
    rng = np.random.default_rng(1)
    count = 40_000
    state = geometry.place(count, rng)
    share = (state["distance_m"] ** 2 - 200**2) / (900**2 - 200**2)
    assert stats.kstest(share, "uniform").pvalue > 1e-4
    first = state["shadowing_db"]
    after = geometry.wander(state, rng)
    later = geometry.wander(after, rng)
    for one in (state, after, later):
        assert one["shadowing_db"].std() == pytest.approx(7.0, rel=4.5 / math.sqrt(2 * count))
    for one, memory in ((after, 0.8), (later, 0.64)):
        found = np.corrcoef(first, one["shadowing_db"])[0, 1]
        assert found == pytest.approx(memory, abs=4.5 * (1 - memory**2) / math.sqrt(count))
    np.testing.assert_array_equal(after["distance_m"], state["distance_m"])


def test_lines_of_sight_are_as_frequent_as_the_model_says():
    geometry = Geometry.from_config(Config.of(path_loss="umi", distance_m=60.0))
    state = geometry.place(20_000, np.random.default_rng(2))
    chance = float(geometry.path_loss.chance_of_sight(np.array([60.0]))[0])
    interval = stats.binomtest(int(state["in_sight"].sum()), 20_000).proportion_ci(0.9999)
    assert interval.low <= chance <= interval.high
    spread = state["shadowing_db"][state["in_sight"]].std()
    assert spread == pytest.approx(4.0, rel=0.05)
    assert state["shadowing_db"][~state["in_sight"]].std() == pytest.approx(7.82, rel=0.05)


@pytest.mark.parametrize("doppler_hz", [3.0, 10.0, 100.0])
def test_correlated_fading_follows_clarke_from_slot_to_slot(doppler_hz):
    """Power of mean one, exponential; field correlated by J_0(2 pi f T) from slot to slot.

    The correlation of powers is the square of that of fields.
    """
    fading, seconds = Fading(doppler_hz=doppler_hz), 0.001
    draws = fading.draws(np.random.default_rng(3), (20_000,), seconds)
    first, second = next(draws), next(draws)
    assert stats.kstest(first, "expon").pvalue > 1e-4
    assert stats.kstest(second, "expon").pvalue > 1e-4
    memory = special.j0(2 * math.pi * doppler_hz * seconds)
    assert fading.remembers(seconds) == pytest.approx(memory)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(memory**2, abs=0.035)
    for _ in range(8):
        last = next(draws)
    assert np.corrcoef(first, last)[0, 1] == pytest.approx(memory**18, abs=0.035)


def test_fading_forgets_where_clarkes_correlation_is_negative():
    assert special.j0(2 * math.pi * 500 * 0.001) < 0
    assert Fading(doppler_hz=500.0).remembers(0.001) == 0
    assert Fading(doppler_hz=0.0).remembers(0.001) == 1  # the same fading all the time


@pytest.mark.parametrize("k_factor", [0.0, 0.5, 4.0, 30.0])
def test_fading_exceeds_a_level_as_often_as_marcums_q_says(k_factor):
    """Against Rice's distribution of amplitudes, and against draws."""
    fading = Fading(k_factor)
    levels = np.array([0.01, 0.2, 0.7, 1.0, 1.8, 4.0])
    amplitude = stats.rice(math.sqrt(2 * k_factor), scale=math.sqrt(0.5 / (1 + k_factor)))
    expected = amplitude.sf(np.sqrt(levels))
    assert fading.exceeds(levels) == pytest.approx(expected, abs=1e-9)
    drawn = next(fading.draws(np.random.default_rng(4), (40_000,), 0.001))
    assert drawn.mean() == pytest.approx(1.0, abs=4.5 / 200)
    for level, chance in zip(levels, expected, strict=True):
        found = stats.binomtest(int((drawn >= level).sum()), 40_000).proportion_ci(0.9999)
        assert found.low - 1e-9 <= chance <= found.high + 1e-9


def test_without_fading_a_level_is_met_or_not():
    assert Fading(math.inf).exceeds(np.array([0.5, 1.0, 1.1])).tolist() == [1, 1, 0]


@pytest.mark.parametrize(("order", "rate", "snr_db"), SIONNA_LDPC)
def test_block_errors_are_near_those_of_the_codes_of_5g(order, rate, snr_db, monkeypatch):
    """The SNR at 10 % BLER within 0.6 dB, the largest difference being that of rate 948/1024."""
    monkeypatch.setitem(TABLES, "one", ((order, rate, 1),))
    found = schemes.__wrapped__("one", 1000 / (order * rate / 1024))
    assert 10 * math.log10(found.threshold[0]) == pytest.approx(snr_db, abs=0.6)
    at = found.errors(np.array(0), found.threshold[0])
    assert at == pytest.approx(TARGET_ERRORS, abs=0.01)


@pytest.mark.parametrize("table", TABLES)
def test_tables_run_from_robust_to_fast(table):
    found = schemes(table, 2000.0)
    assert (np.diff(found.efficiency) > 0).all()
    assert (np.diff(found.threshold) >= 0).all()
    snr = from_db(np.linspace(-25, 35, 200))
    chosen = found.best(snr)
    assert (np.diff(chosen) >= 0).all()
    on_target = found.errors(chosen, snr) <= TARGET_ERRORS + 0.01
    assert on_target[snr > found.threshold[0]].all()
    for scheme in range(len(found.gain)):  # a block is decoded no less often at a higher SNR
        assert (np.diff(found.errors(np.array(scheme), snr)) <= 1e-12).all()
    success = found.success(chosen, snr, Fading())
    values = np.random.default_rng(5).exponential(size=20_000)
    for place in (60, 110, 160):
        drawn = 1 - found.errors(chosen[place], snr[place] * values)
        assert success[place] == pytest.approx(drawn.mean(), abs=0.02)


def test_cqi_tables_are_those_of_38_214():
    efficiency = schemes("64qam", 1e4).efficiency
    qpsk = [0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758]
    qam = [1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547]
    assert efficiency == pytest.approx([*qpsk, *qam], abs=6e-5)
    assert schemes("256qam", 1e4).efficiency[-4:] == pytest.approx(
        [5.5547, 6.2266, 6.9141, 7.4063], abs=6e-5
    )
    assert schemes("low", 1e4).efficiency[:2] == pytest.approx([0.0586, 0.0977], abs=6e-5)
    assert all(len(schemes(name, 1e4).gain) == 15 for name in ("64qam", "256qam", "low"))


def test_harq_adds_up_what_was_received():
    """At half the SNR that a scheme needs, the second attempt is decoded; nothing else changes."""
    known = schemes("64qam", 2000.0)
    rate = AdaptiveScheme("64qam", retransmissions=2)
    shape = (1, 1)
    demand = Demand(np.ones(shape), np.ones(shape), 2000.0, 10, common=False)
    sender = rate.sender(demand, Fading())
    yes = np.ones(shape, np.bool_)
    snr = np.full(shape, known.threshold[6] * 1.02)

    def send(level, sent=yes):
        now = Signals(level, np.zeros(shape), sent, sent)
        decoded, gave_up = sender.send(now)
        return float(decoded[0, 0]), bool(gave_up[0, 0])

    assert send(snr) == (known.efficiency[6], False)
    assert send(snr, sent=~yes) == (0.0, False)  # a silent slot costs nothing
    sender.scheme, sender.failed = np.full(shape, 6), np.ones(shape)  # a block is in flight
    assert send(snr / 2) == (0.0, False)
    assert send(snr / 2 * 1.3) == (known.efficiency[6], False)
    sender.scheme, sender.failed = np.full(shape, 6), np.ones(shape)
    assert send(snr / 100) == (0.0, False)
    assert send(snr / 100) == (0.0, True)  # the second retransmission was the last
    assert send(snr) == (known.efficiency[6], False)


@pytest.mark.parametrize("success", [1e-9, 0.03, 0.6, 1 - 1e-12, 1.0])
@pytest.mark.parametrize(("needed", "last"), [(1, 1), (1, 4000), (700, 20_000), (9, 8)])
def test_slots_until_a_payload_has_arrived_are_negative_binomial(needed, last, success):
    slots = np.arange(last + 1)
    theirs = stats.nbinom.cdf(slots - needed, needed, success)
    assert arrived_by(last, needed, success) == pytest.approx(theirs, rel=1e-8, abs=1e-12)
    logs = log_chances(last, needed, success)
    exact = stats.nbinom.logpmf(np.arange(len(logs)), needed, success)
    assert logs == pytest.approx(exact, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("retransmissions", [None, 0, 2])
@pytest.mark.parametrize("needed", [1, 3, 6])
def test_the_law_of_a_payload_is_the_sum_over_all_outcomes(needed, retransmissions):
    success, slots = 0.6, 9
    arrived, active = np.zeros(slots + 1), np.zeros(slots + 1)
    for outcome in product((True, False), repeat=slots):
        chance = np.prod([success if each else 1 - success for each in outcome])
        decoded = failures = 0
        for k in range(slots + 1):
            if k and decoded < needed:
                decoded, failures = (decoded + 1, 0) if outcome[k - 1] else (decoded, failures + 1)
            lost = retransmissions is not None and failures > retransmissions
            arrived[k] += chance * (decoded >= needed)
            active[k] += chance * (decoded < needed and not lost)
            if lost:
                break
    law = Packets(0, 0, retransmissions).law(needed, success, slots)
    assert law.arrived == pytest.approx(arrived, abs=1e-12)
    assert law.active == pytest.approx(active, abs=1e-12)


def test_packets_add_their_headers():
    packets = Packets(header_bytes=13, payload_bytes=51)
    bits = np.array([0, 1, 408, 409, 4080])
    expected = [0, 1 + 104, 408 + 104, 409 + 208, 4080 + 1040]
    assert packets.on_air(bits).tolist() == expected
    assert Packets(header_bytes=40).on_air(bits).tolist() == [0, 321, 728, 729, 4400]


def test_the_optimal_target_beats_all_others():
    """Of a grid of targets, none delivers the payload more often."""
    bits, turns, symbols, mean_snr = 100_000.0, 20, 2000.0, 8.0
    rate = OptimalTarget(Packets())
    demand = Demand(np.full((1, 1), mean_snr), np.full((1, 1), bits), symbols, turns, common=False)
    kept = rate.keep(demand, Fading())
    needed = bits / (kept.per_symbol[0, 0] * symbols)

    def chance(theta):
        slots = math.ceil(bits / (symbols * math.log2(1 + theta)) - 1e-9)
        return stats.binom.sf(slots - 1, turns, math.exp(-theta / mean_snr))

    best = max(chance(theta) for theta in np.geomspace(0.05, 200, 5000))
    assert chance(kept.level[0, 0]) == pytest.approx(best, abs=2e-4)
    assert needed == pytest.approx(round(needed))
    assert kept.success[0, 0] == pytest.approx(math.exp(-kept.level[0, 0] / mean_snr))


def waiting(*devices: bool) -> np.ndarray:
    return np.array([devices])


def test_round_robin_deals_out_all_blocks_and_favours_nobody():
    scheduler = RoundRobin(7).scheduler(7e6, (1, 4), Turns(1, 1))
    rng, total = np.random.default_rng(0), np.zeros(4)
    for number in range(8):
        who = waiting(True, True, number % 2 == 0, True)
        bandwidth, met = scheduler(Slot(who, np.ones((1, 4)), rng))
        assert bandwidth.sum() == pytest.approx(7e6)
        assert not met.any()
        assert not bandwidth[~who].any()
        shares = bandwidth[who] / 1e6
        assert shares.max() - shares.min() <= 1
        total += bandwidth[0]
    assert np.ptp(total[[0, 1, 3]]) <= 2e6


def test_more_devices_than_blocks_take_turns():
    scheduler = RoundRobin(2).scheduler(2.0, (1, 5), Turns(1, 1))
    slots = [
        scheduler(Slot(np.ones((1, 5), np.bool_), np.ones((1, 5)), None))[0][0] for k in range(5)
    ]
    assert np.sum(slots, axis=0).tolist() == [2, 2, 2, 2, 2]
    assert all(each.sum() == 2 for each in slots)


def test_proportional_fair_serves_all_equally_often_and_each_when_it_is_good():
    """With independent fading of the same law, shares are equal and the mean rate is higher."""
    devices, slots = 4, 6000
    rng = np.random.default_rng(1)
    scheduler = ProportionalFair().scheduler(1.0, (1, devices), Turns(1, 1))
    strength = np.array([1.0, 2.0, 4.0, 8.0])
    served, gained = np.zeros(devices), np.zeros(devices)
    for _ in range(slots):
        rate = strength * rng.exponential(size=(1, devices))
        who = np.ones((1, devices), np.bool_)
        bandwidth, _ = scheduler(Slot(who, rate, rng))
        assert (bandwidth > 0).sum() == 1
        served += bandwidth[0] > 0
        gained += rate[0] * (bandwidth[0] > 0)
    assert served / slots == pytest.approx(1 / devices, abs=0.03)
    # The largest of four exponentials has mean 1 + 1/2 + 1/3 + 1/4.
    assert gained / served / strength == pytest.approx(25 / 12, rel=0.08)


@pytest.mark.parametrize(("devices", "channels"), [(10, 1), (5, 2), (30, 3)])
def test_aloha_is_heard_as_often_as_nobody_else_picks_the_slot(devices, channels):
    """(1 - 1/m)^(n-1) for m slots of a frame on all channels; m = n gives nearly 1/e."""
    sharing = Aloha(channels)
    turns = sharing.turns(devices, 1)
    scheduler = sharing.scheduler(1.0, (20_000, devices), turns)
    who = np.ones((20_000, devices), np.bool_)
    bandwidth, met = scheduler(Slot(who, who.astype(float), np.random.default_rng(2)))
    places = turns.period * channels
    chance = (1 - 1 / places) ** (devices - 1)
    assert (~met).mean() == pytest.approx(chance, abs=0.006)
    assert (bandwidth == 1 / channels).all()


def test_turns_of_tdma_and_of_a_duty_cycle():
    assert Tdma().turns(10, 1) == Turns(10, 10)
    assert Tdma().turns(10, 100) == Turns(100, 10)
    turns = Turns(100, 1)
    assert turns.most(0) == 0
    assert turns.most(100) == 1
    assert turns.most(101) == 2
    assert turns.elapsed(np.array([0, 1, 2, 3])).tolist() == [0, 1, 101, 201]
