"""Each equation of the paper against a case small enough to work out by hand."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mix2fld.base.bounds import mixing_condition
from mix2fld.config.settings import ChannelConfig, Config, LearningConfig
from mix2fld.data.samples import Coding, mix
from mix2fld.engine.clock import Clock, Slowest
from mix2fld.engine.convergence import relative_change
from mix2fld.engine.curve import MeasuredScores
from mix2fld.engine.info import Observed, QuorumResult, record
from mix2fld.engine.state import Roster, RunState
from mix2fld.engine.transfers import Transfer
from mix2fld.links import RayleighLink
from mix2fld.protocols.aggregation import aggregate
from mix2fld.protocols.distillation import convert
from mix2fld.protocols.inverse_mixup import (
    Groups,
    Pool,
    find_groups,
    inverse_ratios,
    mixing_matrix,
    unmix,
)
from mix2fld.protocols.parts import StepInfo
from mix2fld.protocols.seed_samples import mixed_samples, soft_labels
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import Loss, distillation_loss, label_loss
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.tasks.sgd import LearnerProgress, TrainingSetup, begin_steps, sgd_steps
from mix2fld.tasks.stepper import local_results
from mix2fld.types import Delivery, Model, SampleFormat, Samples, SeedSet, ServerState, Upload
from toys import toy_config, toy_dataset

PIXEL = SampleFormat((1, 1, 1))
ONE_PIXEL = Model(
    "one pixel",
    lambda key: jnp.zeros((1, 2)),
    lambda weights, images: images.reshape(len(images), -1) @ weights,
)
"""Logits are pixels times weights; zero weights of one pixel and two labels: F = (1/2, 1/2)."""


def steps(
    weights: Any,
    pixels: Any,
    labels: Any,
    draws: Any,
    loss: Loss = label_loss,
    teacher: Any = ((0.0, 0.0), (0.0, 0.0)),
    **learning: Any,
) -> Any:
    """The phase after the drawn steps; every sample is a row of ``pixels``, with 255 as 1."""
    learner = TrainingSetup.from_config(ONE_PIXEL, LearningConfig(**learning))
    begun = begin_steps(learner, (len(labels[0]),) * 2, jnp.asarray(weights, jnp.float32))
    return sgd_steps(
        learner,
        loss,
        (Samples(jnp.asarray(pixels, jnp.uint8)[:, None, :, None], jnp.float32(labels)),),
        LearnerProgress(begun, jnp.asarray(teacher, jnp.float32), jnp.asarray(draws)),
    ).phase


def test_eq_1_is_a_step_down_the_gradient_of_the_cross_entropy() -> None:
    # F = (1/2, 1/2) and L = (1, 0), so the logits' gradient is F - L = (-1/2, 1/2). The pixels are
    # x = (0.2, 0.4), and w = -0.5 x (F - L).
    phase = steps(np.zeros((2, 2)), [[51, 102]], [[1, 0]], [[0]], learning_rate=0.5)
    assert_allclose(phase.weights, [[0.05, -0.05], [0.1, -0.1]], rtol=1e-6)


def test_eq_1_takes_the_mean_gradient_of_a_batch() -> None:
    # Gradients (-1/2, 1/2) at x = 1 and (1/2, -1/2) at x = 0.2: mean (-0.2, 0.2).
    phase = steps([[0, 0]], [[255], [51]], [[1, 0], [0, 1]], [[0, 1]], learning_rate=1.0)
    assert_allclose(phase.weights, [[0.2, -0.2]], rtol=1e-6)


@pytest.mark.parametrize("draws", [[[0], [1], [2]], [[0, 1, 2]]])
def test_eq_2_averages_the_outputs_of_each_label(draws: list[list[int]]) -> None:
    # Sample i lights pixel i alone, whose weights are the logarithms of its output F.
    outputs = [[0.5, 0.25, 0.25], [0.1, 0.3, 0.6], [0.2, 0.7, 0.1]]
    labels = [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    phase = steps(np.log(outputs), 255 * np.eye(3), labels, draws, teacher=np.zeros((3, 3)))
    never_drawn = [0.0, 0.0, 0.0]
    expected = np.array([[0.3, 0.275, 0.425], [0.2, 0.7, 0.1], never_drawn])
    assert_allclose(local_results([phase])[0].outputs, expected, rtol=1e-6)


def test_eq_2_takes_the_output_before_the_step() -> None:
    # F = (1/2, 1/2), then w = (ln 2)(1/2, -1/2) and F = (2/3, 1/3): mean (7/12, 5/12).
    phase = steps([[0, 0]], [[255]], [[1, 0]], [[0], [0]], learning_rate=np.log(2))
    assert_allclose(
        local_results([phase])[0].outputs, np.array([[7 / 12, 5 / 12], [0, 0]]), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("sign", "label", "expected"),
    [
        # F - L + beta (F - G) = (-0.5, 0.5) + 0.5 (-0.3, 0.3)
        ("cross-entropy", [1, 0], [0.65, -0.65]),
        # F - L - beta (F - G) = (-0.5, 0.5) - 0.5 (-0.3, 0.3)
        ("printed", [1, 0], [0.35, -0.35]),
        # G of the second label is unknown: Eq. 1
        ("cross-entropy", [0, 1], [-0.5, 0.5]),
        ("printed", [0, 1], [-0.5, 0.5]),
    ],
)
def test_eq_3_adds_the_distillation_term(
    sign: str, label: list[int], expected: list[float]
) -> None:
    phase = steps(
        [[0, 0]],
        [[255]],
        [label],
        [[0]],
        loss=distillation_loss,
        teacher=[[0.8, 0.2], [0, 0]],
        learning_rate=1.0,
        distillation_weight=0.5,
        distillation_loss=sign,
    )
    assert_allclose(phase.weights, [expected], rtol=1e-6)


def test_eq_4_carries_the_papers_bits() -> None:
    link = RayleighLink.from_config(ChannelConfig(max_slots=100), devices=10)
    up, down = link.radio("uplink", 10), link.radio("downlink", 10)
    # tau W log2(1 + theta): 1 ms, 10 MHz x 2 / 10 or 10 MHz, log2 4 = 2.
    assert up.bits_per_slot == 4_000
    assert down.bits_per_slot == 20_000
    # FL: 32 x 12,544 = 401,408 bits. FD: 32 x 10^2 = 3,200 bits.
    assert up.slots_needed(401_408) == 101
    assert down.slots_needed(401_408) == 21
    assert up.slots_needed(3_200) == 1
    assert up.slots_needed(400_000) == 100


class GivenFading:
    """In place of a random generator."""

    def __init__(self, fading: list[list[float]]) -> None:
        self.fading = np.array(fading)

    def exponential(self, size: tuple[int, int]) -> Any:
        assert size == self.fading.T.shape
        return self.fading.T


def test_eq_4_counts_the_slots_above_the_target_snr() -> None:
    # 23 dBm = 0.1995 W, (1 km)^-4 = 1e-12, W N_0 = 2 MHz x 3.981e-21 W/Hz: SNR = 25.06 h, which
    # reaches 3 at h = 0.1197. 10,000 bits at 4,000 a slot are three slots.
    bad, good = 0.119, 0.120
    fading = [
        [good, good, good, bad, bad],
        [good, bad, good, bad, good],
        [good, bad, bad, bad, good],
    ]
    config = ChannelConfig(max_slots=5, uplink_channels=0.6)  # shared by the three that transmit
    link = RayleighLink.from_config(config, devices=4)
    bits = np.array([10_000, 10_000, 10_000, 0])
    delivery = link.deliver("uplink", bits, GivenFading(fading))  # type: ignore[arg-type]
    assert delivery.delivered.tolist() == [True, True, False, True]
    assert delivery.slots.tolist() == [3, 5, 5, 0]


@pytest.mark.parametrize(
    ("label", "teacher", "expected"),
    [
        # F - L + beta (F - G), with F = (0.5, 0.5) and beta = 0.5.
        # L = (1, 0), G = (0.9, 0.1): (-0.5, 0.5) + 0.5 (-0.4, 0.4)
        ([1.0, 0.0], "mixture", [0.7, -0.7]),
        ([1.0, 0.0], "dominant", [0.7, -0.7]),
        # L = (0.1, 0.9), G = 0.1 (0.9, 0.1) + 0.9 (0.3, 0.7) = (0.36, 0.64):
        # (0.4, -0.4) + 0.5 (0.14, -0.14)
        ([0.1, 0.9], "mixture", [-0.47, 0.47]),
        # G = (0.3, 0.7): (0.4, -0.4) + 0.5 (0.2, -0.2)
        ([0.1, 0.9], "dominant", [-0.5, 0.5]),
    ],
)
def test_eq_5_converts_with_hard_and_soft_labels(
    label: list[float], teacher: str, expected: list[float]
) -> None:
    config = Config.of(
        server_steps=1, learning_rate=1.0, distillation_weight=0.5, soft_label_teacher=teacher
    )
    learning = make_learning(config, PIXEL, Classification(2), ONE_PIXEL)
    image = np.ones((1, 1, 1, 1), np.float32)
    seeds = SeedSet(np.array([label], np.float32), lambda rows: image[rows])
    outputs = np.array([[0.9, 0.1], [0.3, 0.7]], np.float32)
    (weights,) = convert(None, outputs, seeds, learning, 1)
    assert_allclose(weights, [expected], rtol=1e-6)


def test_eq_6_mixes_with_the_first_sample_in_the_minority() -> None:
    pair = np.array([[[100, 1, 7]], [[200, 9, 9]]], np.uint8)[None, ..., None]
    # 0.1 x 100 + 0.9 x 200, 0.1 x 1 + 0.9 x 9, 0.1 x 7 + 0.9 x 9
    assert_allclose(mix(pair, (0.1, 0.9)).ravel(), [190, 8.2, 8.8], rtol=1e-12)


@pytest.mark.parametrize(
    ("bits", "both_ways"),
    [
        (8, {(0, 1): [190, 8, 9], (1, 0): [110, 2, 7]}),
        (32, {(0, 1): [190, 8.2, 8.8], (1, 0): [110, 1.8, 7.2]}),
    ],
)
def test_eq_6_of_two_samples_is_rounded_to_what_is_sent(
    bits: int, both_ways: dict[tuple[int, int], list[float]]
) -> None:
    images = np.array([[[100, 1, 7]], [[200, 9, 9]]], np.uint8)[..., None]
    config = Config.of(seed_samples=20, mixing_ratio=0.1, seed_bits=bits)
    sizes = sizes_for(Classification(2), config, SampleFormat((1, 3, 1)))
    seeds = mixed_samples(np.random.default_rng(0), images, np.array([0, 1], np.int32), sizes)
    assert {tuple(labels) for labels in seeds.labels.tolist()} == both_ways.keys()
    unit = 1 if bits == 8 else 255
    for image, labels in zip(seeds.inputs, seeds.labels.tolist(), strict=True):
        assert_allclose(unit * image.ravel(), both_ways[tuple(labels)], rtol=1e-6)


def test_eq_8_for_two_samples() -> None:
    # The inverse of (0.1 0.9; 0.9 0.1), whose determinant is -0.8.
    assert_allclose(inverse_ratios((0.1, 0.9)), [[-0.125, 1.125], [1.125, -0.125]], rtol=1e-12)


def test_eq_8_for_three_samples() -> None:
    assert_array_equal(
        mixing_matrix((0.2, 0.3, 0.5)), [[0.2, 0.3, 0.5], [0.3, 0.5, 0.2], [0.5, 0.2, 0.3]]
    )
    # Cofactors 0.11, 0.01, -0.19 over the determinant -0.07.
    a, b, c = -11 / 7, -1 / 7, 19 / 7
    assert_allclose(inverse_ratios((0.2, 0.3, 0.5)), [[a, b, c], [b, c, a], [c, a, b]], rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_eq_8_leaves_one_label(size: int) -> None:
    rng = np.random.default_rng(size)
    tried = 0
    while tried < 20:
        ratios = tuple(rng.dirichlet(np.ones(size)))
        if mixing_condition(ratios) > 1e3:
            continue
        tried += 1
        base = tuple(rng.permutation(7)[:size].tolist())
        soft = np.zeros((size, 7))
        for device in range(size):
            for position, ratio in enumerate(ratios):
                soft[device, base[position - device]] = ratio
        assert_allclose(inverse_ratios(ratios) @ soft, np.eye(7)[list(base)], atol=1e-10)


def test_label_vector_of_a_mix_holds_the_ratios() -> None:
    labels = np.array([[3, 1], [0, 2]], np.int32)
    assert_allclose(soft_labels(labels, (0.1, 0.9), 4), [[0, 0.9, 0, 0.1], [0.1, 0, 0.9, 0]])


def test_eq_7_restores_samples_that_both_devices_mixed() -> None:
    # Both mixed pixels 10 (label 3) and 200 (label 5): 0.1 x 10 + 0.9 x 200 = 181 and
    # 0.1 x 200 + 0.9 x 10 = 29; then -0.125 x 181 + 1.125 x 29 = 10.
    pool = Pool(
        inputs=np.array([181, 29], np.uint8).reshape(2, 1, 1, 1),
        labels=np.array([[3, 5], [5, 3]], np.int32),
        device=np.array([0, 1]),
    )
    groups = find_groups(pool, 10, np.random.default_rng(0))
    assert groups.members.tolist() == [[0, 1]]
    assert groups.labels.tolist() == [[3, 5]]
    restored = unmix(pool, groups, (0.1, 0.9), Coding(PIXEL, 8))
    assert_allclose(255 * restored.ravel(), [10, 200], rtol=1e-6)


def test_eq_7_of_samples_that_differ_restores_none() -> None:
    # Device 0 mixed 10 and 200 to 181; device 1 mixed 190 (label 5) and 20 (label 3) to 37:
    # -0.125 x 181 + 1.125 x 37 = 19 and 1.125 x 181 - 0.125 x 37 = 199.
    pool = Pool(
        inputs=np.array([181, 37], np.uint8).reshape(2, 1, 1, 1),
        labels=np.array([[3, 5], [5, 3]], np.int32),
        device=np.array([0, 1]),
    )
    groups = Groups(np.array([[0, 1]]), np.array([[3, 5]], np.int32))
    assert_allclose(
        255 * unmix(pool, groups, (0.1, 0.9), Coding(PIXEL, 8)).ravel(), [19, 199], rtol=1e-6
    )


def test_groups_never_pair_a_device_with_itself() -> None:
    pool = Pool(
        inputs=np.zeros((4, 1, 1, 1), np.uint8),
        labels=np.array([[0, 1], [1, 0], [0, 1], [0, 2]], np.int32),
        device=np.array([0, 0, 1, 1]),
    )
    groups = find_groups(pool, 10, np.random.default_rng(0))
    assert groups.members.tolist() == [[2, 1]]


def test_fl_weighs_devices_by_their_samples() -> None:
    inbox = {
        1: Upload((np.array([1.0, 2.0], np.float32),), samples=100),
        4: Upload((np.array([5.0, -2.0], np.float32),), samples=300),
    }
    # (100 x 1 + 300 x 5) / 400, (100 x 2 - 300 x 2) / 400
    assert_allclose(aggregate.average_weights(inbox)[0], [4.0, -1.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("unseen", "second_row"), [("skip", [0.2, 0.8, 0.0]), ("zero", [0.1, 0.4, 0.0])]
)
def test_fd_averages_each_label(unseen: str, second_row: list[float]) -> None:
    inbox = {
        0: Upload(np.array([[0.6, 0.2, 0.2], [0.2, 0.8, 0.0], [0, 0, 0]], np.float32), samples=1),
        2: Upload(np.array([[0.8, 0.1, 0.1], [0, 0, 0], [0, 0, 0]], np.float32), samples=9),
    }
    last = np.full((3, 3), 1 / 3, np.float32)
    # Each device counts the same; the third label was drawn by none and keeps its last row.
    assert_allclose(
        aggregate.average_outputs(inbox, last, unseen),
        [[0.7, 0.15, 0.15], second_row, [1 / 3, 1 / 3, 1 / 3]],
        rtol=1e-6,
    )


def test_stopping_rule_of_weights() -> None:
    before = ServerState(weights=(np.array([3.0, 0.0]), np.array([4.0])), updates=1)
    after = ServerState(weights=(np.array([3.0, 0.3]), np.array([4.4])), updates=2)
    # |(0, 0.3, 0.4)| / |(3, 0, 4)| = 0.5 / 5
    assert relative_change(before, after) == pytest.approx(0.1)
    assert relative_change(ServerState(), after) is None
    assert relative_change(after, after) is None


def test_stopping_rule_of_outputs_takes_the_worst_label() -> None:
    before = ServerState(outputs=np.array([[0.6, 0.8], [1.0, 0.0]], np.float32), updates=1)
    after = ServerState(
        outputs=np.array([[0.6, 0.8], [0.7, 0.4]], np.float32), weights=(np.ones(3),), updates=2
    )
    # |(-0.3, 0.4)| / |(1, 0)|; the first label did not move.
    assert relative_change(before, after) == pytest.approx(0.5)
    one_label_unknown = ServerState(outputs=np.array([[0.6, 0.8], [0, 0]], np.float32), updates=1)
    assert relative_change(one_label_unknown, after) is None


@pytest.mark.parametrize(
    ("change", "stops"),
    [
        (None, False),
        (0.0, True),
        (0.0499, True),
        (math.nextafter(0.05, 0), True),
        (0.05, False),  # below the tolerance, not at it
        (math.nextafter(0.05, 1), False),
        (0.0501, False),
        (0.0749, False),
    ],
)
def test_a_run_has_converged_below_the_tolerance_and_not_above(
    change: float | None, stops: bool
) -> None:
    nothing = np.zeros(1, np.int64)
    nobody = Transfer.of(nothing, Delivery(np.ones(1, np.bool_), nothing))
    zeros = np.zeros(1, np.int64)
    roster = Roster(np.array([0.5]), zeros, zeros, zeros)
    before, after = (RunState(p, [{}], ServerState(), Clock(), roster) for p in (0, 1))
    seen = Observed(
        before,
        {0: 0.0},
        {0: 0.0},
        Slowest(0, 0.0),
        nobody,
        nobody,
        QuorumResult(0, 0, 0),
        after,
        [],
        change,
        0.0,
        0.0,
        [],
        [],
        {},
        StepInfo(),
    )
    config = toy_config(protocol="fl", devices=1, samples_per_device=40, tolerance=0.05)
    scenario = make_simulation(config, toy_dataset()).scenario
    info = record(seen, MeasuredScores([(10, (0.5,))], None, None), scenario)
    assert info.converged is stops
    assert info.change == change


@pytest.mark.parametrize("protocol", ["fl", "fd", "mix2fld"])
def test_a_run_stops_in_the_first_round_that_changes_less_than_the_tolerance(
    protocol: str,
) -> None:
    """The changes of a run as it is, then the same run with a tolerance at one of them."""
    config = toy_config(protocol=protocol, rounds=5, local_steps=5, seed_samples=20)
    full = run(config, dataset=toy_dataset())[0]
    changes = [line["change"] for line in full.rounds]
    assert changes[0] is None
    smallest = int(np.argmin(changes[1:])) + 1
    earlier = [change for change in changes[1:smallest] if change is not None]
    for tolerance, stops in (
        (changes[smallest] * (1 + 1e-9), True),
        (changes[smallest], False),
        (changes[smallest] / 1.2, False),
    ):
        assert all(change > tolerance for change in earlier)
        stopping = config.replace(tolerance=tolerance, stop_when_converged=True)
        rounds = run(stopping, dataset=toy_dataset())[0].rounds
        assert len(rounds) == (smallest + 1 if stops else 5)
        assert [line["converged"] for line in rounds] == [
            stops and number == smallest for number in range(len(rounds))
        ]
