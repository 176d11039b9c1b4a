"""Masked sums: they are the plain sums, and what the server sees of one device is noise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.discrete_noise import discrete_gaussian
from mix2fld.masking.collector import Collector
from mix2fld.masking.in_memory import masked_sum
from mix2fld.masking.keys import mask_of
from mix2fld.masking.party import Overhead, Party, Terms, pack_parts, unpack_parts, with_pair
from mix2fld.masking.shamir import PRIME, SECRET_BYTES, MaskError, join, split
from toys import examples

BITS = 20
RNG = np.random.default_rng(0)


def secret(device: int) -> bytes:
    return bytes([device]) * 32


def numbers(devices: int, count: int = 50) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(1)
    return {d: rng.integers(0, 1 << BITS, count).astype(np.uint32) for d in range(devices)}


def plain(values, devices) -> np.ndarray:
    return sum(values[d].astype(np.int64) for d in devices) % (1 << BITS)


def begun(devices: int, threshold: int, values=None) -> tuple[dict[int, Party], Collector]:
    """All devices have sent their numbers under masks."""
    terms = Terms(b"here", threshold, BITS)
    parties = {d: Party(d, terms, secret(d)) for d in range(devices)}
    collector = Collector(terms)
    collector.adverts = {d: party.advert() for d, party in parties.items()}
    for device, party in parties.items():
        collector.take_shares(device, party.shares(collector.adverts))
    for device, own in (values or numbers(devices)).items():
        collector.masked[device] = parties[device].masked(own, collector.sealed_for(device))
    return parties, collector


@pytest.mark.parametrize("threshold", [3, 4, 5])
def test_every_pattern_of_dropouts_recovers_above_the_threshold_and_none_below(threshold):
    values = numbers(5)
    for arrived in itertools.chain.from_iterable(
        itertools.combinations(range(5), count) for count in range(1, 6)
    ):
        parties, collector = begun(5, threshold)
        if len(arrived) < threshold:
            with pytest.raises(MaskError):
                parties[arrived[0]].reveal(arrived)
            with pytest.raises(MaskError):
                collector.total(arrived, {})
            continue
        revealed = {d: parties[d].reveal(arrived) for d in arrived}
        found = collector.total(arrived, revealed)
        assert np.array_equal(found, plain(values, arrived))


def test_devices_may_vanish_before_they_reveal_as_long_as_enough_are_left():
    parties, collector = begun(5, 3)
    arrived = (0, 1, 3, 4)
    revealed = {d: parties[d].reveal(arrived) for d in (0, 3, 4)}
    assert np.array_equal(collector.total(arrived, revealed), plain(numbers(5), arrived))
    with pytest.raises(MaskError, match="2 say how it is unmasked"):
        collector.total(arrived, {d: revealed[d] for d in (0, 3)})


@given(st.integers(2, 7), st.data())
@examples(10)
def test_sums_equal_plain_sums_bit_for_bit(devices, data):
    threshold = data.draw(st.integers(devices // 2 + 1, devices))
    arrived = data.draw(st.sets(st.integers(0, devices - 1), min_size=threshold))
    values = numbers(devices, 9)
    found = masked_sum(values, sorted(arrived), Terms(b"x", threshold, BITS), secret)
    assert np.array_equal(found, plain(values, arrived))


def test_what_the_server_receives_of_one_device_is_uniform():
    """Whatever the numbers are: chi-squared over 64 bins, of all zeros and of all the same."""
    count = 40_000
    for own in (np.zeros(count, np.uint32), np.full(count, 12_345, np.uint32)):
        values = {0: own, 1: np.zeros(count, np.uint32), 2: np.zeros(count, np.uint32)}
        _, collector = begun(3, 2, values)
        counts = np.bincount(collector.masked[0] >> (BITS - 6), minlength=64)
        statistic = np.sum((counts - count / 64) ** 2) / (count / 64)
        assert statistic < 63 + 5 * math.sqrt(2 * 63)
        together = np.corrcoef(collector.masked[0], collector.masked[1])[0, 1]
        assert abs(together) < 5 / math.sqrt(count)


def test_a_colluding_minority_does_not_unmask_one_device():
    """Server and two of five devices, threshold 4: what they know leaves a mask on device 0."""
    values = numbers(5)
    parties, collector = begun(5, 4, values)
    for colluding in (3, 4):  # they tell the server all that they hold
        assert len(parties[colluding]._shares) == 5
    terms = Terms(b"here", 4, BITS)
    for kind in (0, 1):
        shares = {d: parties[d]._shares[0][kind] for d in (3, 4)}
        with pytest.raises(MaskError, match="2 shares"):
            join(shares, terms.threshold)
    # With the masks that the two share with device 0 removed, what is left is still no number.
    left = collector.masked[0]
    for other in (3, 4):
        public = collector.adverts[0][32:]
        left = with_pair(left, parties[other]._masking, public, (other, 0), terms)
    left = left & np.uint32((1 << BITS) - 1)
    assert np.mean(left == values[0]) < 0.1


@given(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES), st.data())
@examples(10)
def test_any_shares_of_the_threshold_join_and_fewer_fit_every_secret(own, data):
    shares = split(own, range(6), 3, RNG.bytes)
    some = data.draw(st.permutations(range(6)))
    assert join({d: shares[d] for d in some[:3]}, 3) == own
    # Two shares and any other secret lie on one polynomial: they say nothing.
    other = data.draw(st.integers(0, (1 << 248) - 1))
    (a, b), ya, yb = some[:2], *(int.from_bytes(shares[d], "little") for d in some[:2])
    third = next(d for d in range(6) if d not in (a, b))

    def at(x: int) -> int:
        points = {0: other, a + 1: ya, b + 1: yb}
        total = 0
        for p, y in points.items():
            factor = y
            for q in points:
                if q != p:
                    factor = factor * (x - q) * pow(p - q, -1, PRIME) % PRIME
            total += factor
        return total % PRIME

    forged = {a: shares[a], b: shares[b], third: at(third + 1).to_bytes(32, "little")}
    assert int.from_bytes(join(forged, 3), "little") == other


def test_a_device_reveals_once_and_for_a_sum_that_it_is_in():
    parties, _ = begun(4, 3)
    first = parties[0].reveal((0, 1, 2))
    assert parties[0].reveal((0, 1, 2)) == first
    with pytest.raises(MaskError, match="one sum alone"):
        parties[0].reveal((0, 1, 2, 3))  # shares of both kinds would be known of device 3
    with pytest.raises(MaskError):
        parties[3].reveal((0, 1, 2))
    with pytest.raises(MaskError):
        parties[1].reveal((0, 1, 9))


def test_messages_that_were_changed_or_are_of_another_sum_are_refused():
    parties, collector = begun(3, 2)
    fresh = Party(0, Terms(b"here", 2, BITS), secret(0))
    fresh.shares(collector.adverts)
    sealed = collector.sealed_for(0)
    with pytest.raises(MaskError, match="device 1"):
        fresh.masked(numbers(3)[0], {**sealed, 1: sealed[1][:-1] + b"!"})
    other = Party(0, Terms(b"there", 2, BITS), secret(0))
    with pytest.raises(MaskError):
        other.shares(collector.adverts)
    with pytest.raises(MaskError, match="other keys"):
        parties[0].shares({0: collector.adverts[0], 1: collector.adverts[1]})
    with pytest.raises(MaskError, match="once"):
        parties[0].masked(numbers(3)[0], sealed)


def test_overhead_counts_the_bytes_that_are_carried():
    devices = 5
    parties, collector = begun(devices, 3)
    sealed = pack_parts(collector.sealed_for(0))
    revealed = pack_parts(parties[0].reveal(range(devices)))
    up = len(parties[0].advert()) + len(sealed) + len(revealed)
    down = len(pack_parts(collector.adverts)) + len(sealed) + 4 * devices
    assert Overhead.of(devices) == (8 * up, 8 * down)
    assert unpack_parts(sealed, len(collector.sealed_for(0)[1])) == collector.sealed_for(0)
    with pytest.raises(MaskError):
        unpack_parts(sealed + b"1", 80)


def test_masks_are_those_of_their_seed_and_cover_all_values():
    own = mask_of(b"seed", 4096, 5)
    assert np.array_equal(own, mask_of(b"seed", 4096, 5))
    assert set(own.tolist()) == set(range(32))
    assert not np.array_equal(own, mask_of(b"other", 4096, 5))


@pytest.mark.parametrize("deviation", [3.0, 11.3])
def test_discrete_gaussian_noise_has_its_probabilities(deviation):
    drawn = discrete_gaussian(np.random.default_rng(3), deviation, (300_000,))
    reach = int(3 * deviation)
    values = np.arange(-reach, reach + 1)
    density = np.exp(-(values**2) / (2 * deviation**2))
    whole = np.arange(-400, 401)
    expected = density / np.exp(-(whole**2) / (2 * deviation**2)).sum() * len(drawn)
    counts = np.array([np.count_nonzero(drawn == value) for value in values])
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    assert abs(drawn.var() / deviation**2 - 1) < 0.02


def test_too_little_noise_to_add_is_refused():
    with pytest.raises(ValueError, match="at least 3"):
        discrete_gaussian(np.random.default_rng(0), 1.0, (3,))
