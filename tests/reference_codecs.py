"""Updates in few bits, in plain loops: the oracle of the update codecs and of the server's step.

One coordinate, one group and one entry at a time, in float64, written from the descriptions in
``docs/thin_uplink.md``. Of the package it uses the config and the named
random streams.
"""

from dataclasses import dataclass, replace
from math import floor, log, log2, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import erf

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.config.uploads import UpdateConfig
from reference_statistics import clipped, multiplier

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Coded:
    """An update as the server reads it."""

    bits: int
    update: Floats
    norm: float
    captured: float


@dataclass(frozen=True)
class Memory:
    """What a device counts its updates from, and what they left out so far."""

    base: Floats
    residual: Floats
    feedback: bool

    def wanted(self, weights: Floats) -> Floats:
        """What the server should hear of these weights."""
        return weights - self.base + self.residual

    def delivered(self, weights: Floats, update: Floats) -> "Memory":
        """After the server has read ``update`` of it."""
        if not self.feedback:
            return self
        return replace(self, base=weights, residual=self.wanted(weights) - update)

    def replaced(self, weights: Floats, download: Floats) -> "Memory":
        """After a download took the place of the weights."""
        due = self.wanted(weights) if self.feedback else self.residual
        return replace(self, base=download, residual=due)


def as_row(weights: dict[str, Floats]) -> Floats:
    """All weights one after the other."""
    return np.concatenate([w.ravel() for w in weights.values()])


def like_weights(row: Floats, like: dict[str, Floats]) -> dict[str, Floats]:
    """The weights that ``as_row`` put in a row."""
    weights, start = {}, 0
    for name, w in like.items():
        weights[name] = row[start : start + w.size].reshape(w.shape)
        start += w.size
    return weights


def hadamard(size: int) -> Floats:
    """Sylvester's matrix of a power of two, made orthonormal."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / sqrt(2)
    return matrix


def rotation(rng: np.random.Generator, size: int) -> Floats:
    """The matrix that permutes, flips signs and takes each block through a Hadamard transform."""
    order = rng.permutation(size)
    flipped = rng.integers(2, size=size, dtype=np.int8)
    matrix, start = np.zeros((size, size)), 0
    while start < size:
        block = 2 ** floor(log2(size - start))
        entries = order[start : start + block]
        signs = np.where(flipped[entries], -1, 1)
        matrix[start : start + block, entries] = hadamard(block) * signs
        start += block
    return matrix


def mean_largest(n: int) -> float:
    """E max |z_i| of n Gaussians: the integral of the chance that it is above x."""
    return float(quad(lambda x: 1 - erf(x / sqrt(2)) ** n, 0, 10, limit=200)[0])


def group_sizes(room: int, size: int) -> list[int]:
    """Sizes of the groups that recipe R makes of ``room`` bits: powers of two, all disjoint.

    Bits left over enlarge groups while they fit. The size that captures most is taken.
    """
    best: list[int] = []
    for j in range(min(room, 30)):
        sizes = [2**j] * (room // (1 + j))
        left = room - len(sizes) * (1 + j)
        for g in range(len(sizes)):
            if left and sum(sizes) + sizes[g] <= size:
                sizes[g], left = 2 * sizes[g], left - 1
        if sum(sizes) <= size and captured_by(sizes) > captured_by(best):
            best = sizes
    return best


def captured_by(sizes: list[int]) -> float:
    """Expected squares of the largest coordinates of groups, each coordinate having one of 1."""
    return sum(sizes.count(n) * mean_largest(n) ** 2 for n in set(sizes))


def nearest_norm(norm: float, bits: int) -> float:
    """The nearest power of two to a multiple of 2^-3, or with 16 bits of 2^-11."""
    steps = 2 ** (bits - 1) / 16
    return 2 ** (round(log2(norm) * steps) / steps)


def murmur(update: Floats, rng: np.random.Generator, bits: int) -> Coded:
    """Recipe R: of each group of rotated coordinates, which is the largest, and its sign."""
    size = len(update)
    turn = rotation(rng, size)
    z = turn @ update
    places = list(rng.permutation(size))
    sizes = group_sizes(bits - 8, size)
    expected = {n: mean_largest(n) for n in set(sizes)}
    captured = sum(expected[n] ** 2 for n in sizes) / size
    levels, product = np.zeros(size), 0.0
    for n in sizes:
        group, places = places[:n], places[n:]
        best = max(group, key=lambda i: abs(z[i]))
        levels[best] = expected[n] if z[best] >= 0 else -expected[n]
        product += levels[best] * z[best]
    length = sqrt(sum(update**2))
    scale = length**2 / product
    norm = nearest_norm(scale * captured * sqrt(size), 8)
    return Coded(bits, turn.T @ levels * norm / (captured * sqrt(size)), norm, captured)


def rotated_signs(
    update: Floats, rng: np.random.Generator, coordinates: int, feedback: bool
) -> Coded:
    """EDEN with one bit for all or some rotated coordinates; with feedback, the closest vector."""
    size = len(update)
    turn = rotation(rng, size)
    z, level = turn @ update, sqrt(2 / pi)
    chosen = rng.permutation(size)[:coordinates]
    levels = np.zeros(size)
    for i in chosen:
        levels[i] = level if z[i] >= 0 else -level
    captured = 2 / pi * coordinates / size
    norm_bits = 16 if coordinates == size else 8
    length = sqrt(sum(update**2))
    scale = length**2 / sum(levels * z)
    norm = nearest_norm(scale * captured * sqrt(size), norm_bits)
    shrink = captured if feedback else 1.0
    restored = turn.T @ levels * norm / (captured * sqrt(size)) * shrink
    if feedback:
        return Coded(coordinates + 16, restored, sqrt(sum(restored**2)), 1.0)
    return Coded(coordinates + norm_bits, restored, norm, captured)


def largest(update: Floats, share: float) -> list[int]:
    """The places of the largest entries."""
    count = max(1, round(share * len(update)))
    return sorted(sorted(range(len(update)), key=lambda i: -abs(update[i]))[:count])


def position_bits(places: list[int], size: int) -> int:
    """Golomb-Rice codes of the gaps: a unary part that ends with a zero, and some lower bits."""
    share = len(places) / size
    lower = max(0, 1 + floor(log2(log((sqrt(5) - 1) / 2) / log(1 - share))))
    bits, last = 0, -1
    for place in places:
        bits += (place - last - 1) // 2**lower + 1 + lower
        last = place
    return bits


def stc(update: Floats, share: float) -> Coded:
    """The largest entries as plus or minus their mean magnitude."""
    places = largest(update, share)
    mean = sum(abs(update[i]) for i in places) / len(places)
    restored = np.zeros(len(update))
    for i in places:
        restored[i] = mean if update[i] >= 0 else -mean
    bits = 32 + len(places) + position_bits(places, len(update))
    return Coded(bits, restored, sqrt(sum(restored**2)), 1.0)


def topk(update: Floats, share: float) -> Coded:
    """The largest entries, with a fraction of ten bits."""
    places = largest(update, share)
    restored = np.zeros(len(update))
    for i in places:
        restored[i] = float(np.float16(update[i]))
    bits = 16 * len(places) + position_bits(places, len(update))
    return Coded(bits, restored, sqrt(sum(restored**2)), 1.0)


def the_direction(rng: np.random.Generator, size: int) -> Floats:
    """What one bit of a round is about."""
    return rng.standard_normal((1, size), np.float32)[0].astype(np.float64)


def coded(protocol: str, update: Floats, rng: np.random.Generator, config: UpdateConfig) -> Coded:
    """An update as the protocol uploads it."""
    size = len(update)
    if protocol == "murmur":
        assert isinstance(config.update_bits, int)
        return murmur(update, rng, config.update_bits)
    if protocol in ("eden", "sign"):
        share = config.bits_per_weight if protocol == "eden" else 1
        return rotated_signs(update, rng, round(share * size), feedback=protocol == "sign")
    if protocol == "projected":  # in all directions, as float32
        return Coded(32 * size, update, sqrt(sum(update**2)), 1.0)
    if protocol == "vote":
        return Coded(size, np.where(update < 0, -1.0, 1.0), sqrt(size), 1.0)
    if protocol == "feedsign":
        direction = the_direction(rng, size)
        moved = -direction if update @ direction < 0 else direction
        return Coded(1, moved, sqrt(sum(moved**2)), 1.0)
    return {"stc": stc, "topk": topk}[protocol](update, config.kept_share)


def with_noise(update: Floats, config: Config, device: int, p: int) -> Floats:
    """A clipped update with noise: two of them are at most two clips apart.

    The budget is one of all uploads of a run.
    """
    privacy, uploads = config.privacy, config.rounds // config.updates.upload_every
    moves = 2 * privacy.update_clip * sqrt(uploads)
    deviation = multiplier(privacy.epsilon, privacy.delta) * moves
    rng = stream(config.seed, "privacy-noise", device, p, 0, 0, 0, 0)
    short = clipped(update, privacy.update_clip)
    return short + deviation * rng.normal(size=len(update))


def mean_update(uploads: list[Coded | None], samples: list[int], limit: float) -> Floats:
    """What is added to the global model: the mean, shortened if noise has made it too long."""
    total, weights, squares = 0.0, 0.0, 0.0
    for upload, n in zip(uploads, samples, strict=True):
        assert upload is not None
        total = total + n * upload.captured * upload.update
        weights += n * upload.captured
        squares += upload.norm**2 / len(uploads)
    mean = np.asarray(total) / weights
    return mean * min(1.0, limit * sqrt(squares / sum(mean**2)))
