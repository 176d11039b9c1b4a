"""The statements of docs/thin_uplink.md, against simulation and against brute force."""

import json
import math
from typing import Any

import numpy as np
import pytest
from benchmarks import codec_speed, last_layer, uplink_trials
from benchmarks.page_tables import PAGE
from benchmarks.thin_uplink import bound, captured, error_of_mean, main, share_of_signs
from benchmarks.uplink_ideas import VARIANTS

from mix2fld.codecs import RotatedUpdate
from mix2fld.codecs.rotated_plan import make_plan, mean_largest
from mix2fld.codecs.sparse_update import encode_positions
from mix2fld.config.settings import LearningConfig
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import run
from mix2fld.tasks.training import LocalTraining, logit_offset
from mix2fld.types import Dataset
from mix2fld_lab.reproduction.frontier.points import points_of
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from places import ROOT
from toys import toy_config

WEIGHTS = 12_544


def updates_of(devices: int, seed: int = 0, alike: float = 0.5) -> Any:
    """Updates [D, N] with a part in common, most of their entries small and a few large."""
    rng = np.random.default_rng(seed)
    heavy = rng.normal(size=(devices + 1, WEIGHTS)) * rng.exponential(size=WEIGHTS) ** 2
    return (alike * heavy[0] + (1 - alike) * heavy[1:]).astype(np.float32)


def restored(updates: Any, bits: int, largest_per_group: bool = True, seed: int = 0) -> Any:
    """What the server decodes of each update [D, N]."""
    codec, found = RotatedUpdate(largest_per_group=largest_per_group, bits=bits), []
    for device, update in enumerate(updates):
        codes = codec.compress(update, np.random.default_rng([seed, device]), None)
        again = codec.restore(codes, np.random.default_rng([seed, device]), WEIGHTS)
        found.append(again.update.astype(np.float64))
    return np.stack(found)


def error_of_the_mean(found: Any, updates: Any) -> float:
    """Squared error of the mean, as a part of the mean squared norm of the updates."""
    error = (found - updates.astype(np.float64)).mean(axis=0)
    return float(np.sum(error**2) / np.mean(np.sum(updates.astype(np.float64) ** 2, axis=1)))


@pytest.mark.parametrize(
    ("largest_per_group", "bits"), [(False, 635), (False, 3144), (True, 99), (True, 1400)]
)
def test_the_error_of_the_mean(largest_per_group: bool, bits: int) -> None:
    """(1 / c - 1) / D, whatever the updates have in common."""
    for alike in (0.0, 0.9):
        updates = updates_of(10, alike=alike)
        found = np.mean(
            [
                error_of_the_mean(restored(updates, bits, largest_per_group, s), updates)
                for s in (1, 2)
            ]
        )
        assert found == pytest.approx(
            error_of_mean(captured(bits, WEIGHTS, largest_per_group), 10), rel=0.2
        )


def test_signs_capture_two_over_pi_of_their_share() -> None:
    for share in (0.05, 0.25, 1.0):
        bits = 8 + round(share * WEIGHTS)
        if share < 1:
            assert captured(bits, WEIGHTS, largest_per_group=False) == pytest.approx(
                2 / math.pi * share, rel=1e-3
            )
        expected = (math.pi / (2 * share) - 1) / 10
        assert error_of_mean(share_of_signs(share), 10) == pytest.approx(expected)


def test_no_code_captures_more_than_the_bound_and_picking_comes_close_to_it() -> None:
    """The bound of rate and distortion for Gaussian coordinates: 1 - 4^-b with b bits each."""
    shares = []
    for bits in (20, 40, 99, 200, 500, 1400, 4000, 12_000):
        most = bound((bits - 8) / WEIGHTS)
        shares.append(captured(bits, WEIGHTS, largest_per_group=True) / most)
        assert (
            captured(bits, WEIGHTS, largest_per_group=False)
            <= captured(bits, WEIGHTS, largest_per_group=True)
            < most
        )
    assert all(share > 0.6 for share in shares)
    assert min(shares[:4]) > 0.75


def test_per_bit_picking_tends_to_the_bound_and_signs_stay_at_less_than_half() -> None:
    """E[max]^2 / (1 + log2 n) grows to 2 ln 2, which is what small b allows for each bit."""
    per_bit = [mean_largest(1 << j) ** 2 / (1 + j) for j in (3, 6, 9, 12, 16, 20)]
    assert per_bit == sorted(per_bit)
    assert 0.85 * 2 * math.log(2) < per_bit[-1] < 2 * math.log(2)
    assert (2 / math.pi) / (2 * math.log(2)) == pytest.approx(0.459, abs=1e-3)
    assert bound(1e-6) / 1e-6 == pytest.approx(2 * math.log(2), rel=1e-5)


def test_twice_the_devices_are_as_good_as_twice_the_bits() -> None:
    """Where little is captured, only the bits of all devices together count."""
    few, many = updates_of(10, 1), updates_of(20, 1)
    one = np.mean([error_of_the_mean(restored(few, 392, seed=s), few) for s in (1, 2)])
    other = np.mean([error_of_the_mean(restored(many, 200, seed=s), many) for s in (1, 2)])
    assert one == pytest.approx(other, rel=0.3)
    longer = error_of_mean(captured(392, WEIGHTS, largest_per_group=True), 10)
    wider = error_of_mean(captured(200, WEIGHTS, largest_per_group=True), 20)
    assert wider == pytest.approx(longer, rel=0.2)


def test_the_error_has_no_part_along_an_update() -> None:
    """All of it is across: the step that a device asked for is taken in full."""
    (update,) = updates_of(1)
    squared = float(np.sum(update.astype(np.float64) ** 2))
    for seed in range(5):
        (found,) = restored([update], 200, seed=seed)
        error = found - update
        assert np.sum(error**2) > 30 * squared
        along = np.sum(error * update) / squared
        assert abs(along) < 2 ** (1 / 16) - 1  # half a step of the norm, which has 8 bits


def test_in_any_given_direction_the_error_is_small() -> None:
    """Spread over N directions: along the mean update, its square is a part 1 / N of it."""
    updates = updates_of(10)
    mean = updates.astype(np.float64).mean(axis=0)
    energy = np.mean(np.sum(updates.astype(np.float64) ** 2, axis=1))
    expected = error_of_mean(captured(200, WEIGHTS, largest_per_group=True), 10)
    along = []
    for seed in range(12):
        error = restored(updates, 200, seed=seed).mean(axis=0) - mean
        along.append(np.sum(error * mean) ** 2 / np.sum(mean**2) / energy)
    assert expected > 4
    assert np.mean(along) < 20 * expected / WEIGHTS


def test_in_a_direction_given_beforehand_there_is_one_nth_of_the_error() -> None:
    """Mean over 30 directions of the square, in units of the whole error divided by N."""
    (update,) = updates_of(1)
    directions = np.random.default_rng(7).normal(size=(30, WEIGHTS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    parts = []
    for seed in range(6):
        error = restored([update], 200, seed=seed)[0] - update
        parts.append(WEIGHTS * (directions @ error) ** 2 / np.sum(error**2))
    assert np.mean(parts) == pytest.approx(1, abs=0.35)


def test_with_shared_coordinates_devices_do_not_replace_precision() -> None:
    """Signs of the same coordinates from all devices: what they leave out, all leave out."""
    updates, codec = updates_of(10, alike=1.0), RotatedUpdate(largest_per_group=False, bits=1000)
    apart = error_of_the_mean(restored(updates, 1000, largest_per_group=False), updates)
    found = []
    for update in updates:
        codes = codec.compress(update, np.random.default_rng(3), None)
        again = codec.restore(codes, np.random.default_rng(3), WEIGHTS)
        found.append(again.update.astype(np.float64))
    assert error_of_the_mean(np.stack(found), updates) > 7 * apart


def test_with_few_groups_the_error_is_a_little_more_than_expected() -> None:
    """E 1/c > 1/E c: the largest of one group of Gaussians, as an upload of 20 bits has it."""
    (part,) = make_plan(20, WEIGHTS, True).parts
    assert part.groups == 1
    groups = np.abs(np.random.default_rng(0).normal(size=(3000, 1 << part.index_bits)))
    largest = groups.max(axis=1)
    inverse = np.mean(WEIGHTS / largest**2) * captured(20, WEIGHTS, largest_per_group=True)
    assert 1.005 < inverse < 1.1


def test_noise_that_is_spread_does_little_to_a_loss_with_few_curved_directions() -> None:
    """A quadratic with 40 curved directions of 4,096, noise of six times the update's square."""
    rng = np.random.default_rng(0)
    curvature = np.zeros(4096)
    curvature[:40] = 1.0
    far = np.where(curvature > 0, rng.normal(size=4096), 0)
    update = -0.9 * far
    noise = rng.normal(size=4096) * math.sqrt(6 * np.sum(update**2) / 4096)

    def loss(weights: np.ndarray) -> float:
        return float(np.sum(curvature * weights**2) / 2)

    noisy = far + update + noise
    assert loss(noisy) < 0.2 * loss(far)
    for _ in range(20):
        noisy = noisy - 0.2 * curvature * noisy
    assert loss(noisy) < 1e-3 * loss(far)
    assert np.sum(noisy**2) > 5 * np.sum(update**2)


def test_a_start_from_edges_helps_those_with_few_bits_most() -> None:
    cells = ResultsFolder(ROOT / "results").frontier_records()
    points = {point.contender.key: point for point in points_of(cells["mnist-non-iid"])}
    pairs = [key for key in points if f"{key}-edges" in points]
    gains = {key: points[f"{key}-edges"].lead_over(points[key]).mean for key in pairs}
    assert len(gains) >= 8
    assert min(gains.values()) > 0
    ours = [gains[f"murmur-{bits}"] for bits in (50, 100, 200, 500, 1400)]
    assert ours == sorted(ours, reverse=True)


def test_positions_cost_most_of_the_bits_of_a_sparse_update() -> None:
    count = round(0.01 * WEIGHTS)
    places = np.sort(np.random.default_rng(0).choice(WEIGHTS, count, replace=False))
    assert 7 < len(encode_positions(places, WEIGHTS)) / count < 9


@pytest.mark.parametrize("tau", [0.0, 1.0, 2.0])
def test_logit_adjustment_removes_the_prior_from_what_is_learned(tau: float) -> None:
    """Of discrete x with known P(x | y), full gradient descent on two devices' label priors.

    The logits learned are log P(x | y) + (1 - tau) log prior, up to what is alike for all labels.
    """
    rng = np.random.default_rng(0)
    given = rng.dirichlet(np.full(6, 5.0), size=3)  # [y, x]
    config = LocalTraining(0.1, 0.1, tau, LearningConfig().prior_floor, "trained")
    learned = []
    for prior in (np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])):
        offset = logit_offset(config, prior)
        joint = (prior[:, None] * given).T  # [x, y]
        logits = np.zeros((6, 3))
        for _ in range(20_000):
            scores = logits + (0 if offset is None else offset)
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            logits += 3.0 * (joint - joint.sum(axis=1, keepdims=True) * likely)
        expected = np.log(given.T) + (1 - tau) * np.log(prior)
        apart = logits - expected
        np.testing.assert_allclose(apart - apart[:, :1], 0, atol=1e-3)
        learned.append(logits - logits.mean(axis=1, keepdims=True))
    assert np.allclose(*learned, atol=1e-3) == (tau == 1)


def test_the_command_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--draws", "1"])
    printed = capsys.readouterr().out
    assert "| 200 |" in printed
    assert printed.count("\n|") >= 8


def test_tables_of_the_page_follow_from_their_records() -> None:
    page = PAGE.read_text(encoding="utf-8")
    speed = codec_speed.table(json.loads(codec_speed.RECORD.read_text(encoding="utf-8")))
    trials = uplink_trials.table(uplink_trials.recorded())
    apart = last_layer.table(last_layer.recorded())
    for name, text in {"speed": speed, "trials": trials, "last layer": apart}.items():
        assert f"<!-- {name} -->\n{text}\n<!-- end -->" in page


@pytest.mark.parametrize("name", list(VARIANTS))
def test_what_was_tried_is_carried_in_its_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every idea goes over the link as bits that the other end reads."""
    monkeypatch.setitem(PROTOCOLS, name, VARIANTS[name])
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (80, 28, 28, 1)).astype(np.uint8)
    labels = (np.arange(80) % 10).astype(np.int32)
    noise = Dataset("noise", images[:60], labels[:60], images[60:], labels[60:], 10)
    fields: dict[str, Any] = {"devices": 3, "samples_per_device": 20, "partition": "iid"}
    fields |= {"model": "paper-cnn", "local_steps": 2, "rounds": 3, "update_bits": 60}
    fields |= {"learning_rate": 1e-4, "final_learning_rate": 1e-4}
    (result,) = run(toy_config(protocol=name, **fields), dataset=noise)
    assert result.summary["bits"]["up"] == 3 * 3 * 60
    moved = result.rounds[-1]["change"]
    assert moved is None or np.isfinite(moved)
