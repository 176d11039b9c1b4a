"""CFD: devices label seeds that all of them share, and the server learns the mean of the labels."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.lab import assert_same_as_engine, deployed_config, run_in_process
from mix2fld.base.errors import InputError
from mix2fld.base.streams import integer, stream
from mix2fld.codecs import PayloadError, SeedLabels
from mix2fld.config.settings import PRESETS, Config
from mix2fld.protocols.aggregation.aggregate import combine_labels
from mix2fld.protocols.labels import labels_of_seeds
from mix2fld.protocols.parts import Device, Turn
from mix2fld.protocols.seed_screening import judge_labels
from mix2fld.protocols.suspects import in_words
from mix2fld.protocols.weights import no_outputs
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.replay import REPLAY
from mix2fld.tasks.stepper import Start, draw_samples
from mix2fld.types import Dimensions, Local, SampleFormat, Samples, Upload
from stored_runs import check_resumed
from toys import LABELS, CoinLink, simulation_of, toy_config

DIMS = Dimensions(((3,),), 3, SampleFormat((4, 4, 1)), 5, 3, (2, 2, 1))
simulate = partial(simulation_of, "cfd")


def no_samples() -> Any:
    raise AssertionError("labels of seeds need no samples of the device")


def some_outputs(rng: np.random.Generator) -> Any:
    likely = np.exp(rng.normal(size=(5, 3)))
    return (likely / likely.sum(axis=1, keepdims=True)).astype(np.float32)


@settings(deadline=None)
@given(st.sets(st.integers(0, 10)), st.sampled_from([1, 2, 5, 16]), st.integers(0, 99))
def test_labels_come_out_as_they_went_in(devices: set[int], bits: int, seed: int) -> None:
    payload, rng = SeedLabels(11, bits), np.random.default_rng(seed)
    outputs = {device: some_outputs(rng) for device in devices}
    value = {device: payload.codes(own) for device, own in outputs.items()}
    carried = payload.encode(value, DIMS)
    each = 5 * 2 if bits == 1 else 5 * 3 * bits
    assert carried.bits == 11 + len(devices) * each <= payload.size(DIMS).bits == 11 + 11 * each
    assert len(carried.data) == -(-carried.bits // 8)
    again = payload.decode(carried.data, DIMS)
    assert payload.encode(again, DIMS) == carried
    assert again.keys() == outputs.keys()
    for device, codes in again.items():
        labels = payload.labels(codes, 3)
        np.testing.assert_allclose(labels.sum(axis=1), 1)
        if bits == 1:
            np.testing.assert_array_equal(labels, np.eye(3)[outputs[device].argmax(axis=1)])
        else:
            assert np.abs(labels - outputs[device]).max() <= 1.0 / (2**bits - 1)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:1], lambda d: d + b"\0"])
def test_damaged_labels_are_refused(damage: Any) -> None:
    payload = SeedLabels(11, 4)
    data = payload.encode({3: np.zeros((5, 3), np.uint16)}, DIMS).data
    with pytest.raises(PayloadError):
        payload.decode(damage(data), DIMS)


def test_a_label_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PayloadError, match="code 3; must be at most 2"):
        SeedLabels(11).encode({0: np.full((5, 1), 3, np.uint16)}, DIMS)


def test_shares_that_all_round_to_zero_are_an_even_label() -> None:
    payload = SeedLabels(1, 2)
    np.testing.assert_array_equal(payload.labels(np.zeros((1, 4), np.uint16), 4), [[0.25] * 4])


def test_labels_are_uploaded_as_soon_as_seeds_are_shared() -> None:
    """In the first round nobody has seeds to label; then everyone labels 4 x 10 of them."""
    simulation = simulate(rounds=3)
    wire, state = simulation.scenario.wire, simulation.start()
    seeds = wire.upload_size(with_seeds=True).bits - wire.upload_size(with_seeds=False).bits
    sent = []
    for _ in range(3):
        state, info = simulation.run_round(state)
        sent.append(info.bits["up"] / 4)
    assert sent == [4 + seeds, 4 + 4 * 10 * 2, 4 + 4 * 10 * 2]
    assert all(device[REPLAY]["held"].all() for device in state.devices)


@pytest.mark.parametrize("bits", [1, 3])
def test_the_server_learns_the_mean_of_the_labels(bits: int) -> None:
    """Plain NumPy: what devices' models say of the seeds, rounded, averaged, learned."""
    simulation = simulate(label_bits=bits, rounds=3)
    learning, wire = simulation.scenario.learning, simulation.scenario.wire
    state, _ = simulation.run_round(simulation.start())
    rng, inbox, means = np.random.default_rng(0), {}, np.zeros((4, 10, LABELS))
    for device in (0, 2):
        weights = tuple(t + rng.normal(0, 0.1, t.shape).astype("f4") for t in state.server.weights)
        own, turn = state.devices[device], Turn(0, 2, device)
        trained = Device(own, turn, no_samples, partial(wire.replayed_samples, own))
        codes = wire.protocol.upload(trained, Local(weights, no_outputs(wire.protocol)))
        inbox[device] = Upload(wire.protocol.read(codes, turn), 40)
        logits = learning.stepper.logits(weights, state.server.seed_set.inputs).astype(np.float64)
        likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        top = 2**bits - 1
        rounded = np.rint(likely * top) if bits > 1 else np.eye(LABELS)[likely.argmax(axis=1)]
        labels = rounded / rounded.sum(axis=1, keepdims=True)
        means += labels.reshape(4, 10, LABELS) / 2
    after, _ = wire.protocol.step(state.server, inbox, 2)
    samples = Samples(state.server.seed_set.inputs, means.reshape(40, LABELS).astype(np.float32))
    draws = draw_samples(stream(0, "conversion", 2), 40, 20, 1)
    start = Start(
        state.server.weights,
        np.zeros((LABELS, LABELS), np.float32),
        randomness=integer(0, "student model", 2),
    )
    expected = learning.stepper.train_one(label_loss, samples, start, draws)
    for one, other in zip(after.weights, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_seeds_that_nobody_labelled_keep_their_own_label() -> None:
    simulation = simulate()
    state, _ = simulation.run_round(simulation.start())
    protocol, server = simulation.scenario.wire.protocol, state.server
    silent = {0: Upload({}, 40)}
    labelled = {0: Upload(dict(enumerate(np.split(server.seed_set.targets, 4))), 40)}
    ends = [protocol.step(server, inbox, 2)[0] for inbox in (silent, labelled)]
    for one, other in zip(*(end.weights for end in ends), strict=True):
        np.testing.assert_array_equal(one, other)


def test_over_a_link_that_loses_half(tmp_path: Path) -> None:
    config = toy_config(protocol="cfd", rounds=6, local_steps=5)
    (whole,) = check_resumed(tmp_path, config, 3, link=CoinLink())
    assert len({info["bits"]["up"] for info in whole.rounds}) > 2


@pytest.mark.parametrize("bits", [1, 4])
def test_the_deployment_has_the_numbers_of_the_engine(tmp_path: Path, bits: int) -> None:
    config = deployed_config(tmp_path, protocol="cfd", rounds=3, label_bits=bits)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_without_replay_there_are_no_shared_seeds() -> None:
    with pytest.raises(InputError, match=r"replay = 0: CFD labels seeds .* must be above 0"):
        simulate(replay=0)


def test_labels_of_a_liar_are_outvoted() -> None:
    """With a robust aggregation, one of three cannot turn the label of a seed."""
    honest, lie = np.tile([0.9, 0.1, 0.0, 0.0], (10, 1)), np.tile([0.0, 0.0, 0.0, 1.0], (10, 1))
    mean, defended = (
        combine_labels([honest, lie, honest, honest], Config.of(aggregation=name).defence)
        for name in ("mean", "filtered-median")
    )
    np.testing.assert_allclose(mean[:, 3], 0.25)
    np.testing.assert_allclose(defended, honest, atol=1e-6)


def test_few_who_know_a_label_keep_their_say() -> None:
    """Seed by seed, two of five that recognise a label would always be outvoted."""
    rng, true = np.random.default_rng(0), np.arange(200) % LABELS
    given = []
    for device in range(5):
        said = np.where((true == 0) & (device > 1), 1, true)
        errs = rng.random(200) < 0.2
        given.append(np.eye(LABELS)[np.where(errs, rng.integers(0, LABELS, 200), said)])
    combined = combine_labels(given, Config.of(**PRESETS["robust"]).defence)
    assert combined[true == 0, 0].mean() > 0.25
    np.testing.assert_allclose(combined.sum(axis=1), 1.0)


def test_labels_that_contradict_the_seeds_do_not_count_and_are_named() -> None:
    simulation = simulate(seed_check="agreement")
    state, _ = simulation.run_round(simulation.start())
    protocol, server = simulation.scenario.wire.protocol, state.server
    came_with = labels_of_seeds(server, server.seed_set)
    shifted = {owner: np.roll(labels, 1, axis=1) for owner, labels in came_with.items()}
    honest = {d: Upload(came_with, 40) for d in range(3)}
    inbox = {**honest, 3: Upload(shifted, 40)}
    judged = judge_labels(inbox, came_with)
    assert judged.left_out == (3,)
    (with_liar, did), (without, _) = (protocol.step(server, box, 2) for box in (inbox, honest))
    for one, other in zip(with_liar.weights, without.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    (suspect,) = did.suspects
    assert in_words(suspect) == (
        "device 3 assigns 0.0 % of the seeds their own labels, typically 100.0 %"
    )


def test_seeds_that_are_judged_bad_are_not_labelled_either() -> None:
    defended = {"seed_check": "agreement", "aggregation": "filtered-median", "rounds": 3}
    simulation = simulate(attack="label-shift", attackers=1, server_steps=200, **defended)
    state = simulation.start()
    for _ in range(3):
        state, info = simulation.run_round(state)
    assert len(state.server.seed_set.targets) == 10 * (4 - len(info.left_out))
    assert info.left_out
