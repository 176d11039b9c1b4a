"""Updates whose last layer is coded by itself: bits, both parts, the server's steps, whole runs."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference_codecs
from mix2fld import run
from mix2fld.base.errors import InputError
from mix2fld.codecs import (
    PayloadError,
    RotatedUpdate,
    SplitUpdate,
    UpdateCodec,
    with_last_layer_apart,
)
from mix2fld.codecs.rotated_plan import make_plan
from mix2fld.models import from_torch
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.last_layer import find_last_layer
from mix2fld.types import Dimensions, Group, Model, ServerState, Update, Upload
from toy_updates import LABELS, an_update, dims_of
from toys import examples, toy_config, toy_dataset

SHAPES = ((60,), (30, 60), (LABELS,), (LABELS, 30))
"""A bias and a kernel of two layers, as a tree of them is flattened; the last has 124 weights."""
ROUNDED_NORM = 2 ** (1 / 16) - 1
"""Norms are sent in steps of an eighth of an octave."""
DIMS = dims_of(*SHAPES)
LAST = np.repeat([False, False, True, True], [60, 1800, 4, 120])


def split(
    bits: int,
    share: float | Any = 0.5,
    variable_rate: bool = False,
    dims: Dimensions | None = None,
    arrays: tuple[int, ...] = (2, 3),
) -> UpdateCodec:
    whole = RotatedUpdate(largest_per_group=True, bits=bits, variable_rate=variable_rate)
    return with_last_layer_apart(whole, share, dims or DIMS, arrays)


def drawn(seed: int = 0, size: int = len(LAST)) -> np.ndarray:
    return an_update(size, seed, spread=1)


def part_bits(codec: UpdateCodec, budget: int | None = None) -> tuple[int, int]:
    codes = codec.compress(drawn(), np.random.default_rng(0), budget)
    last, rest = (0 if one is None else one.bits for one in codes)
    return last, rest


def relu(values: Any) -> Any:
    return np.maximum(values, 0)


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("shapes", "network", "arrays"),
    [
        (
            ((20,), (20, 6), (LABELS,), (LABELS, 20)),
            lambda w, x: relu(x @ w[1].T + w[0]) @ w[3].T + w[2],
            (2, 3),
        ),
        (  # a hidden layer as wide as there are labels
            ((LABELS,), (LABELS, 6), (LABELS,), (LABELS, LABELS)),
            lambda w, x: relu(x @ w[1].T + w[0]) @ w[3].T + w[2],
            (2, 3),
        ),
        (  # the same, and the last layer has no bias
            ((LABELS,), (LABELS, 6), (LABELS, LABELS)),
            lambda w, x: relu(x @ w[1].T + w[0]) @ w[2].T,
            (2,),
        ),
        (  # by name, the last layer comes first
            ((LABELS,), (20, LABELS), (20,), (6, 20)),
            lambda w, x: relu(x @ w[3] + w[2]) @ w[1] + w[0],
            (0, 1),
        ),
        (
            ((6, LABELS), (LABELS, LABELS), (LABELS,)),
            lambda w, x: log_softmax(relu(x @ w[0]) @ w[1] + w[2]),
            (1, 2),
        ),
        (((6, 12), (12,)), lambda w, x: (x @ w[0] + w[1]).reshape(-1, LABELS, 3).sum(2), ()),
        (((20, 6), (1, 20)), lambda w, x: relu(x @ w[0].T) @ w[1].T, (1,)),
        (((1, 6), (1,), (1, 1)), lambda w, x: relu(x @ w[0].T + w[1]) @ w[2].T, (2,)),
    ],
)
def test_the_last_layer_is_what_moves_one_output_alone(
    shapes: Any, network: Any, arrays: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    weights = tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)
    inputs = rng.normal(size=(8, 6)).astype(np.float32)
    outputs = network(weights, inputs).shape[1]
    assert find_last_layer(lambda own: network(own, inputs), weights, outputs) == arrays


def narrow() -> Model:
    """A hidden layer as wide as there are labels, then a kernel alone."""

    def init(key: Any) -> Any:
        first, last = jax.random.split(key)
        hidden = jax.random.normal(first, (LABELS, 64)) / 8
        return {
            "1": {"bias": jnp.zeros(LABELS), "kernel": hidden},
            "2": jax.random.normal(last, (LABELS, LABELS)),
        }

    def apply(weights: Any, inputs: Any) -> Any:
        first = weights["1"]
        hidden = inputs.reshape(len(inputs), -1) @ first["kernel"].T + first["bias"]
        return jax.nn.relu(hidden) @ weights["2"].T

    return Model("narrow", init, apply)


def narrow_torch() -> Any:
    layers = torch.nn.Linear(64, LABELS), torch.nn.Linear(LABELS, LABELS, bias=False)
    return torch.nn.Sequential(torch.nn.Flatten(), layers[0], torch.nn.ReLU(), layers[1])


@pytest.mark.parametrize(("model", "arrays"), [(narrow(), (2,)), (from_torch(narrow_torch), (2,))])
def test_the_last_layer_of_a_run_is_that_of_its_model(model: Model, arrays: Any) -> None:
    config = toy_config(protocol="murmur", last_layer_share=0.5, kernel="auto")
    scenario = make_simulation(config, toy_dataset(), model=model).scenario
    assert scenario.learning.last_layer == arrays
    assert scenario.wire.protocol.upload_codec.arrays == arrays


def test_a_small_share_with_nearly_all_bits_is_carried() -> None:
    """The rest cannot use all that is left: the last layer gets more than its share."""
    codec, dims = split(40_000, 0.02), DIMS
    codes = codec.compress(drawn(), np.random.default_rng(0), None)
    again = codec.decode(codec.encode(codes, dims).data, dims)
    found = codec.restore(again, np.random.default_rng(0), len(LAST))
    np.testing.assert_allclose(found.update, drawn(), atol=5e-3)


def test_a_small_last_layer_gets_half_of_the_bits_and_at_most_one_for_a_weight() -> None:
    large = dims_of((2000, 60), (60,), (60, LABELS), (LABELS,))
    size = large.num_weights
    for bits, last in ((20, 20), (39, 39), (40, 20), (200, 100), (488, 244), (5000, 244)):
        codec = split(bits, "auto", dims=large)
        codes = codec.compress(drawn(size=size), np.random.default_rng(0), None)
        assert codes[0].bits == last
        assert (0 if codes[1] is None else codes[1].bits) == bits - last


@pytest.mark.parametrize(
    ("share", "arrays"),
    [("auto", (2, 3)), ("auto", ()), (0, (2, 3))],  # the last layer has 6 % of the weights
)
def test_other_updates_are_coded_whole(share: Any, arrays: tuple[int, ...]) -> None:
    codec = RotatedUpdate(largest_per_group=True, bits=200)
    assert with_last_layer_apart(codec, share, DIMS, arrays) is codec


@pytest.mark.parametrize("name", ["eden", "sign", "stc", "topk", "dp-fl", "murmur"])
def test_only_rows_that_send_the_largest_of_groups_are_split(name: str) -> None:
    config = toy_config(protocol=name, last_layer_share=0.5)
    codec = make_simulation(config, toy_dataset()).scenario.wire.protocol.upload_codec
    assert isinstance(codec, SplitUpdate) == (name == "murmur")


@pytest.mark.parametrize("arrays", [(), (0, 1, 2, 3)])
def test_a_model_without_a_last_layer_beside_others_cannot_be_split(arrays: Any) -> None:
    with pytest.raises(InputError, match=r"last_layer_share = 0\.5: .* 4 labels.*auto or 0"):
        split(200, arrays=arrays)


@examples(60)
@given(
    bits=st.integers(20, 40_000),
    share=st.floats(0.01, 1),
    budget=st.integers(0, 40_000),
    variable_rate=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_share_is_carried_to_the_bit(
    bits: int, share: float, budget: int, variable_rate: bool, seed: int
) -> None:
    codec, dims = split(max(bits, 24), share, variable_rate), DIMS
    codes = codec.compress(drawn(seed), np.random.default_rng(seed), budget)
    sent = codec.encode(codes, dims)
    assert len(sent.data) == -(-sent.bits // 8)
    assert sent.bits <= codec.size(dims).bits
    assert variable_rate or sent.bits == codec.size(dims).bits
    assert all(one is None or one.bits >= 20 for one in codes)
    again = codec.decode(sent.data, dims)
    assert codec.encode(again, dims) == sent
    ends = [codec.restore(end, np.random.default_rng(seed), len(LAST)) for end in (codes, again)]
    np.testing.assert_array_equal(ends[0].update, ends[1].update)


def test_each_part_is_what_the_oracle_makes_of_it() -> None:
    codec, update = split(300, 0.4), drawn(5)
    codes = codec.compress(update, np.random.default_rng(7), None)
    found = codec.restore(codes, np.random.default_rng(7), len(update))
    streams = np.random.default_rng(7).spawn(2)
    for own, bits, rng, group in zip((LAST, ~LAST), (120, 180), streams, found.apart, strict=True):
        expected = reference_codecs.murmur(update[own].astype(np.float64), rng, bits)
        np.testing.assert_allclose(found.update[own], expected.update, atol=1e-4)
        assert group.norm == pytest.approx(expected.norm, rel=1e-4)
    assert [group.arrays for group in found.apart] == [(2, 3), (0, 1)]


def test_what_is_restored_is_right_on_average_and_as_far_off_as_each_part_says() -> None:
    codec, update, draws = split(200), drawn(3), 1500
    found = np.array(
        [
            codec.restore(
                codec.compress(update, np.random.default_rng(seed), None),
                np.random.default_rng(seed),
                len(update),
            ).update
            for seed in range(draws)
        ],
        np.float64,
    )
    for own, bits in ((LAST, 100), (~LAST, 100)):
        size, squared = int(own.sum()), float(np.sum(update[own].astype(np.float64) ** 2))
        captured = make_plan(bits, size, True).captured / size
        errors = found[:, own] - update[own]
        assert np.mean(np.sum(errors**2, axis=1)) / squared == pytest.approx(
            1 / captured - 1, rel=0.12
        )
        off = float(np.sum(errors.mean(axis=0) ** 2)) / squared
        assert off < 1.35 * (1 / captured - 1) / draws + ROUNDED_NORM**2


def test_the_last_layer_arrives_with_less_noise_than_in_an_update_that_is_coded_whole() -> None:
    update, errors = drawn(1), {}
    for name, codec in (
        ("split", split(200)),
        ("whole", RotatedUpdate(largest_per_group=True, bits=200)),
    ):
        ends = [np.random.default_rng(4), np.random.default_rng(4)]
        found = codec.restore(codec.compress(update, ends[0], None), ends[1], len(update)).update
        errors[name] = float(np.sum((found[LAST] - update[LAST]) ** 2))
    assert errors["split"] < errors["whole"] / 3


@pytest.mark.parametrize(
    ("weights", "bits", "error"), [(407_050, 200, 184), (5_130, 100, 5.2)], ids=["all", "last"]
)
def test_errors_of_the_page(weights: int, bits: int, error: float) -> None:
    """docs/thin_uplink.md: the error of the mean of ten devices."""
    captured = make_plan(bits, weights, largest_per_group=True).captured / weights
    assert (1 / captured - 1) / 10 == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize(
    "data", [b"", bytes(24), bytes(26), b"\xff" * 25, bytes(24) + b"\x01"], ids=range(5)
)
def test_bytes_that_nobody_would_send_are_refused(data: bytes) -> None:
    codec = split(197)
    assert isinstance(codec, SplitUpdate)
    with pytest.raises(PayloadError, match=r"split update|rotated update"):
        codec.decode(data, DIMS)


def test_groups_have_steps_of_their_own() -> None:
    """Both means have norm 4: one is of updates of norm 1, the other of norm 10."""
    arrays = [np.array(values, np.float32) for values in ([4.0, 0.0], [0.0, 4.0])]

    class ATask:
        config = toy_config(step_limit=1.5)
        common_weights = tuple(np.ones_like(part) for part in arrays)

    update = Update(tuple(arrays), 1.0, (Group((1,), 1.0), Group((0,), 10.0)))
    learning: Any = ATask()
    learning.learning = learning
    inbox = {0: Upload(update, 10), 1: Upload(update, 10)}
    found, _ = replace(PROTOCOLS["murmur"], sizes=learning).step(ServerState(), inbox, 1)
    np.testing.assert_allclose(found.weights[0], [5.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(found.weights[1], [1.0, 2.5], rtol=1e-6)


@pytest.mark.parametrize("name", ["murmur", "murmur-mix", "dp-murmur"])
@pytest.mark.parametrize("bits", [100, "auto"])
def test_rows_of_few_bits_run_with_a_last_layer_apart(name: str, bits: int | str) -> None:
    config = toy_config(protocol=name, rounds=2, update_bits=bits, last_layer_share=0.3)
    apart, whole = (
        run(config.replace(last_layer_share=share), dataset=toy_dataset())[0]
        for share in (0.3, 0.0)
    )
    assert apart.summary["uploads"] == whole.summary["uploads"]
    assert apart.summary["bits"]["up"] == whole.summary["bits"]["up"]
    assert apart.rounds[-1]["change"] != whole.rounds[-1]["change"]


@pytest.mark.parametrize("value", [-0.1, 1.5, "half", float("nan")])
def test_a_share_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(InputError, match=r"last_layer_share = .*auto, or a number from 0 to 1"):
        toy_config(last_layer_share=value)
