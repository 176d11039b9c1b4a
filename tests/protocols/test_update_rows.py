"""Protocols that upload updates: what they count from, what gets lost, and what the server adds."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.engine.bit_budgets import upload_bit_budgets
from mix2fld.engine.fleet_interface import LocalPhaseOutcome, Order, Outcome
from mix2fld.engine.one_round import run_round
from mix2fld.protocols.parts import Turn
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Simulation, check, run
from mix2fld.types import Delivery, Group, Model, ServerState, Update, Upload
from toys import LABELS, CoinLink, DeadDownlink, DeadLink, simulation_of, toy_config, toy_dataset

WITH_FEEDBACK = ("topk", "stc", "sign")
WITHOUT = ("eden", "murmur")
PLAIN = {
    "logit_adjustment": 0.0,
    "final_learning_rate": toy_config().learning.learning_rate,
    "device_model": "trained",
}
FEW_BITS: dict[str, dict[str, Any]] = {
    "eden": {"bits_per_weight": 0.1},
    "murmur": {"update_bits": 150, **PLAIN},
}


FADING: dict[str, Any] = {
    "link": "cell",
    "distances_m": (500, 1000, 2000, 3000),
    "uplink_power_dbm": 4.0,
    "uplink_channels": 0.01,
    "max_slots": 20,
    "downlink": "weights",  # relayed uploads would hardly be lost
}
"""A cell whose distant devices lose half of their uploads and downloads."""
LOSSY: dict[str, tuple[Any, dict[str, Any]]] = {"coin": (CoinLink(), {}), "fading": (None, FADING)}


def simulate(name: str, over: Any = None, **fields: Any) -> Simulation:
    """With few bits, where a protocol has a number of them."""
    return simulation_of(name, over, **{**FEW_BITS.get(name, {}), **fields})


def row_of(tensors: Any) -> np.ndarray:
    return np.concatenate([tensor.ravel() for tensor in tensors]).astype(np.float64)


class Recorder:
    """A fleet that remembers what devices learned, what the server read and what came down."""

    def __init__(self, simulation: Simulation) -> None:
        self.scenario, self.inner = simulation
        devices = self.scenario.devices
        self.learned, self.read = [0.0] * devices, [0.0] * devices
        self.downloads = [self.scenario.learning.common_weights] * devices
        self.wanted: dict[int, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def train(self, states: Any, order: Order) -> tuple[list, LocalPhaseOutcome]:
        after, trained = self.inner.train(states, order)
        self.messages = trained.messages
        for device in order.asked:
            weights = row_of(after.trained[device]["weights"])
            self.learned[device] = (
                self.learned[device] + weights - row_of(states[device]["weights"])
            )
            self.wanted[device] = weights - row_of(self.downloads[device])
        return after, trained

    def deliver(self, states: Any, outcome: Outcome) -> Any:
        for device in outcome.uploaded:
            turn = Turn(self.scenario.learning.seed, outcome.round_number, device)
            data = self.messages[device].body.data
            update = row_of(self.scenario.wire.decode_body(data, turn).tensors)
            self.read[device] = self.read[device] + update
        states, delivered = self.inner.deliver(states, outcome)
        for device in delivered.devices if outcome.download else ():
            self.downloads[device] = states[device]["weights"]
        return states, delivered


@pytest.mark.parametrize("lossy", LOSSY)
@pytest.mark.parametrize("name", WITH_FEEDBACK)
def test_error_feedback_loses_nothing_whatever_the_link_loses(name: str, lossy: str) -> None:
    """All that a device learned was read by the server, or waits in its residual or weights."""
    link, fields = LOSSY[lossy]
    simulation = simulate(name, link, rounds=6, participants=3, **fields)
    fleet, state, lost = Recorder(simulation), simulation.start(), 0
    for _ in range(6):
        state, info = run_round(simulation.scenario, fleet, state)
        lost += len(info.asked) - info.uploads["delivered"]
    assert lost > 0
    for device, kept in enumerate(state.devices):
        waiting = row_of(kept["residual"]) + row_of(kept["weights"]) - row_of(kept["base"])
        np.testing.assert_allclose(
            fleet.read[device] + waiting, fleet.learned[device], atol=2e-5, rtol=0
        )


@pytest.mark.parametrize("lossy", LOSSY)
@pytest.mark.parametrize("name", WITHOUT)
def test_an_update_is_counted_from_the_last_download_that_this_device_received(
    name: str, lossy: str
) -> None:
    """Over a link that loses uploads and downloads, with devices that skip rounds."""
    link, fields = LOSSY[lossy]
    simulation = simulate(name, link, rounds=8, participants=3, **fields)
    fleet, state, stale, lost = Recorder(simulation), simulation.start(), 0, 0
    for _ in range(8):
        state, info = run_round(simulation.scenario, fleet, state)
        stale += len(set(info.asked) - set(info.downloads["devices"]))
        lost += len(info.asked) - info.uploads["delivered"]
        for device, kept in enumerate(state.devices):
            assert "residual" not in kept
            np.testing.assert_array_equal(row_of(kept["base"]), row_of(fleet.downloads[device]))
        for device in info.uploads["devices"]:
            turn = Turn(simulation.scenario.learning.seed, info.round, device)
            data = fleet.messages[device].body.data
            read = simulation.scenario.wire.decode_body(data, turn)
            wanted = fleet.wanted[device]
            product = np.sum(row_of(read.tensors) * wanted) / np.sum(wanted**2)
            assert product == pytest.approx(1, abs=0.05)
            assert read.groups[0].norm == pytest.approx(np.linalg.norm(wanted), rel=0.3)
    assert stale > 3
    assert lost > 3


def test_without_downloads_updates_get_longer() -> None:
    """The base stays where it was; all that was learned since is sent again."""
    simulation = simulate("murmur", DeadDownlink(), rounds=3)
    fleet, state, norms = Recorder(simulation), simulation.start(), []
    for number in (1, 2, 3):
        state, _ = run_round(simulation.scenario, fleet, state)
        turn = Turn(simulation.scenario.learning.seed, number, 0)
        data = fleet.messages[0].body.data
        norms.append(simulation.scenario.wire.decode_body(data, turn).groups[0].norm)
    assert norms == sorted(norms)
    assert norms[2] > 1.2 * norms[0]


def an_upload(
    *values: float, norm: float = 1.0, captured: float = 1.0, samples: int = 10
) -> Upload:
    tensors = (np.array(values, np.float32),)
    return Upload(Update.encoded_whole(tensors, norm, captured), samples)


class ALearning:
    """What the server's step needs of a learning."""

    def __init__(self, **fields: Any) -> None:
        self.config = toy_config(**fields)
        self.common_weights = (np.array([1.0, 1.0], np.float32),)
        self.learning = self


def step(inbox: dict[int, Upload], state: ServerState | None = None, **fields: Any) -> Any:
    learning: Any = ALearning(**fields)
    return replace(PROTOCOLS["murmur"], sizes=learning).step(state or ServerState(), inbox, 1)[0]


def test_the_server_adds_the_mean_update() -> None:
    inbox = {0: an_upload(0.3, 0.0, norm=0.3), 1: an_upload(0.0, 0.6, norm=0.6, samples=20)}
    after = step(inbox)
    np.testing.assert_allclose(after.weights[0], [1.1, 1.4], rtol=1e-6)
    assert after.updates == 1
    again = step(inbox, after)
    np.testing.assert_allclose(again.weights[0], [1.2, 1.8], rtol=1e-6)
    assert step({}, after) is after


def test_a_mean_that_noise_has_made_long_is_shortened() -> None:
    """Norms 3 and 4 have a root mean square of sqrt(12.5); the mean is [15, 20], of norm 25."""
    inbox = {0: an_upload(30.0, 0.0, norm=3.0), 1: an_upload(0.0, 40.0, norm=4.0)}
    moved = step(inbox, step_limit=1.5).weights[0] - 1
    np.testing.assert_allclose(moved, 1.5 * 12.5**0.5 * np.array([0.6, 0.8]), rtol=1e-6)
    moved = step(inbox, step_limit=100).weights[0] - 1
    np.testing.assert_allclose(moved, [15, 20], rtol=1e-6)


def test_updates_weigh_by_what_they_captured() -> None:
    inbox = {0: an_upload(1.0, 0.0, captured=0.3), 1: an_upload(0.0, 1.0, captured=0.1)}
    np.testing.assert_allclose(step(inbox).weights[0], [1.75, 1.25], rtol=1e-6)


def test_weights_by_captured_shares_come_closest_to_the_mean_of_all() -> None:
    """Devices that differ by as much as they move, in 100, 400 and 4,000 bits."""
    from mix2fld.codecs import RotatedUpdate

    size, errors = 2000, {"equal": 0.0, "captured": 0.0}
    for trial in range(40):
        rng = np.random.default_rng(trial)
        updates = rng.normal(size=(6, size)).astype(np.float32)
        found, shares = [], []
        for device, bits in enumerate([100, 100, 400, 400, 4000, 4000]):
            codec, key = RotatedUpdate(largest_per_group=True, bits=bits), 10 * trial + device
            codes = codec.compress(updates[device], np.random.default_rng(key), None)
            read = codec.restore(codes, np.random.default_rng(key), size)
            found.append(read.update.astype(np.float64))
            shares.append(read.captured)
        for kind, weights in (("equal", np.ones(6)), ("captured", np.array(shares))):
            mean = np.average(found, axis=0, weights=weights)
            errors[kind] += np.sum((mean - updates.mean(axis=0)) ** 2)
    assert errors["captured"] < errors["equal"] / 3


@pytest.mark.parametrize("name", ["fl", "murmur", "topk", "mix2fld"])
def test_devices_upload_in_some_rounds_and_train_in_all(name: str) -> None:
    fields = {**FEW_BITS.get(name, {}), "rounds": 5, "upload_every": 2}
    (result,) = run(toy_config(protocol=name, **fields), dataset=toy_dataset())
    attempted = [info["uploads"]["attempted"] for info in result.rounds]
    assert attempted == [0, 4, 0, 4, 0]
    assert [info["bits"]["up"] > 0 for info in result.rounds] == [False, True, False, True, False]
    assert [info["downloads"]["attempted"] for info in result.rounds] == attempted
    isolated = run(toy_config(protocol="isolated", rounds=1), dataset=toy_dataset())[0]
    assert result.rounds[0]["scores"]["devices"] == isolated.rounds[0]["scores"]["devices"]


@pytest.mark.parametrize("name", ["fl", "murmur", "mix2fld"])
@pytest.mark.parametrize("bits", [2, 8])
def test_a_download_with_fewer_bits_is_the_base_as_decoded(name: str, bits: int) -> None:
    simulation = simulate(name, downlink_bits=bits)
    state, info = simulation.run_round(simulation.start())
    dims, wire = simulation.scenario.learning.dims, simulation.scenario.wire
    assert info.bits["down"] == bits * dims.num_weights + 64 * len(dims.weight_shapes)
    received = wire.decode_download(wire.encode_download(state.server).data)["weights"]
    for device in state.devices:
        np.testing.assert_array_equal(row_of(device["weights"]), row_of(received))
        if name == "murmur":
            np.testing.assert_array_equal(row_of(device["base"]), row_of(received))
    levels = np.unique(state.devices[0]["weights"][-1])
    assert len(levels) <= 1 << bits
    assert not np.array_equal(row_of(received), row_of(state.server.weights))


def test_more_bits_than_the_weights_have_is_one_message() -> None:
    config = toy_config(protocol="murmur", update_bits=9_000_000)
    with pytest.raises(InputError, match=r"^update_bits = 9000000: more than 32 for each of 8,836"):
        check(config, toy_dataset())


def test_uploads_less_often_than_there_are_rounds_is_one_message() -> None:
    with pytest.raises(InputError, match=r"^upload_every = 6: nothing would be uploaded; must be"):
        toy_config(rounds=5, upload_every=6)


@pytest.mark.parametrize("name", [*WITH_FEEDBACK, *WITHOUT])
def test_many_bits_come_close_to_fl(name: str) -> None:
    """With all entries, or 16 bits a weight, the server's model is that of FL."""
    fields = {"update_bits": 16 * 8836 + 16, "bits_per_weight": 16, "kept_share": 1.0, "rounds": 1}
    models = {}
    for row in (name, "fl"):
        simulation = simulate(row, **fields)
        state, _ = simulation.run_round(simulation.start())
        models[row] = row_of(state.server.weights)
    initial = row_of(simulation.scenario.learning.common_weights)
    moved = np.linalg.norm(models["fl"] - initial)
    off = np.linalg.norm(models[name] - models["fl"]) / moved
    limits = {"topk": 1e-3, "eden": 1e-3, "murmur": 1e-3, "sign": 0.5, "stc": 1.0}
    assert off < limits[name]
    assert PROTOCOLS[name].title in {"Top-k", "EDEN", "Murmur", "Sign", "STC"}


class UnequalLink(DeadLink):
    """An uplink of 40 d bits in a slot for device d, each slot lost with probability 0.2."""

    max_slots = 20

    def deliver(self, direction: Any, bits: Any, rng: np.random.Generator) -> Delivery:
        decoded = np.cumsum(rng.random((len(bits), self.max_slots)) < 0.8, axis=1)
        rate = 1e6 if direction == "downlink" else 40.0 * np.arange(len(bits))
        arrived = decoded * np.broadcast_to(rate, len(bits))[:, None] >= bits[:, None]
        slots = np.where(bits > 0, 1 + np.sum(~arrived, axis=1), 0)
        delivered = arrived[:, -1] | (bits == 0)
        return Delivery(delivered, np.where(delivered, slots, self.max_slots))


def test_automatic_bits_are_the_most_that_arrive_reliably() -> None:
    """Over the fading link, by brute force from its closed form."""
    fields = {"link": "rayleigh", "slot_ms": 0.001, "max_slots": 20, "update_bits": "auto"}
    for target in (0.5, 0.95):
        scenario = simulate("murmur", **fields, delivery_target=target).scenario
        budgets = upload_bit_budgets(scenario, (0, 2, 3), {})

        def chance(bits: int, scenario: Any = scenario) -> float:
            return float(scenario.link.budget("uplink", bits, 3).delivery_probability)

        (budget,) = set(budgets.values())
        assert list(budgets) == [0, 2, 3]
        assert budget % 8 == 0
        assert 24 < budget < scenario.wire.upload_size(with_seeds=False).bits
        assert chance(budget) >= target > chance(budget + 8)


@cache
def few_weights(weights: int) -> Model:
    """One object for all protocols, so that it is compiled once."""

    def init(key: Any) -> Any:
        return 0.1 * jax.random.normal(key, (weights,))

    def apply(own: Any, inputs: Any) -> Any:
        return inputs.reshape(len(inputs), -1)[:, :LABELS] * jnp.resize(own, LABELS) + own[-1] ** 2

    return Model("few weights", init, apply)


@pytest.mark.parametrize("name", [n for n, row in PROTOCOLS.items() if row.upload_kind == "update"])
@pytest.mark.parametrize("weights", [1, 4])
def test_a_model_of_a_few_weights_is_carried(name: str, weights: int) -> None:
    config = toy_config(protocol=name, feature_side=1, kernel="auto")
    model = few_weights(weights)
    if PROTOCOLS[name].statistics is not None:
        with pytest.raises(InputError, match="must end in a linear layer"):
            run(config, dataset=toy_dataset(), model=model)
        return
    (result,) = run(config, dataset=toy_dataset(), model=model)
    assert result.summary["uploads"]["delivered"] == 8


def test_devices_choose_their_own_number_of_bits() -> None:
    """Device 0 is never heard and sends the least; device 3 sends most, and weighs most."""
    fields = {"update_bits": "auto", "rounds": 12}
    simulation = simulate("murmur", UnequalLink(), **fields)
    fleet, state, sent, heard = Recorder(simulation), simulation.start(), [], np.zeros(4)
    for _ in range(12):
        state, info = run_round(simulation.scenario, fleet, state)
        sent.append([fleet.messages[device].bits for device in range(4)])
        assert info.bits["up"] == sum(sent[-1])
        heard[info.uploads["devices"]] += 1
    assert len({tuple(bits) for bits in sent}) == 1
    assert sent[0][0] == 24
    for device in (1, 2, 3):
        assert 12 * 40 * device <= sent[0][device] <= 14 * 40 * device
    assert heard[0] == 0
    assert heard[1:].sum() >= 0.85 * 36
    shares = []
    for device in (1, 2, 3):
        turn = Turn(simulation.scenario.learning.seed, 12, device)
        upload = simulation.scenario.wire.decode_upload(fleet.messages[device], turn)
        shares.append(upload.value.captured)
    assert shares == sorted(shares)
    assert shares[2] > 2 * shares[0]


def test_automatic_bits_differ_between_devices_and_rounds_of_a_fading_cell() -> None:
    """They follow distance and shadowing, and arrive about as often as they should."""
    radio = {**FADING, "uplink_power_dbm": 23.0, "uplink_channels": 1.0, "slot_ms": 0.02}
    radio |= {"shadowing_db": 8.0, "shadowing_memory": 0.5, "delivery_target": 0.9}
    simulation = simulate(
        "murmur", **radio, update_bits="auto", rounds=8, participants=3, local_steps=1
    )
    fleet, state, sent, arrived = Recorder(simulation), simulation.start(), [], 0
    for _ in range(8):
        state, info = run_round(simulation.scenario, fleet, state)
        bits = {device: fleet.messages[device].bits for device in info.asked}
        sent += list(bits.items())
        arrived += sum(bits[device] > 24 for device in info.uploads["devices"])
    able = sum(bits > 24 for _, bits in sent)
    assert able >= 12
    assert arrived >= 0.8 * able
    of_device = [[bits for device, bits in sent if device == d] for d in range(4)]
    assert all(len(set(of_device[near])) > 1 for near in (0, 1))
    assert np.mean(of_device[0]) > 2 * np.mean(of_device[3])


def test_a_number_of_bits_that_is_fixed_asks_nothing_of_the_link() -> None:
    for name, fields in (("murmur", {"update_bits": 30}), ("stc", {}), ("fl", {})):
        assert upload_bit_budgets(simulate(name, **fields).scenario, (0, 1), {}) == {}
    ideal = simulate("murmur", update_bits="auto").scenario
    assert upload_bit_budgets(ideal, (1,), {}) == {1: 8 * (8836 // 8 + 2)}
    assert upload_bit_budgets(ideal, (), {}) == {}


def test_one_huge_norm_does_not_lengthen_the_step_of_a_robust_aggregation() -> None:
    """The mean of squared norms follows one liar; their median does not."""
    config = toy_config(protocol="murmur", aggregation="median", step_limit=1.0)

    class ALearning:
        config: Any = None
        common_weights = (np.zeros(4, np.float32),)

    learning: Any = ALearning()
    learning.config, learning.learning = config, learning
    moved = np.full(4, 5.0, np.float32)  # of length 10
    norms = (1.0, 1.0, 1.0, 1e6)
    inbox = {
        d: Upload(Update((moved,), 1.0, (Group((0,), norm),)), 10) for d, norm in enumerate(norms)
    }
    found, _ = replace(PROTOCOLS["murmur"], sizes=learning).step(ServerState(), inbox, 1)
    np.testing.assert_allclose(np.linalg.norm(found.weights[0]), 1.0, rtol=1e-6)
    learning.config = config.replace(aggregation="mean")
    found, _ = replace(PROTOCOLS["murmur"], sizes=learning).step(ServerState(), inbox, 1)
    np.testing.assert_allclose(np.linalg.norm(found.weights[0]), 10.0, rtol=1e-6)


@pytest.mark.parametrize(("bits", "warned"), [(20, True), (40, False)])
def test_updates_in_too_few_bits_for_the_model_are_warned_of(
    bits: int, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """8 x 8 pixels, 128 hidden units, 4 labels: 8,836 weights."""
    run(toy_config(protocol="murmur", update_bits=bits, rounds=1), dataset=toy_dataset())
    said = capsys.readouterr().err
    assert ("of which little arrives" in said) is warned
