"""Codecs of updates: rotation, plan of bits, what is carried, and what theory says of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard as sylvester

from mix2fld.base.errors import InputError
from mix2fld.codecs import (
    LargestEntries,
    PayloadError,
    RotatedUpdate,
    SparseTernary,
    UpdateCodec,
)
from mix2fld.codecs.rotated_plan import lloyd_max, make_plan, mean_largest
from mix2fld.codecs.rotation import Rotation, block_sizes, hadamard
from mix2fld.codecs.sparse_update import decode_positions, encode_positions, most_bits
from mix2fld.config.uploads import UpdateConfig
from mix2fld.protocols.updates import EDEN, STC, Murmur, Sign, TopK
from toy_updates import an_update, dims_of
from toys import examples

PAPER = 12_544
CODECS = {
    "murmur": RotatedUpdate(largest_per_group=True, bits=60),
    "murmur-auto": RotatedUpdate(largest_per_group=True, bits=800, variable_rate=True),
    "eden": RotatedUpdate(largest_per_group=False, bits=90),
    "eden-fine": RotatedUpdate(largest_per_group=False, bits=700),
    "sign": RotatedUpdate(largest_per_group=False, bits=216, min_mse=True),
    "stc": SparseTernary(0.05),
    "topk": LargestEntries(0.05),
}


def restored(codec: UpdateCodec, update: np.ndarray, seed: int, bit_budget: int | None = None):
    """The update at the other end of the link."""
    dims = dims_of((len(update),))
    codes = codec.compress(update, np.random.default_rng(seed), bit_budget)
    sent = codec.encode(codes, dims)
    return codec.restore(codec.decode(sent.data, dims), np.random.default_rng(seed), len(update))


def relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sum((found.astype(np.float64) - truth) ** 2) / np.sum(truth.astype(float) ** 2))


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_the_hadamard_transform_is_that_of_sylvesters_matrix(size: int) -> None:
    rows = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
    np.testing.assert_allclose(hadamard(rows), rows @ sylvester(size) / size**0.5, atol=1e-5)
    np.testing.assert_allclose(hadamard(hadamard(rows)), rows, atol=1e-5)


@given(size=st.integers(1, 600), seed=st.integers(0, 99))
def test_a_rotation_keeps_lengths_and_can_be_undone(size: int, seed: int) -> None:
    rotation, vector = Rotation(np.random.default_rng(seed), size), an_update(size, seed)
    turned = rotation.forward(vector)
    np.testing.assert_allclose(rotation.backward(turned), vector, atol=1e-5 * np.abs(vector).max())
    assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(vector), rel=1e-5)
    assert sum(block_sizes(size)) == size


def test_the_mean_of_the_largest_gaussian() -> None:
    """Closed forms for one and two; simulation for more."""
    assert mean_largest(1) == pytest.approx(math.sqrt(2 / math.pi), abs=1e-6)
    assert mean_largest(2) == pytest.approx(2 / math.sqrt(math.pi), abs=1e-6)
    draws = np.abs(np.random.default_rng(0).normal(size=(4000, 512)))
    for count in (16, 128, 512):
        found = draws[:, :count].max(axis=1)
        assert mean_largest(count) == pytest.approx(found.mean(), abs=4 * found.std() / 4000**0.5)


def test_levels_have_the_errors_of_maxs_table() -> None:
    """Max 1960, table I: mean squared errors with 2, 4, 8 and 16 levels."""
    for bits, error in ((1, 0.3634), (2, 0.1175), (3, 0.03454), (4, 0.009497)):
        assert 1 - lloyd_max(bits).captured == pytest.approx(error, rel=5e-4)
    np.testing.assert_allclose(lloyd_max(2).means, [0.4528, 1.510], rtol=1e-3)
    for bits in range(5, 17):
        fine, coarse = lloyd_max(bits), lloyd_max(bits - 1)
        assert 3.5 < (1 - coarse.captured) / (1 - fine.captured) < 4.2
        assert np.all(np.diff(fine.means) > 0)


@given(size=st.integers(1, 3000), share=st.floats(0, 1), largest_per_group=st.booleans())
def test_a_plan_spends_no_more_than_there_is(
    size: int, share: float, largest_per_group: bool
) -> None:
    bits = 20 + round(share**4 * 32 * size)
    plan = make_plan(bits, size, largest_per_group)
    assert 0 < plan.bits <= bits
    assert sum(part.coordinates for part in plan.parts) <= size
    assert 0 < plan.captured <= size
    assert make_plan(2 * bits, size, largest_per_group).captured >= plan.captured
    if 4 * bits < size:
        assert make_plan(bits, size, True).captured >= make_plan(bits, size, False).captured


@pytest.mark.parametrize(
    ("bits", "groups", "index_bits"),
    [(20, 1, 11), (96, 8, 10), (198, 19, 9), (496, 61, 7), (1400, 232, 5)],
)
def test_groups_are_as_large_as_recipe_r_makes_them(bits, groups, index_bits) -> None:
    plan = make_plan(bits, PAPER, largest_per_group=True)
    assert plan.norm_bits == 8
    assert sum(part.groups for part in plan.parts) == groups
    assert plan.parts[-1].index_bits == index_bits
    assert bits - index_bits <= plan.bits <= bits


@examples(60)
@given(size=st.integers(1, 400), share=st.floats(0, 1), seed=st.integers(0, 99))
@pytest.mark.parametrize("largest_per_group", [True, False])
def test_any_number_of_bits_is_carried_to_the_bit(largest_per_group, size, share, seed) -> None:
    bits = 20 + round(share**4 * 32 * size)
    codec, dims = RotatedUpdate(largest_per_group, bits), dims_of((size,))
    codes = codec.compress(an_update(size, seed), np.random.default_rng(seed), None)
    sent = codec.encode(codes, dims)
    assert sent.bits == codec.size(dims).bits <= bits
    assert len(sent.data) == -(-sent.bits // 8)
    again = codec.decode(sent.data, dims)
    assert again.norm == codes.norm
    np.testing.assert_array_equal(again.groups, codes.groups)
    assert codec.encode(again, dims) == sent


@pytest.mark.parametrize("budget", [1, 20, 24, 31, 100, 799, 10_000])
def test_automatic_bits_fill_whole_bytes_of_the_bit_budget(budget: int) -> None:
    codec, dims = CODECS["murmur-auto"], dims_of((2000,))
    sent = codec.encode(codec.compress(an_update(2000), np.random.default_rng(0), budget), dims)
    assert sent.bits == 8 * len(sent.data) == max(24, min(budget, 800) // 8 * 8)
    assert codec.decode(sent.data, dims).bits == sent.bits


@examples(40)
@given(data=st.data())
@pytest.mark.parametrize("name", CODECS)
def test_hostile_bytes_are_refused_or_read_as_an_update(name: str, data) -> None:
    """Whatever arrives, the server has a finite update or one message."""
    codec, dims = CODECS[name], dims_of((200,))
    honest = codec.encode(codec.compress(an_update(200), np.random.default_rng(0), None), dims)
    sent = data.draw(
        st.one_of(
            st.binary(max_size=2 * len(honest.data)),
            st.binary(min_size=len(honest.data), max_size=len(honest.data)),
            st.integers(0, 8 * len(honest.data) - 1).map(lambda bit: flipped(honest.data, bit)),
        )
    )
    try:
        codes = codec.decode(sent, dims)
    except PayloadError:
        return
    found = codec.restore(codes, np.random.default_rng(0), 200)
    assert found.update.shape == (200,)
    assert np.isfinite(found.update).all()
    assert codec.encode(codes, dims).data == sent


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("name", CODECS)
def test_an_update_that_is_zero_stays_zero(name: str) -> None:
    found = restored(CODECS[name], np.zeros(200, np.float32), seed=0)
    np.testing.assert_array_equal(found.update, 0)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0])
@pytest.mark.parametrize("bits", [20, 200, 1400, PAPER + 16, 4 * PAPER + 16])
def test_the_inner_product_with_the_update_is_right(bits: int, scale: float) -> None:
    """EDEN's scale; the norm is rounded to a 16th of an octave at most, or a 4096th."""
    update = an_update(PAPER) * np.float32(scale)
    found = restored(RotatedUpdate(largest_per_group=True, bits=bits), update, seed=3).update
    product = np.sum(found.astype(float) * update) / np.sum(update.astype(float) ** 2)
    rounding = 2 ** (1 / 16) if bits <= PAPER else 2 ** (1 / 4096)
    assert 1 / rounding - 1e-4 <= product <= rounding + 1e-4


@pytest.mark.parametrize(
    ("largest_per_group", "bits"), [(True, 40), (True, 200), (False, 100), (False, 400)]
)
def test_over_all_rotations_the_update_is_right_on_average(
    largest_per_group: bool, bits: int
) -> None:
    """The mean of n restored updates is off by 1 / n of what one is."""
    update, count = an_update(300), 600
    codec = RotatedUpdate(largest_per_group, bits)
    found = np.stack([restored(codec, update, seed).update for seed in range(count)])
    once = np.mean([relative_error(row, update) for row in found])
    assert relative_error(found.mean(axis=0), update) == pytest.approx(once / count, rel=0.5)


@pytest.mark.parametrize("share", [0.05, 0.2, 1.0])
def test_the_error_of_a_mean_of_signs(share: float) -> None:
    """Of D devices that send the signs of a share of coordinates: (pi / (2 share) - 1) / D."""
    devices, updates = 10, [an_update(PAPER, seed) for seed in range(10)]
    codec = EDEN(bits_per_weight=share).make_codec(PAPER)
    found = [restored(codec, update, seed).update for seed, update in enumerate(updates)]
    energy = np.mean([np.sum(update.astype(float) ** 2) for update in updates])
    error = np.sum(np.mean(np.subtract(found, updates, dtype=float), axis=0) ** 2) / energy
    assert error == pytest.approx((math.pi / (2 * share) - 1) / devices, rel=0.1)


@pytest.mark.parametrize("bits", [96, 198, 496, 1400, 4000])
def test_the_error_of_a_mean_of_picked_coordinates(bits: int) -> None:
    """Of D devices: (N / sum over groups of E[max]^2 - 1) / D."""
    devices, updates = 10, [an_update(PAPER, seed) for seed in range(10)]
    codec = Murmur(bits=bits).make_codec(PAPER)
    found = [restored(codec, update, 50 + seed) for seed, update in enumerate(updates)]
    energy = np.mean([np.sum(update.astype(float) ** 2) for update in updates])
    errors = [one.update - update.astype(float) for one, update in zip(found, updates, strict=True)]
    error = np.sum(np.mean(errors, axis=0) ** 2) / energy
    sizes = [1 << part.index_bits for part in make_plan(bits, PAPER, True).parts
             for _ in range(part.groups)]  # fmt: skip
    captured = sum(mean_largest(n) ** 2 for n in sizes)
    assert found[0].captured == pytest.approx(captured / PAPER, rel=1e-6)
    assert error == pytest.approx((PAPER / captured - 1) / devices, rel=0.2)


@pytest.mark.parametrize("bits", [24, 60, 198, 1400, PAPER + 16])
def test_the_server_knows_the_norm_of_an_update(bits: int) -> None:
    """From what arrived: within the spread of the largest of so few groups, and rounding."""
    ratios = []
    for seed in range(8):
        update = an_update(PAPER, seed)
        found = restored(RotatedUpdate(largest_per_group=True, bits=bits), update, seed)
        estimate = math.sqrt(found.captured) * np.linalg.norm(found.update.astype(float))
        ratios.append(estimate / np.linalg.norm(update.astype(float)))
    groups = sum(part.groups for part in make_plan(bits, PAPER, True).parts)
    assert np.abs(np.array(ratios) - 1).max() < 0.06 + 0.4 / math.sqrt(groups)


def test_finer_levels_come_closer() -> None:
    """Of unbiased rounding, 1 / captured - 1, for each number of bits of a coordinate."""
    update = an_update(PAPER)
    for bits in (1, 2, 3, 4, 8):
        codec = EDEN(bits_per_weight=bits).make_codec(PAPER)
        expected = 1 / lloyd_max(bits).captured - 1
        assert relative_error(restored(codec, update, 1).update, update) == pytest.approx(
            expected, rel=0.1
        )
    min_mse = Sign().make_codec(PAPER)
    error = relative_error(restored(min_mse, update, 1).update, update)
    assert error == pytest.approx(1 - 2 / math.pi, rel=0.02)


def test_sides_that_draw_differently_agree_on_nothing() -> None:
    """Why both ends must have the run's seed: what arrives says nothing of the update."""
    update, codec, dims = an_update(PAPER), CODECS["eden-fine"], dims_of((PAPER,))
    codes = codec.compress(update, np.random.default_rng(0), None)
    found = codec.restore(codec.decode(codec.encode(codes, dims).data, dims),
                          np.random.default_rng(1), PAPER)  # fmt: skip
    product = np.sum(found.update.astype(float) * update) / np.sum(update.astype(float) ** 2)
    assert abs(product) < 0.5


@given(
    places=st.sets(st.integers(0, 999), min_size=1, max_size=60),
    tail=st.lists(st.integers(0, 1), max_size=9),
)
def test_positions_are_carried_within_their_bound(places: set[int], tail: list[int]) -> None:
    row = np.array(sorted(places))
    bits = encode_positions(row, 1000)
    assert len(bits) <= most_bits(len(row), 1000)
    found, rest = decode_positions(np.concatenate([bits, np.array(tail, np.uint8)]), len(row), 1000)
    np.testing.assert_array_equal(found, row)
    assert rest.tolist() == tail


@pytest.mark.parametrize("count", [1, 10, 50, 500, 1000])
def test_positions_take_few_bits(count: int) -> None:
    """Close to the entropy of a random choice of so many of a thousand."""
    rng = np.random.default_rng(0)
    sizes = [len(encode_positions(np.sort(rng.permutation(1000)[:count]), 1000)) for _ in range(20)]
    entropy = (math.lgamma(1001) - math.lgamma(count + 1) - math.lgamma(1001 - count)) / math.log(2)
    assert np.mean(sizes) <= max(1.12 * entropy, entropy + 1000 * (count == 1000) + 3)


@pytest.mark.parametrize("protocol", [TopK(kept_share=0.01), STC(kept_share=0.01)])
def test_the_largest_entries_are_kept(protocol: TopK) -> None:
    update = an_update(PAPER)
    codec = protocol.make_codec(PAPER)
    found = restored(codec, update, 0).update
    kept = np.flatnonzero(found)
    assert len(kept) == 125
    assert np.abs(update[kept]).min() >= np.abs(np.delete(update, kept)).max()
    np.testing.assert_array_equal(np.sign(found[kept]), np.sign(update[kept]))
    values = update[kept] if type(protocol) is TopK else np.abs(update[kept]).mean()
    np.testing.assert_allclose(np.abs(found[kept]), np.abs(values), rtol=2**-10)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"update_bits": 19}, "update_bits = 19: must be auto, or 20 bits or more"),
        ({"update_bits": "some"}, "update_bits = 'some': must be auto, or 20 bits or more"),
        ({"update_bits": 32 * 100 + 1}, "more than 32 for each of 100 weights; must be at most"),
        ({"downlink_bits": 20}, "downlink_bits = 20: must be 32, or from 2 to 16"),
        ({"bits_per_weight": 0}, "bits_per_weight = 0: must be greater than or equal to 0.001"),
        ({"kept_share": 1.5}, "kept_share = 1.5: must be less than or equal to 1"),
        ({"upload_every": 0}, "upload_every = 0"),
        ({"delivery_target": 1.0}, "delivery_target = 1.0: must be less than 1"),
    ],
)
def test_bad_numbers_of_bits_get_one_message(fields, words: str) -> None:
    with pytest.raises(InputError) as raised:
        Murmur(bits=UpdateConfig(**fields).update_bits).make_codec(100)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
