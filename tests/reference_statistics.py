"""Statistics in plain NumPy: features that are a formula, what follows from them, and noise.

One sample, one class and one eigenvalue at a time, in float64, from the definitions: the head is
that of linear discriminant analysis on all samples at once, not on sums of sums. Of the package it
uses the named random streams alone.
"""

from dataclasses import dataclass
from math import cos, pi, sin, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from reference_equations import Sample
from reference_networks import Floats, Weights, conv, max_pool

GRID = 2.0**-10
"""Steps of statistics that are summed as whole numbers."""
COUNT = 0.3
"""What a sample counts in its label's count, in units of the longest features."""


def edges(channels: int) -> tuple[Floats, Floats]:
    """Derivatives in twelve directions; then six blurs of two neighbours without the next ones."""
    first, second = np.zeros((3, 3, channels, 12)), np.zeros((3, 3, 12, 6))
    for k in range(12):
        for y in (-1, 0, 1):
            for x in (-1, 0, 1):
                slope = cos(2 * pi * k / 12) * x + sin(2 * pi * k / 12) * y
                first[y + 1, x + 1, :, k] = slope * (0.5 if x and y else 1)
        first[..., k] *= 2 / np.abs(first[:, :, 0, k]).sum() / channels
    blur = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    for k in range(6):
        for direction, weight in (
            (2 * k, 1),
            (2 * k + 1, 1),
            (2 * k - 1, -0.35),
            (2 * k + 2, -0.35),
        ):
            second[:, :, direction % 12, k] = 3 / 8.72 * weight * blur
    return first, second


def cosine(length: int, frequency: int) -> Floats:
    """One basis vector of the discrete cosine transform, of length 1."""
    wave = np.array([cos(pi * frequency * (i + 0.5) / length) for i in range(length)])
    return np.asarray(wave / sqrt(sum(wave**2)))


def clipped(vector: Floats, longest: float) -> Floats:
    length = sqrt(sum(vector**2))
    return vector * min(1.0, longest / length) if length else vector


@dataclass(frozen=True)
class Kind:
    """What is measured of a sample: clipped to ``longest``, then seen along ``directions``."""

    directions: Floats
    longest: float
    away: float

    def of_edges(self, image: Floats) -> Floats:
        """The low frequencies of the maps that the two convolutions make."""
        first, second = edges(image.shape[2])
        pooled, _ = max_pool(np.maximum(conv(image, first, np.zeros(12)), 0))
        maps = np.maximum(conv(pooled, second, np.zeros(6)), 0).transpose(2, 0, 1).ravel()
        return self.directions @ clipped(maps, self.longest)

    def of_pixels(self, image: Floats) -> Floats:
        """The low frequencies of the image, in units of a ninth of its largest length."""
        return self.directions @ clipped(image.ravel() * 9 / sqrt(image.size), self.longest)


def edge_kind(image: Floats, side: int) -> Kind:
    """Of ``side`` frequencies each way in each of six maps."""
    rows, columns = image.shape[0] // 2, image.shape[1] // 2
    waves = [
        np.kron(np.eye(6)[m], np.kron(cosine(rows, v), cosine(columns, u)))
        for m in range(6)
        for v in range(side)
        for u in range(side)
    ]
    return Kind(np.array(waves), 3.1, 3.1 * (0.07 + 0.063 * side))


def pixel_kind(image: Floats, side: int) -> Kind:
    """Of twice as many frequencies each way, where there are as many."""
    rows, columns, channels = image.shape
    waves = [
        np.kron(np.kron(cosine(rows, v), cosine(columns, u)), np.eye(channels)[c])
        for v in range(min(2 * side, rows))
        for u in range(min(2 * side, columns))
        for c in range(channels)
    ]
    return Kind(np.array(waves), 3.0, 0.6 * 3.0)


def discriminant(features: list[Floats], labels: list[int], count: int) -> tuple[Floats, Floats]:
    """The head of linear discriminant analysis with equal priors, and a tenth of its logits.

    Logits are relative to the middle of all class means; that of a label nobody has is 0.
    """
    rows = {n: [x for x, y in zip(features, labels, strict=True) if y == n] for n in range(count)}
    means = {n: sum(own) / len(own) for n, own in rows.items() if own}
    middle = sum(means.values()) / len(means)
    d, covariance = len(middle), np.zeros((len(middle), len(middle)))
    for n, mean in means.items():
        for x in rows[n]:
            covariance += np.outer(x - mean, x - mean) / len(features)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) / d * np.eye(d))
    kernel, bias = np.zeros((count, d)), np.zeros(count)
    for n, mean in means.items():
        kernel[n] = inverse @ (mean - middle)
        bias[n] = -kernel[n] @ (mean + middle) / 2
    return kernel / 10, bias / 10


def network(image: Floats, labels: int, kind: Kind, kernel: Floats, bias: Floats) -> Weights:
    """The edges with a head; its maps are 2.5 times those that are measured."""
    first, second = edges(image.shape[2])
    return {
        "conv1.bias": np.zeros(12),
        "conv1.kernel": first,
        "conv2.bias": np.zeros(6),
        "conv2.kernel": 2.5 * second,
        "linear.bias": bias,
        "linear.kernel": kernel @ kind.directions / 2.5,
    }


def empty_network(image: Floats, labels: int) -> Weights:
    """The edges with a head of zeros."""
    kind = edge_kind(image, 1)
    return network(image, labels, kind, np.zeros((labels, 6)), np.zeros(labels))


def closed_form(samples: list[Sample], side: int) -> Weights:
    """The network that follows from labelled samples."""
    image, label = samples[0]
    kind = edge_kind(image, side)
    labels = [int(np.argmax(label)) for _, label in samples]
    head = discriminant([kind.of_edges(x) for x, _ in samples], labels, len(label))
    return network(image, len(label), kind, *head)


def multiplier(epsilon: float, delta: float) -> float:
    """Of Gaussian noise: where its delta at epsilon, the analytic one, is delta."""

    def surplus(z: float) -> float:
        inside = norm.cdf(1 / (2 * z) - epsilon * z)
        outside = norm.logcdf(-1 / (2 * z) - epsilon * z)
        return float(inside - np.exp(epsilon + outside) - delta)

    return float(brentq(surplus, 1e-3, 1e6, xtol=1e-12, rtol=1e-14))


@dataclass(frozen=True)
class Private:
    """Class sums, then the scatter about class means, with the noise that a budget asks for."""

    config: Config
    image: Floats  # one of them, for its shape
    labels: int
    pixels: bool  # whether statistics are of pixels, not of edges
    summed: bool  # whether a trusted party sums them, and adds noise once

    @property
    def kind(self) -> Kind:
        side = self.config.statistics.feature_side
        return (pixel_kind if self.pixels else edge_kind)(self.image, side)

    def features(self, image: Floats) -> Floats:
        kind = self.kind
        found = kind.of_pixels(image) if self.pixels else kind.of_edges(image)
        return clipped(found, kind.longest)

    def values(self, stage: int) -> int:
        d = len(self.kind.directions)
        return d * (d + 1) // 2 if stage else self.labels * (d + 1)

    def bits(self, stage: int) -> int:
        """After the byte that says which part it is: floats, or 21 bits for each whole number."""
        return 8 + self.values(stage) * (21 if self.summed else 32)

    def deviation(self, stage: int) -> float:
        """How far one replaced sample moves a part, times the multiplier of its budget."""
        config, kind = self.config.privacy, self.kind
        share = 1 - config.sums_budget if stage else config.sums_budget
        moves = sqrt(2) * kind.away**2 if stage else kind.longest * sqrt(2 * (1 + COUNT**2))
        if self.summed:
            moves += GRID * sqrt(self.values(stage))
        return multiplier(config.epsilon, config.delta) / sqrt(share) * moves

    def exact(self, stage: int, samples: list[Sample], means: Floats | None) -> Floats:
        """Sums of each label and its weighed count; or the upper triangle of the scatter."""
        d, kind = len(self.kind.directions), self.kind
        sums, scatter = np.zeros((self.labels, d + 1)), np.zeros((d, d))
        for image, label in samples:
            n, x = int(np.argmax(label)), self.features(image)
            sums[n] += [*x, COUNT * kind.longest]
            if means is not None:
                rest = clipped(x - means[n], kind.away)
                scatter += np.outer(rest, rest)
        if stage == 0:
            return sums
        return np.array(
            [scatter[i, j] * (1 if i == j else sqrt(2)) for i in range(d) for j in range(i, d)]
        )

    def part(self, device: int, stage: int, samples: list[Sample], means: Floats | None) -> Floats:
        """What a device uploads."""
        exact = self.exact(stage, samples, means)
        if self.summed:
            return np.rint(exact / GRID)
        rng = stream(self.config.seed, "privacy-noise", device, stage, 0, 0, 0, 0)
        return exact + self.deviation(stage) * rng.normal(size=exact.shape)

    def total(self, p: int, stage: int, parts: list[Floats]) -> Floats:
        """Of the parts that arrived in a round."""
        total = np.sum(parts, axis=0)
        if not self.summed:
            return np.asarray(total)
        rng = stream(self.config.seed, f"privacy-{('sums', 'scatter')[stage]}", p)
        noise = np.rint(self.deviation(stage) / GRID * rng.normal(size=total.shape))
        return np.asarray(GRID * (total + noise))

    def means(self, sums: Floats, samples: int, draws: int) -> Floats:
        """Class means; those that samples are drawn from are moved to their middle by the noise."""
        counts = np.maximum(sums[:, -1] / (COUNT * self.kind.longest), 0.01 * samples)[:, None]
        means = sums[:, :-1] / counts
        if not self.pixels:
            return np.asarray(means)
        noise = (self.deviation(0) * sqrt(draws) / counts) ** 2
        middle = np.sum(counts * means, axis=0) / counts.sum()
        moved = np.zeros_like(means)
        for f in range(means.shape[1]):
            apart = means[:, f] - middle[f]
            signal = max(np.mean(apart**2) - noise.mean(), 0)
            moved[:, f] = middle[f] + apart * signal / (signal + noise[:, 0])
        return moved

    def covariance(self, scatter: Floats | None, samples: int, draws: int) -> Floats:
        """Within classes: eigenvalues below what noise alone makes of zero tell nothing."""
        d = len(self.kind.directions)
        if scatter is None:
            return np.eye(d) * self.kind.away**2 / d
        matrix, k = np.zeros((d, d)), 0
        for i in range(d):
            for j in range(i, d):
                matrix[i, j] = matrix[j, i] = scatter[k] / (1 if i == j else sqrt(2)) / samples
                k += 1
        edge = sqrt(2 * d) * self.deviation(1) * sqrt(draws) / samples
        cleaned = np.zeros((d, d))
        values, vectors = np.linalg.eigh(matrix)
        for value, vector in zip(values, vectors.T, strict=True):
            kept = max(value - edge, 0) if self.pixels else max(value, 0) + 0.001 + 0.1 * edge
            cleaned += kept * np.outer(vector, vector)
        return cleaned

    def head(self, means: Floats, covariance: Floats) -> Weights:
        """The closed form, with a tenth of its logits."""
        kernel = means @ np.linalg.inv(covariance)
        bias = np.array([-k @ m / 2 for k, m in zip(kernel, means, strict=True)])
        return network(self.image, self.labels, self.kind, kernel / 10, bias / 10)

    def drawn(self, means: Floats, covariance: Floats, rng: np.random.Generator) -> list[Sample]:
        """300 samples of each label, with these means and this covariance."""
        values, vectors = np.linalg.eigh(covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        d = len(self.kind.directions)
        samples = []
        for number, z in enumerate(rng.normal(size=(300 * self.labels, d))):
            n = number // 300
            flat = (means[n] + root @ z) @ self.kind.directions * sqrt(self.image.size) / 9
            samples.append((np.clip(flat, 0, 1).reshape(self.image.shape), np.eye(self.labels)[n]))
        return samples
