"""The simulator against the oracle of ``reference.py``, round by round, for every protocol."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest

import reference_networks
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.state import RunState
from mix2fld.native import small_cnn
from mix2fld.protocols.inverse_mixup import Pool, find_groups
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Simulation, make_simulation
from mix2fld.tasks.losses import one_hot
from mix2fld.types import Dataset, Tensors
from reference import ALONE, FROM_STATISTICS, WEIGHT_BITS, Record, Reference, State
from reference_codecs import like_weights
from reference_equations import (
    Outputs,
    Sample,
    Seed,
    accuracy,
    all_groups,
    model_in_use,
    quantise,
)
from reference_networks import Floats, Weights
from toys import representatives

# Each of up to 20 steps rounds a weight below 2, and its gradient: half a float32 step each.
TOLERANCE = 20 * 2 * 2.0**-24
CLOSED_FORM = dict.fromkeys(FROM_STATISTICS, 10.0)
"""Heads in closed form have larger features and entries than others, and gradients: more rounds."""
LABELS, SIDE, DEVICES = 4, 8, 4
FAST = "xla" if small_cnn((SIDE, SIDE, 1), 12, 6, LABELS) is None else "native"
"""Machine code, if there is a C compiler and AVX2."""
NETWORKS = {"auto": reference_networks.cnn, "mlp": reference_networks.mlp}
LAYERS = {6: ("conv1", "conv2", "linear"), 4: ("linear1", "linear2")}
"""By how many arrays a network has."""

# Every first upload and every download needs two of four slots, each decoded about every other
# time. The power goes with the bandwidth, which the number of channels decides.
SLOW = {"logit_adjustment": 1.5, "final_learning_rate": 0.05, "device_model": "trained"}
SUMS = {**SLOW, "feature_side": 2, "statistics_bits": 32}
SUMS |= {"learning_rate": 0.002, "final_learning_rate": 0.001}  # features are large
DRAWN = {**SLOW, "feature_side": 2, "statistics_bits": 32, "model": "mlp", "slot_ms": 7.3}
"""Samples that are drawn are clipped: edges of what is even are zero but for rounding."""
CHANNELS = {
    "isolated": {},
    "fl": {"uplink_channels": 4.0, "uplink_power_dbm": 23.0},
    "fl8": {"uplink_channels": 1.0, "uplink_power_dbm": 17.0},
    "fl4": {"uplink_channels": 0.6, "uplink_power_dbm": 14.75},
    "topk": {"uplink_channels": 0.15, "uplink_power_dbm": 8.75, "kept_share": 0.05},
    "stc": {"uplink_channels": 0.06, "uplink_power_dbm": 4.75, "kept_share": 0.05},
    "sign": {"uplink_channels": 0.15, "uplink_power_dbm": 8.75},
    "projected": {"uplink_channels": 4.0, "uplink_power_dbm": 23.0},
    "vote": {"uplink_channels": 0.15, "uplink_power_dbm": 8.75},
    "feedsign": {
        "uplink_channels": 0.00014,
        "uplink_power_dbm": 0.0,
        "distance_m": 3470.0,
        "downlink_power_dbm": 42.6,
    },
    "eden": {"uplink_channels": 0.06, "uplink_power_dbm": 4.75, "bits_per_weight": 0.4},
    "murmur": {
        "uplink_channels": 0.06,
        "uplink_power_dbm": 4.75,
        "update_bits": 437,
        "logit_adjustment": 2.0,
        "final_learning_rate": 0.05,
        "device_model": "mean",
    },
    "murmur-mix": {
        "uplink_channels": 0.3,
        "uplink_power_dbm": 11.75,
        "update_bits": 437,
        "logit_adjustment": 1.0,
        "final_learning_rate": 0.05,
        "device_model": "mean",
        "replay": 0.3,
    },
    "own-statistics": SUMS,
    "statistics": {  # another seed has a derivative that is zero but for rounding
        **SUMS,
        "learning_rate": 0.0004,
        "final_learning_rate": 0.0002,
        "seed": 26,
        "uplink_channels": 1.42,
        "uplink_power_dbm": 18.5,
    },
    "murmur-stat": {
        **SUMS,
        "uplink_channels": 1.47,
        "uplink_power_dbm": 18.65,
        "update_bits": 437,
    },
    "dp-statistics": {**SUMS, "uplink_channels": 1.07, "uplink_power_dbm": 17.3},
    "dp-sum": {**SUMS, "uplink_channels": 0.7, "uplink_power_dbm": 15.4},
    "dp-seeds": {**DRAWN, "uplink_channels": 0.066, "uplink_power_dbm": 5.2},
    "dp-seeds-sum": {**DRAWN, "uplink_channels": 0.044, "uplink_power_dbm": 3.4},
    "dp-fl": {"uplink_channels": 0.06, "uplink_power_dbm": 4.75, "bits_per_weight": 0.4, **SLOW},
    "dp-murmur": {"uplink_channels": 0.06, "uplink_power_dbm": 4.75, "update_bits": 437, **SLOW},
    "cfd": {"uplink_channels": 0.4, "uplink_power_dbm": 13.0, "replay": 0.3, **SLOW},
    "fd": {"uplink_channels": 4.0, "uplink_power_dbm": 23.0, "slot_ms": 0.02},
    "fld": {"uplink_channels": 0.4, "uplink_power_dbm": 13.0},
    "mixfld": {"uplink_channels": 0.4, "uplink_power_dbm": 13.0},
    "mix2fld": {"uplink_channels": 0.4, "uplink_power_dbm": 13.0},
}


# Half of them, each with as much bandwidth and power as above.
PARTICIPATION: dict[str, dict[str, float]] = {
    "fl": {"uplink_channels": 2.0},
    "fd": {"uplink_channels": 2.0},
    "mix2fld": {"uplink_channels": 0.2},
    "stc": {"uplink_channels": 0.03},
    "murmur": {"uplink_channels": 0.03},
}


def a_config(protocol: str, **fields: Any) -> Config:
    """Two short rounds over a fading link."""
    small = {
        "protocol": protocol,
        "seed": 22,
        "devices": DEVICES,
        "samples_per_device": 14,
        "partition": "iid",
        "learning_rate": 0.1,
        "local_steps": 10,
        "server_steps": 8,
        "distillation_weight": 0.5,
        "seed_samples": 6,
        "inverse_samples": 10,
        "mixing_ratio": 0.1234567,  # no mixed pixel falls between two levels
        "downlink_power_dbm": 21.0,
        "max_slots": 4,
        "curve_points": 1,
        "device_step_us": 70.0,
        "server_step_us": 30.0,
        "downlink": "weights",  # test_downlink: others are the same training
    }
    return Config.of(**{**small, **CHANNELS[protocol], **fields})


@cache
def a_dataset() -> Dataset:
    """Noisy pictures of four labels; blank corners give the pooling layer equal values."""
    rng = np.random.default_rng(3)
    pictures = rng.integers(0, 256, (LABELS, SIDE, SIDE, 1))

    def samples(count: int) -> tuple[Any, Any]:
        labels = rng.permutation(np.arange(count) % LABELS).astype(np.int32)
        noisy = 0.6 * pictures[labels] + rng.normal(50, 40, (count, SIDE, SIDE, 1))
        noisy[: count // 2, :4, :5] = 0
        return np.clip(noisy, 0, 255).astype(np.uint8), labels

    return Dataset("small", *samples(80), *samples(20), LABELS)


def a_simulation(config: Config) -> Simulation:
    """With devices that hold 14, 13, 12 and 11 samples."""
    simulation = make_simulation(config, a_dataset())
    fleet = simulation.fleet
    fleet.parts = [part[: len(part) - d] for d, part in enumerate(fleet.parts)]
    return simulation


def named(tensors: Tensors) -> Weights:
    """Weights as the oracle has them."""
    names = [f"{layer}.{part}" for layer in LAYERS[len(tensors)] for part in ("bias", "kernel")]
    return {
        name: np.asarray(tensor, np.float64) for name, tensor in zip(names, tensors, strict=True)
    }


def an_oracle(simulation: Simulation) -> Reference:
    """The oracle of the same run, on the simulator's partition and initial weights.

    The order in which groups of mixed-up samples are tried is the package's: the oracle finds all
    valid groups by brute force, and checks that it is given as many different ones as it can be.
    """
    learning, parts, data = simulation.scenario.learning, simulation.fleet.parts, a_dataset()
    config = learning.config

    def order_groups(pool: list[Seed], wanted: int) -> list[tuple[int, ...]]:
        rows = Pool(
            inputs=np.array([seed.image for seed in pool], np.float32),
            labels=np.array([seed.labels for seed in pool], np.int32),
            device=np.array([seed.device for seed in pool]),
        )
        groups = find_groups(rows, wanted, stream(config.seed, "pairs"))
        return [tuple(group) for group in groups.members.tolist()]

    def student(p: int) -> Weights:
        fresh = config.learning.student_start == "fresh"
        return named(learning.untrained_student(p) if fresh else learning.common_weights)

    return Reference(
        config=config,
        network=NETWORKS[config.learning.model],
        samples=[as_samples(data.train_inputs[p], data.train_labels[p]) for p in parts],
        initial_weights=[named(learning.initial_weights(d)) for d in range(DEVICES)],
        student=student,
        order_groups=order_groups,
    )


def as_samples(images: Any, labels: Any) -> list[Sample]:
    return list(zip(images / 255, one_hot(labels, LABELS).astype(np.float64), strict=True))


def the_tests() -> list[Sample]:
    return as_samples(a_dataset().test_inputs, a_dataset().test_labels)


def run_both(config: Config, rounds: int = 2) -> tuple[list[State], list[Record]]:
    """Rounds of the simulator, each held against the oracle's."""
    simulation = a_simulation(config)
    oracle = an_oracle(simulation)
    state, expected = simulation.start(), oracle.start()
    assert_same_state(state, expected, dict.fromkeys(expected.weights[0], 0.0))
    states, records = [], []
    reached: list[float | None] = [None] * DEVICES  # until a device has trained
    for _ in range(rounds):
        begun = expected.weights
        state, info = simulation.run_round(state)
        expected, record = oracle.run_round(expected)
        slack = rounding_slack(oracle, record)
        assert_same_state(state, expected, slack, config.seeding.seed_bits)
        assert_same_record(info, record, max(np.max(tensor) for tensor in slack.values()))
        for d, (weights, _) in record.phases.items():
            used = model_in_use(begun[d], weights, config.learning)
            reached[d] = accuracy(oracle.network, used, the_tests())
        assert info.scores["devices"] == [reached[d] for d in info.scores["measured"]]
        assert info.slowest["device"] == record.slowest
        if expected.global_weights is not None:
            of_server = accuracy(oracle.network, expected.global_weights, the_tests())
            assert info.scores["global"] == of_server
        assert_same_seed_set(info, oracle, expected)
        states.append(expected)
        records.append(record)
        if config.protocol in ("fl8", "fl4"):
            expected = with_weights_of(state, expected)
    return states, records


def rounding_slack(oracle: Reference, record: Record) -> dict[str, Any]:
    """How far the weights may differ: TOLERANCE, and more where a quantised one is a close call.

    A weight that stands within TOLERANCE of the middle of two levels may be rounded either way.
    """
    tolerance = TOLERANCE * CLOSED_FORM.get(oracle.protocol, 1.0)
    slack: dict[str, Any] = dict.fromkeys(oracle.initial_weights[0], tolerance)
    bits = WEIGHT_BITS.get(oracle.protocol, 32)
    for d, (weights, _) in record.phases.items():
        if bits < 32 and record.uploads[d]:
            for name, w in weights.items():
                up, down = (
                    quantise(w + shift, w.min(), w.max(), bits) for shift in (TOLERANCE, -TOLERANCE)
                )
                slack[name] = slack[name] + np.abs(up - down) / sum(record.uploads)
    return slack


def with_weights_of(state: RunState, expected: State) -> State:
    """The oracle's state with the simulator's weights, so that a close call is not carried on."""
    return replace(
        expected,
        weights=[named(device["weights"]) for device in state.devices],
        global_weights=state.server.weights and named(state.server.weights),
    )


def assert_same_state(
    state: RunState, expected: State, slack: dict[str, Any], seed_bits: int = 8
) -> None:
    server = state.server
    for d, device in enumerate(state.devices):
        assert_same_weights(device["weights"], expected.weights[d], slack)
        assert_same_outputs(device.get("teacher", np.zeros((LABELS, LABELS))), expected.teachers[d])
        assert bool(device.get("seeds_due", False)) == expected.seeds_due[d]
        known = {"weights", "teacher", "seeds_due", "base", "residual", "replay"}
        private = {"untrained", "means", "stage", "noise_key"}
        assert device.keys() <= known | private
        assert bool(device.get("untrained", False)) == (d in expected.untrained)
        assert int(device.get("stage", 2)) == expected.stages[d]
        stock = device.get("replay", {"held": np.zeros(DEVICES)})
        assert set(np.flatnonzero(stock["held"])) == expected.stocks[d]
        for entry in ("base", "residual"):
            if entry in device:
                known = like_weights(getattr(expected.memories[d], entry), expected.weights[d])
                assert_same_weights(device[entry], known, slack)
    assert_same_weights(server.weights, expected.global_weights, slack)
    assert_same_outputs(server.outputs, expected.global_outputs)
    assert server.seeds.keys() == expected.seeds.keys() | expected.held
    for d in expected.seeds:
        seeds = server.seeds[d]
        for image, labels, seed in zip(seeds.inputs, seeds.labels, expected.seeds[d], strict=True):
            unit = 1 if image.dtype == np.float32 else 2**seed_bits - 1
            np.testing.assert_allclose(image / unit, seed.image, rtol=0, atol=1e-7)
            assert tuple(labels) == seed.labels
    for means, known in (
        (server.memory.get("means"), expected.global_means),
        *(
            (device.get("means"), own)
            for device, own in zip(state.devices, expected.means, strict=True)
        ),
    ):
        expect = 0 if known is None else known
        np.testing.assert_allclose(0 if means is None else means, expect, rtol=1e-6, atol=1e-6)
    assert server.updates == expected.updates
    assert state.clock.communication == pytest.approx(expected.communication, rel=1e-12)
    assert state.clock.computing == pytest.approx(expected.computing, rel=1e-12)


def assert_same_weights(
    tensors: Tensors | None, expected: Weights | None, slack: dict[str, Any]
) -> None:
    assert (tensors is None) == (expected is None)
    if tensors is not None and expected is not None:
        weights = named(tensors)
        assert weights.keys() == expected.keys()
        for name in expected:
            steps = np.maximum(1, np.abs(expected[name]) / 2)  # a float32 step goes with the value
            assert np.all(np.abs(weights[name] - expected[name]) <= slack[name] * steps), name


def assert_same_outputs(rows: Any, expected: Outputs | None) -> None:
    assert (rows is None) == (expected is None)
    if expected is not None:
        known = [np.zeros(LABELS) if vector is None else vector for vector in expected]
        np.testing.assert_allclose(rows, known, rtol=0, atol=TOLERANCE)


def assert_same_record(info: RoundInfo, record: Record, slack: float) -> None:
    assert info.asked == record.asked
    for transfers, arrived in ((info.uploads, record.uploads), (info.downloads, record.downloads)):
        assert transfers["devices"] == [d for d in range(DEVICES) if arrived[d]]
        assert transfers["delivered"] == sum(arrived)
    assert info.uploads["attempted"] == record.senders
    assert info.downloads["attempted"] == (record.listening if record.bits[1] else 0)
    assert (info.bits["up"], info.bits["down"]) == record.bits
    assert (info.slots["up"], info.slots["down"]) == record.slots
    assert (info.change is None) == (record.change is None)
    # The norm of an output vector of four labels is at least 1/2.
    assert info.change == (record.change and pytest.approx(record.change, abs=8 * slack))


def assert_same_seed_set(info: RoundInfo, oracle: Reference, expected: State) -> None:
    """As many samples as the oracle has, made from all pairs there are if fewer than wanted."""
    assert info.seeds["devices"] == len(expected.seeds) + len(expected.held)
    assert info.seeds["samples"] == len(oracle.seed_set(expected.seeds))
    if oracle.protocol == "mix2fld":
        ratios = oracle.config.seeding.ratios
        found = len(all_groups([seed for seeds in expected.seeds.values() for seed in seeds]))
        wanted = ceil(info.seeds["samples"] / len(ratios))
        assert info.seeds["distinct_groups"] == min(found, wanted)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol(protocol: str) -> None:
    follow(protocol, FAST)


@pytest.mark.skipif(FAST == "xla", reason="XLA is all there is, and has been followed")
@pytest.mark.parametrize("protocol", representatives(PROTOCOLS))
def test_every_protocol_by_xla(protocol: str) -> None:
    follow(protocol, "xla")


def follow(protocol: str, kernel: str) -> None:
    """Two rounds in which some transfers arrive and some do not."""
    states, records = run_both(a_config(protocol, kernel=kernel))
    if protocol in ALONE:
        assert not any(any(record.uploads + record.downloads) for record in records)
        return
    for transfers in ("uploads", "downloads"):
        assert {arrived for r in records for arrived in getattr(r, transfers)} == {True, False}
    assert states[-1].updates == 2


@pytest.mark.parametrize("protocol", PARTICIPATION)
def test_some_devices_take_part(protocol: str) -> None:
    """Two of four, over the fading link: they share the uplink, the others keep their state."""
    config = a_config(protocol, participants=2, **PARTICIPATION[protocol])
    states, records = run_both(config, rounds=5)
    assert all(len(record.asked) == 2 for record in records)
    assert len({tuple(record.asked) for record in records}) > 2
    assert {d for record in records for d in record.asked} == set(range(DEVICES))
    for transfers in ("uploads", "downloads"):
        assert {getattr(r, transfers)[d] for r in records for d in r.asked} == {True, False}
    assert states[-1].updates > 1
    assert how_far(states[-1], oracle_end(config.replace(participants="all"), 5)) > 100 * TOLERANCE
    kept = 0
    for (before, after), (record, coming) in zip(
        pairwise(states), pairwise(records[1:]), strict=False
    ):
        others = set(range(DEVICES)) - {*record.asked, *coming.asked}
        assert all(before.weights[d] is after.weights[d] for d in others)
        kept += len(others)
    assert kept


@pytest.mark.parametrize(
    ("stated", "spread"),
    [((70.0, 10.0, 25.0, 40.0), 0.0), (70.0, 0.8), ((5.0, 9.0, 1.0, 7.0), 0.4)],
)
def test_devices_of_different_speed(stated: Any, spread: float) -> None:
    """The clock waits for the slowest device of those that take part."""
    config = a_config("fl", participants=2, **PARTICIPATION["fl"])
    same, _ = run_both(config, rounds=4)
    other = config.replace(device_step_us=stated, device_step_spread=spread, evaluated_devices=3)
    states, records = run_both(other, rounds=4)
    assert len({record.slowest for record in records}) > 1
    assert states[-1].computing != same[-1].computing
    assert how_far(states[-1], same[-1]) == 0


# Every reading that the paper's words allow besides the decision, all at once.
LITERAL = {
    "distillation_loss": "printed",
    "soft_label_teacher": "dominant",
    "unseen_labels": "zero",
    "student_start": "fresh",
    "initial_weights": "independent",
    "lost_seeds": "drop",
    "inverse_count": "total",
    "inverse_clip": True,
}
CONCERNS = {
    "fl": ("initial_weights",),
    "fd": ("distillation_loss", "unseen_labels", "initial_weights"),
    "fld": (
        "distillation_loss",
        "unseen_labels",
        "student_start",
        "initial_weights",
        "lost_seeds",
    ),
    "mixfld": (
        "distillation_loss",
        "soft_label_teacher",
        "student_start",
        "lost_seeds",
    ),
    "mix2fld": ("distillation_loss", "unseen_labels", "inverse_count", "inverse_clip"),
}


@pytest.mark.parametrize("protocol", CONCERNS)
def test_literal_readings(protocol: str) -> None:
    """All at once; each of them counts: with one decision put back, the result is another."""
    states, _ = run_both(a_config(protocol, **LITERAL))
    for name in CONCERNS[protocol]:
        others = {other: value for other, value in LITERAL.items() if other != name}
        assert how_far(states[-1], oracle_end(a_config(protocol, **others))) > 100 * TOLERANCE, name


def test_mixfld_with_hard_labels() -> None:
    """Apart from the other readings: a hard label has the same teacher under both of decision 3."""
    states, _ = run_both(a_config("mixfld", mixed_labels="hard"))
    assert how_far(states[-1], oracle_end(a_config("mixfld"))) > 100 * TOLERANCE


@pytest.mark.parametrize(
    ("protocol", "link"),
    [
        ("fl", {"seed": 12, "uplink_channels": 3.0, "uplink_power_dbm": 21.75}),
        ("fd", {"seed": 9, "slot_ms": 0.01}),
    ],
)
def test_round_without_uploads(protocol: str, link: dict[str, Any]) -> None:
    config = a_config(protocol, **link)
    silent, records = run_both(config)
    assert not any(records[1].uploads)
    assert not any(records[1].downloads)
    again, records = run_both(config.replace(no_uploads="rebroadcast"))
    assert any(records[1].downloads)
    assert how_far(silent[-1], again[-1]) > 100 * TOLERANCE


@pytest.mark.parametrize("start", ["common", "independent"])
def test_initial_weights(start: str) -> None:
    devices = a_simulation(a_config("fl", initial_weights=start)).start().devices
    different = {device["weights"][1].tobytes() for device in devices}
    assert len(different) == (1 if start == "common" else DEVICES)


def test_pairs_are_used_again_when_there_are_too_few() -> None:
    simulation = a_simulation(a_config("mix2fld"))
    _, info = simulation.run_round(simulation.start())
    assert info.seeds["samples"] == 4 * 10
    assert info.seeds["distinct_groups"] < 20


def test_no_conversion_before_the_first_pair() -> None:
    states, records = run_both(a_config("mix2fld", seed=72))
    assert any(records[0].uploads)
    assert not any(records[0].downloads)
    assert [state.updates for state in states] == [0, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"batch_size": 2, "optimizer": "momentum", "learning_rate": 0.02},
        {"batch_size": 4, "logit_adjustment": 1.5},
        {"model": "mlp", "curve_points": 3, "slot_ms": 8.0},
        {"seed_bits": 32, "uplink_channels": 1.6, "uplink_power_dbm": 19.0},
        {"mixing_ratio": (0.1234567, 0.2345678), "seed_samples": 8, "uplink_channels": 0.5},
    ],
    ids=["batches", "batches-of-four", "mlp", "float-pixels", "mixes-of-three"],
)
def test_other_settings(fields: dict[str, Any]) -> None:
    states, records = run_both(a_config("mix2fld", **fields))
    assert states[-1].updates == 2
    assert any(records[0].downloads)


TRAINING = {"logit_adjustment": 1.5, "final_learning_rate": 0.004, "device_model": "mean"}


@pytest.mark.parametrize("kernel", ["xla", "native"])
@pytest.mark.parametrize("protocol", ["isolated", "fl", "fd", "mix2fld"])
def test_training_side(protocol: str, kernel: str) -> None:
    """Logit adjustment, a schedule and the mean of two models; each of them counts."""
    if kernel == "native" and small_cnn((SIDE, SIDE, 1), 12, 6, LABELS) is None:
        pytest.skip("no C compiler or no AVX2 here: there is only XLA")
    config = a_config(protocol, kernel=kernel, rounds=3, **TRAINING)
    states, _ = run_both(config)
    for name in ("logit_adjustment", "final_learning_rate"):
        plain = oracle_end(config.replace(**{name: "auto"}))
        assert how_far(states[-1], plain) > 100 * TOLERANCE, name


@pytest.mark.parametrize("protocol", ["fld", "mixfld", "mix2fld"])
def test_small_seeds(protocol: str) -> None:
    """Means of squares of 2 x 2 pixels with 5 bits each, enlarged again at the server."""
    small = {"seed_pooling": 2, "seed_bits": 5, "uplink_channels": 0.3}
    states, _ = run_both(a_config(protocol, **small))
    assert states[-1].updates
    assert how_far(states[-1], oracle_end(a_config(protocol, uplink_channels=0.3))) > TOLERANCE


@pytest.mark.parametrize(
    ("protocol", "kernel"), [("fld", "native"), ("mixfld", "xla"), ("mix2fld", "native")]
)
def test_replay(protocol: str, kernel: str) -> None:
    """Seeds go down with the weights until all have them, over a link that loses some."""
    if kernel == "native" and small_cnn((SIDE, SIDE, 1), 12, 6, LABELS) is None:
        pytest.skip("no C compiler or no AVX2 here: there is only XLA")
    lossy = {
        "seed_bits": 4,
        "delivery_target": 0.1,
        "uplink_channels": 0.2,
        "uplink_power_dbm": 10.0,
    }
    batch = 3 if protocol == "mix2fld" else 1
    config = a_config(
        protocol, kernel=kernel, replay=0.4, logit_adjustment=1.0, batch_size=batch, **lossy
    )
    states, records = run_both(config, rounds=4)
    stocks = [stock for state in states for stock in state.stocks]
    assert frozenset() in stocks
    assert frozenset(range(DEVICES)) in stocks
    assert len(set(stocks)) > 2
    assert len({record.bits[1] for record in records}) > 2
    plain = oracle_end(config.replace(replay=0), rounds=4)
    assert how_far(states[-1], plain) > 100 * TOLERANCE


def oracle_end(config: Config, rounds: int = 2) -> State:
    oracle = an_oracle(a_simulation(config))
    state = oracle.start()
    for _ in range(rounds):
        state, _ = oracle.run_round(state)
    return state


def how_far(one: State, other: State) -> float:
    """Largest difference of what devices and server hold."""

    def values(state: State) -> Floats:
        models = [*state.weights, state.global_weights or {}]
        outputs = [*state.teachers, state.global_outputs or []]
        return np.concatenate(
            [tensor.ravel() for model in models for tensor in model.values()]
            + [np.zeros(LABELS) if row is None else row for rows in outputs for row in rows]
        )

    return float(np.max(np.abs(values(one) - values(other))))
