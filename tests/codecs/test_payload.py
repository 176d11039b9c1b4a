"""Bits charged are bits carried, exactly; and no bytes can do worse than raise ``PayloadError``."""

import timeit
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mix2fld.base.errors import InputError
from mix2fld.codecs import (
    Encoded,
    Nothing,
    Outputs,
    PayloadError,
    SeedSamples,
    Size,
    Weights,
    flatten_tensors,
    unflatten_tensors,
)
from mix2fld.codecs.bits import pack, unpack
from mix2fld.data.samples import coding_of
from mix2fld.types import Dimensions, SampleFormat, Seeds

PAPER_SHAPES = ((3, 3, 1, 12), (12,), (3, 3, 12, 6), (6,), (1176, 10), (10,))
SMALL_SHAPES = ((2, 3), (), (5,), (0,), (1, 4))
WIDTHS = st.integers(2, 16)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def dimensions(
    shapes: tuple[tuple[int, ...], ...] = SMALL_SHAPES,
    num_labels: int = 10,
    sample_shape: tuple[int, ...] = (2, 3, 1),
    seed_samples: int = 4,
    seed_bits: int = 8,
) -> Dimensions:
    samples = SampleFormat(sample_shape)
    return Dimensions(shapes, num_labels, samples, seed_samples, seed_bits, sample_shape)


PAPER = dimensions(PAPER_SHAPES, 10, (28, 28, 1), 50)


def same_bits(a: Any, b: Any) -> bool:
    """Equal to the last bit: -0 is not 0 here."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@st.composite
def weight_lists(draw: st.DrawFn) -> list[np.ndarray]:
    return [draw(hnp.arrays(np.float32, shape, elements=FLOATS)) for shape in SMALL_SHAPES]


@st.composite
def close_weights(draw: st.DrawFn) -> list[np.ndarray]:
    """Arrays whose values are a few float32 steps apart, near or across a power of two."""
    arrays = []
    for shape in SMALL_SHAPES:
        first = draw(st.sampled_from([0, 0x3F7FFFF0, 0x3F800000, 0x7F000000, 0x00800000 - 20]))
        reach = draw(st.sampled_from([3, 40, 300, 70_000]))
        steps = draw(hnp.arrays(np.uint32, shape, elements=st.integers(0, reach)))
        sign = draw(st.sampled_from([0, 0x80000000]))
        arrays.append(np.asarray((steps + np.uint32(first)) | np.uint32(sign)).view(np.float32))
    return arrays


@st.composite
def output_matrices(draw: st.DrawFn, num_labels: int = 10) -> np.ndarray:
    logits = draw(hnp.arrays(np.float64, (num_labels, num_labels), elements=st.floats(-80, 80)))
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    rows[draw(hnp.arrays(np.bool_, num_labels))] = 0
    return rows.astype(np.float32)


@st.composite
def seed_cases(draw: st.DrawFn) -> tuple[Dimensions, SeedSamples, Seeds]:
    dims = dimensions(
        num_labels=draw(st.integers(1, 300)),
        seed_samples=draw(st.integers(1, 5)),
        seed_bits=draw(st.sampled_from([*range(1, 17), 32])),
    )
    mix_size = draw(st.integers(1, 4))
    shape, coding = (dims.seed_samples, *dims.seed_shape), coding_of(dims)
    codes = st.integers(0, 2**dims.seed_bits - 1) if coding.rounds else FLOATS
    images = draw(hnp.arrays(coding.dtype, shape, elements=codes))
    one = st.integers(0, dims.num_labels - 1)
    labels = draw(hnp.arrays(np.int32, (dims.seed_samples, mix_size), elements=one))
    return dims, SeedSamples(mix_size), Seeds(images, labels)


def test_sizes_of_the_paper():
    assert PAPER.num_weights == 12_544
    assert Weights().size(PAPER) == Size(401_408)
    assert Outputs().size(PAPER) == Size(3200)
    assert Nothing().size(PAPER) == Size(0)
    assert SeedSamples(1).size(PAPER) == Size(50 * (6272 + 4))
    assert SeedSamples(2).size(PAPER) == Size(50 * (6272 + 8))


def test_8_bit_weights_still_take_26_slots():
    assert Weights(8).size(PAPER) == Size(8 * 12_544 + 64 * 6)
    assert -(-Weights(8).size(PAPER).bits // 4000) == 26


@pytest.mark.parametrize(
    ("num_labels", "each"), [(1, 0), (2, 1), (3, 2), (10, 4), (16, 4), (17, 5), (100, 7)]
)
def test_bits_of_a_label(num_labels, each):
    dims = dimensions(num_labels=num_labels, seed_samples=3, sample_shape=(1, 1, 1))
    assert SeedSamples(2).size(dims) == Size(3 * (8 + 2 * each))


@given(weight_lists())
def test_full_weights_arrive_exactly(weights):
    dims = dimensions()
    data, bits = Weights().encode(weights, dims)
    assert 8 * len(data) == bits == Weights().size(dims).bits
    decoded = Weights().decode(data, dims)
    assert all(same_bits(a, b) for a, b in zip(weights, decoded, strict=True))


def test_denormals_and_signed_zeros_arrive_exactly():
    values = np.array([0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38], dtype=np.float32)
    dims = dimensions(shapes=((5,),))
    assert same_bits(Weights().decode(Weights().encode([values], dims).data, dims)[0], values)


def test_bytes_are_little_endian_floats_in_order():
    dims = dimensions(shapes=((1,), (2,)))
    data = Weights().encode([np.float32([1.0]), np.float32([-2.0, 0.5])], dims).data
    assert data.hex() == "0000803f" + "000000c0" + "0000003f"


def test_quantised_bytes_by_hand():
    """Ends 0 and 3 as floats, then the codes 00 01 11 10 and one byte of them."""
    dims = dimensions(shapes=((4,),))
    data = Weights(2).encode([np.float32([0, 1.2, 3, 2])], dims).data
    assert data.hex() == "00000000" + "00004040" + f"{0b00011110:02x}"
    assert Weights(2).decode(data, dims)[0].tolist() == [0, 1, 3, 2]


@given(st.one_of(weight_lists(), close_weights()), WIDTHS)
def test_quantised_weights_are_within_half_a_step(weights, width):
    """Half a step, and what arithmetic adds to it.

    The result is rounded to float32, by 2^-24 of the larger end or 2^-150 at most. Codes and
    levels are computed in float64, each with at most four roundings relative to the larger end or
    to the span, which is at most twice as much: 16 units of 2^-53.
    """
    dims, payload = dimensions(), Weights(width)
    data, bits = payload.encode(weights, dims)
    assert Size(bits) == payload.size(dims)
    assert len(data) == -(-bits // 8)
    for original, decoded in zip(weights, payload.decode(data, dims), strict=True):
        assert decoded.dtype == np.float32
        assert decoded.shape == original.shape
        if original.size == 0:
            continue
        exact = original.astype(np.float64)
        step = (exact.max() - exact.min()) / (2**width - 1)
        largest = float(np.abs(original).max())
        rounding = max(2.0**-24 * largest, 2.0**-150) + 16 * 2.0**-53 * largest
        assert np.abs(exact - decoded).max() <= step / 2 + rounding
        assert decoded.min() == original.min()
        assert decoded.max() == original.max()


@given(st.one_of(weight_lists(), close_weights()), WIDTHS)
@example(
    [np.float32([[-0.0, 0, 0], [0, 0, 1]]), *map(np.float32, (0, [-0.0] * 5, [], [[0] * 4]))], 8
)
def test_rounding_twice_is_rounding_once(weights, width):
    dims, payload = dimensions(), Weights(width)
    sent = payload.encode(weights, dims)
    assert payload.encode(payload.decode(sent.data, dims), dims) == sent


@given(st.lists(FLOATS, min_size=5, max_size=5), WIDTHS)
def test_constant_arrays_arrive_exactly(values, width):
    dims, payload = dimensions(), Weights(width)
    weights = [
        np.full(shape, value, np.float32) for shape, value in zip(SMALL_SHAPES, values, strict=True)
    ]
    for original, decoded in zip(
        weights, payload.decode(payload.encode(weights, dims).data, dims), strict=True
    ):
        assert np.array_equal(original, decoded)


def test_the_widest_span_does_not_overflow():
    top = np.finfo(np.float32).max
    dims, payload = dimensions(shapes=((3,),)), Weights(2)
    decoded = payload.decode(
        payload.encode([np.array([-top, 0, top], np.float32)], dims).data, dims
    )[0]
    assert np.isfinite(decoded).all()
    assert decoded[[0, 2]].tolist() == [-top, top]


@given(output_matrices())
def test_outputs_arrive_exactly(outputs):
    data, bits = Outputs().encode(outputs, PAPER)
    assert 8 * len(data) == bits == Outputs().size(PAPER).bits
    assert same_bits(Outputs().decode(data, PAPER), outputs)


def test_partial_rows_are_for_those_who_ask():
    rows = np.full((10, 10), 0.03, np.float32)
    assert same_bits(
        Outputs(partial_rows=True).decode(
            Outputs(partial_rows=True).encode(rows, PAPER).data, PAPER
        ),
        rows,
    )
    with pytest.raises(PayloadError, match=r"row 0 sums to 0\.3"):
        Outputs().encode(rows, PAPER)
    with pytest.raises(PayloadError, match="at most 1"):
        Outputs(partial_rows=True).encode(4 * rows, PAPER)


@given(seed_cases())
def test_seeds_arrive_exactly(case):
    dims, payload, seeds = case
    data, bits = payload.encode(seeds, dims)
    assert Size(bits) == payload.size(dims)
    assert len(data) == -(-bits // 8)
    decoded = payload.decode(data, dims)
    assert same_bits(decoded.inputs, seeds.inputs)
    assert same_bits(decoded.labels, seeds.labels)


def test_seed_bytes_by_hand():
    """Two one-pixel samples with labels (3, 9) and (0, 1): two pixels, then four bits a label."""
    dims = dimensions(sample_shape=(1, 1, 1), seed_samples=2)
    seeds = Seeds(np.array([[[[7]]], [[[255]]]], np.uint8), np.array([[3, 9], [0, 1]], np.int32))
    assert SeedSamples(2).encode(seeds, dims).data.hex() == "07ff" + "39" + "01"


def test_seed_bytes_of_odd_widths_by_hand():
    """Three bits a value: 101 000, then labels 11 01, without a gap: 1010 0011 01(00 0000)."""
    dims = dimensions(sample_shape=(1,), seed_samples=2, num_labels=4, seed_bits=3)
    seeds = Seeds(np.array([[5], [0]], np.uint8), np.array([[3], [1]], np.int32))
    assert SeedSamples(1).size(dims) == Size(10)
    assert SeedSamples(1).encode(seeds, dims) == Encoded(bytes.fromhex("a340"), 10)
    too_large = Seeds(np.array([[8], [0]], np.uint8), seeds.labels)
    with pytest.raises(PayloadError, match="seeds: code 8; must be at most 7"):
        SeedSamples(1).encode(too_large, dims)


def test_nothing():
    assert Nothing().encode(None, PAPER) == Encoded(b"", 0)
    assert Nothing().decode(b"", PAPER) is None
    with pytest.raises(PayloadError):
        Nothing().decode(b"\0", PAPER)


@given(weight_lists())
def test_all_weights_in_one_row_and_back(weights):
    """What a payload of updates does; the row has its own memory."""
    dims = dimensions()
    flat = flatten_tensors(weights, dims)
    assert flat.shape == (dims.num_weights,)
    assert same_bits(flat, np.concatenate([part.ravel() for part in weights]))
    restored = unflatten_tensors(flat, dims)
    assert isinstance(restored, tuple)
    assert all(same_bits(a, b) for a, b in zip(weights, restored, strict=True))
    assert not any(np.shares_memory(flat, part) for part in weights)


def test_a_size_says_whether_it_is_exact():
    assert str(Size(1200)) == "1,200"
    assert str(Size(1200, exact=False)) == "at most 1,200"


def test_names_tell_payloads_apart():
    payloads = (Weights(), Weights(8), Weights(4), Outputs(), Nothing(), SeedSamples(2))
    assert len({payload.name for payload in payloads}) == len(payloads)


@given(hnp.arrays(np.uint16, st.integers(0, 40)), st.integers(0, 16))
def test_packing_keeps_the_lowest_bits(codes, width):
    data = pack(codes, width)
    digits = "".join(format(code, "016b")[16 - width :] for code in codes.tolist())
    digits += "0" * (-len(digits) % 8)
    assert data == (int(digits, 2).to_bytes(len(digits) // 8, "big") if digits else b"")
    mask = np.uint16(2**width - 1)
    assert np.array_equal(unpack(data, len(codes), width), codes & mask)


HOSTILE = [
    (Weights(), dimensions()),
    (Weights(4), dimensions()),
    (Weights(5), dimensions()),
    (Weights(16), dimensions()),
    (Outputs(), dimensions(num_labels=3)),
    (Outputs(partial_rows=True), dimensions(num_labels=2)),
    (Nothing(), dimensions()),
    (SeedSamples(2), dimensions()),
    (SeedSamples(3), dimensions(num_labels=5, seed_samples=3)),
    (SeedSamples(1), dimensions(seed_bits=32, num_labels=1)),
    (SeedSamples(1), dimensions(seed_bits=1)),
    (SeedSamples(2), dimensions(seed_bits=11, num_labels=5)),
]


def honest(payload: Any, dims: Dimensions) -> bytes:
    rng = np.random.default_rng(0)
    if isinstance(payload, Weights):
        weights = [rng.normal(size=shape).astype(np.float32) for shape in dims.weight_shapes]
        return payload.encode(weights, dims).data
    if isinstance(payload, Outputs):
        return payload.encode(np.eye(dims.num_labels, dtype=np.float32), dims).data
    if isinstance(payload, Nothing):
        return payload.encode(None, dims).data
    coding = coding_of(dims)
    shape = (dims.seed_samples, *dims.seed_shape)
    images = rng.integers(0, coding.last_code % 2**32, shape, endpoint=True).astype(coding.dtype)
    labels = rng.integers(0, dims.num_labels, (dims.seed_samples, payload.mix_size))
    return payload.encode(Seeds(images, labels.astype(np.int32)), dims).data


def assert_decodes_or_refuses(payload: Any, dims: Dimensions, data: bytes) -> None:
    """Bytes are refused in one line, or mean a value that an honest sender could send."""
    reason = None
    try:
        value = payload.decode(data, dims)
    except PayloadError as error:
        reason = str(error)
    if reason is not None:
        assert reason
        assert "\n" not in reason
        return
    again = payload.encode(value, dims).data
    quantised = isinstance(payload, Weights) and payload.bits_per_weight < 32
    assert len(again) == len(data) if quantised else again == data


@pytest.mark.parametrize(("payload", "dims"), HOSTILE)
@given(data=st.data())
def test_random_bytes_do_no_harm(payload, dims, data):
    size = -(-payload.size(dims).bits // 8)
    exact = st.binary(min_size=size, max_size=size)
    assert_decodes_or_refuses(payload, dims, data.draw(st.one_of(st.binary(), exact)))


@pytest.mark.parametrize(("payload", "dims"), HOSTILE)
def test_every_flipped_bit_and_every_cut_does_no_harm(payload, dims):
    data = honest(payload, dims)
    payload.decode(data, dims)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        assert_decodes_or_refuses(payload, dims, bytes(flipped))
    for size in range(len(data)):
        with pytest.raises(PayloadError, match="bytes; must be"):
            payload.decode(data[:size], dims)
    with pytest.raises(PayloadError, match="bytes; must be"):
        payload.decode(data + b"\0", dims)


def float_bytes(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


TWO = dimensions(shapes=((2,),), num_labels=2, seed_samples=1, sample_shape=(1, 1, 1))
TWO_FLOAT = dimensions(num_labels=2, seed_samples=1, sample_shape=(1, 1, 1), seed_bits=32)
THREE = dimensions(num_labels=3, seed_samples=1, sample_shape=(1, 1, 1))
SIGNALLING_NAN = bytes.fromhex("0100a07f")


@pytest.mark.parametrize(
    ("payload", "dims", "data", "reason"),
    [
        (Weights(), TWO, float_bytes(0, np.inf), "not finite"),
        (Weights(), TWO, float_bytes(0) + SIGNALLING_NAN, "not finite"),
        (Weights(8), TWO, float_bytes(np.nan, 1) + b"\0\0", "not finite"),
        (Weights(8), TWO, SIGNALLING_NAN + float_bytes(1) + b"\0\0", "not finite"),
        (Weights(8), TWO, float_bytes(1, 0) + b"\0\0", "smallest value is above its largest"),
        (Weights(3), TWO, float_bytes(0, 1) + b"\x01", "last 2 bits are padding"),
        (Outputs(), TWO, float_bytes(1, 0, np.nan, 1), "not finite"),
        (Outputs(), TWO, float_bytes(2, -1, 0, 1), "negative"),
        (Outputs(), TWO, float_bytes(1, 0, 0.5, 0.498), "row 1 sums to 0.998"),
        (Outputs(), TWO, float_bytes(0, 1e-30, 0.5, 0.5), "row 0 sums to 1e-30"),
        (SeedSamples(1), THREE, b"\x09\xc0", "label 3; must be from 0 to 2"),
        (SeedSamples(1), THREE, b"\x09\x81", "last 6 bits are padding"),
        (SeedSamples(1), TWO_FLOAT, float_bytes(np.nan) + b"\0", "not finite"),
    ],
)
def test_what_is_refused_says_why(payload, dims, data, reason):
    with pytest.raises(PayloadError) as error:
        payload.decode(data, dims)
    assert reason in str(error.value)
    assert str(error.value).startswith(payload.name)


ROW = np.float32([1, 0])


@pytest.mark.parametrize(
    ("payload", "value", "reason"),
    [
        (Weights(), [], "0 arrays; must be 1"),
        (Weights(), [np.zeros(2)], "float64[2]; must be float32[2]"),
        (Weights(), [np.zeros(3, np.float32)], "float32[3]; must be float32[2]"),
        (Weights(), [np.float32([0, np.nan])], "not finite"),
        (Weights(4), [np.float32([0, np.inf])], "not finite"),
        (Outputs(), np.stack([ROW, -ROW]), "negative"),
        (Outputs(), ROW, "must be float32[2, 2]"),
        (Outputs(), None, "must be float32[2, 2]"),
        (SeedSamples(1), Seeds(np.zeros((1, 1, 1, 1), np.uint8), np.int32([[2]])), "label 2"),
        (SeedSamples(1), Seeds(np.zeros((1, 1, 1, 1), np.uint8), np.int32([[-1]])), "label -1"),
        (SeedSamples(1), Seeds(np.zeros((1, 1, 1, 1), np.float32), np.int32([[1]])), "uint8"),
        (SeedSamples(2), Seeds(np.zeros((1, 1, 1, 1), np.uint8), np.int32([[1]])), "int32[1, 2]"),
    ],
)
def test_a_value_that_would_be_refused_is_not_sent(payload, value, reason):
    with pytest.raises(PayloadError) as error:
        payload.encode(value, TWO)
    assert reason in str(error.value)


def test_payloads_that_cannot_be_are_refused():
    for width in (0, 1, 17, 31, 33):
        with pytest.raises(InputError, match=f"bits_per_weight = {width}"):
            Weights(width)
    with pytest.raises(InputError, match="mix_size = 0"):
        SeedSamples(0)
    for width in (0, 17, 31, 33):
        with pytest.raises(InputError, match=f"seed_bits = {width}: must be from 1 to 16, or 32"):
            SeedSamples(1).size(dimensions(seed_bits=width))
    with pytest.raises(InputError, match=r"num_labels = 65537: .* must be at most 65536"):
        SeedSamples(1).size(dimensions(num_labels=2**16 + 1))


def test_decoded_arrays_can_be_written_to():
    for array in (
        Weights().decode(honest(Weights(), PAPER), PAPER)[0],
        Weights(8).decode(honest(Weights(8), PAPER), PAPER)[0],
        Outputs().decode(honest(Outputs(), PAPER), PAPER),
        SeedSamples(2).decode(honest(SeedSamples(2), PAPER), PAPER).inputs,
    ):
        assert array.flags.writeable


@pytest.mark.parametrize("width", [32, 8, 4])
def test_encoding_the_papers_network_takes_less_than_a_millisecond(width):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in PAPER_SHAPES]
    times = timeit.repeat(lambda: Weights(width).encode(weights, PAPER), number=5, repeat=20)
    assert min(times) / 5 < 1e-3
