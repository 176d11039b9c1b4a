"""The equations of the oracle, each for one device, one sample and one step at a time.

A label whose average output nobody knows is ``None`` here, not a row of zeros.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mix2fld.config.settings import LearningConfig
from mix2fld.config.uploads import SeedingConfig
from reference_networks import Floats, Network, Weights, softmax

Outputs = list[Floats | None]  # the average output of each label
Sample = tuple[Floats, Floats]  # image [H, W, C] with 255 as 1, label vector [N_L]


@dataclass(frozen=True)
class Seed:
    """A seed sample; mixing ratio i stands for label ``labels[i]``, a raw one has one label."""

    device: int
    image: Floats
    labels: tuple[int, ...]


def combine(shares: Iterable[float], tensors: list[Floats]) -> Floats:
    """The sum of share times tensor."""
    total = np.zeros_like(tensors[0])
    for share, tensor in zip(shares, tensors, strict=True):
        total += share * tensor
    return total


def learn(
    network: Network,
    weights: Weights,
    samples: list[Sample],
    draws: NDArray[np.integer],
    teacher: Outputs | None,
    config: LearningConfig,
    logit_offset: Floats | None = None,
) -> tuple[Weights, Outputs]:
    """SGD on the samples that the rows of ``draws`` [K, B] name, and the outputs on the way.

    Eq. 1 without a teacher, Eq. 3 or 5 with one; Eq. 2 for the average outputs. The losses see
    the logits with the offset, the average outputs those without.
    """
    num_labels = len(samples[0][1])
    seen: list[list[tuple[float, Floats]]] = [[] for _ in range(num_labels)]
    velocity = {name: np.zeros_like(tensor) for name, tensor in weights.items()}
    decay = {"sgd": 0.0, "momentum": 0.9}[config.optimizer]
    for batch in draws:
        velocity = {name: decay * tensor for name, tensor in velocity.items()}
        for i in batch:
            image, label = samples[i]
            logits, back = network(weights, image)
            output = softmax(logits)
            for n in np.flatnonzero(label):  # a soft label counts for each of its labels, in part
                seen[n].append((label[n], output))
            if logit_offset is not None:
                output = softmax(logits + logit_offset)
            d_logits = output - label  # of the cross-entropy phi
            if teacher is not None:
                d_logits = d_logits + config.distillation_weight * d_psi(
                    output, label, teacher, config
                )
            for name, gradient in back(d_logits).items():
                velocity[name] += gradient / len(batch)
        weights = {
            name: tensor - config.learning_rate * velocity[name] for name, tensor in weights.items()
        }
    return weights, [weighted_mean(outputs) if outputs else None for outputs in seen]


def weighted_mean(values: list[tuple[float, Floats]]) -> Floats:
    """The mean of vectors, each with its weight."""
    shares, vectors = zip(*values, strict=True)
    return combine([share / sum(shares) for share in shares], list(vectors))


def label_shares(samples: list[Sample]) -> Floats:
    """The share of each label in the samples; a soft one counts for each of its labels in part."""
    return combine([1 / len(samples)] * len(samples), [label for _, label in samples])


def logit_offset(shares: Floats, config: LearningConfig) -> Floats | None:
    """Logit adjustment: tau times the log of the share of each label, at least the floor."""
    tau = 0.0 if config.logit_adjustment == "auto" else config.logit_adjustment
    floored = [max(share, config.prior_floor) for share in shares]
    return tau * np.log(floored) if tau else None


def learning_rate(config: LearningConfig, p: int, rounds: int) -> float:
    """The rate of round p: from each round to the next it changes by the same factor."""
    if config.final_learning_rate == "auto":
        return config.learning_rate
    ratio = (config.final_learning_rate / config.learning_rate) ** (1 / (rounds - 1))
    rate = config.learning_rate
    for _ in range(1, p):
        rate *= ratio
    return rate


def model_in_use(before: Weights, after: Weights, config: LearningConfig) -> Weights:
    """What a device is tested with after its local phase."""
    if config.device_model != "mean":
        return after
    return {name: combine([0.5, 0.5], [before[name], after[name]]) for name in after}


def d_psi(output: Floats, label: Floats, teacher: Outputs, config: LearningConfig) -> Floats:
    """Gradient of psi = -sum_m G_m log F_m with respect to the logits; G of an unknown label is 0.

    Decision 3: the G of a soft label is the label's mixture of outputs, or its largest label's.
    """
    if config.soft_label_teacher == "dominant":
        label = np.eye(len(label))[np.argmax(label)]
    G = np.zeros(len(label))
    for share, row in zip(label, teacher, strict=True):
        if row is not None:
            G += share * row
    sign = -1 if config.distillation_loss == "printed" else 1
    return np.asarray(sign * (output * G.sum() - G))


def quantise(tensor: Floats, low: float, high: float, bits: int) -> Floats:
    """The nearest of 2^bits evenly spaced levels between ``low`` and ``high``."""
    step = (high - low) / (2**bits - 1)
    return low + step * np.rint((tensor - low) / step) if step > 0 else tensor


def raw_seeds(
    rng: np.random.Generator, device: int, samples: list[Sample], config: SeedingConfig
) -> list[Seed]:
    """FLD: N_S different samples of the device."""
    chosen = rng.choice(len(samples), size=config.seed_samples, replace=False)
    return [
        Seed(device, carried(samples[i][0], config), (int(np.argmax(samples[i][1])),))
        for i in chosen
    ]


def carried(image: Floats, config: SeedingConfig) -> Floats:
    """What a seed carries of an image: means of squares of pixels, on 2^bits levels."""
    s, (height, width, channels) = config.seed_pooling, image.shape
    small = np.zeros((height // s, width // s, channels))
    for y in range(height // s):
        for x in range(width // s):
            small[y, x] = combine(
                [1 / s**2] * s**2,
                list(image[s * y : s * y + s, s * x : s * x + s].reshape(-1, channels)),
            )
    return small if config.seed_bits == 32 else quantise(small, 0, 1, config.seed_bits)


def enlarged(small: Floats, s: int) -> Floats:
    """Bilinear interpolation: a mean stands in the middle of its square, edges are continued."""
    height, width, channels = small.shape
    image = np.zeros((height * s, width * s, channels))
    for y in range(height * s):
        for x in range(width * s):
            v = min(max((y + 0.5) / s - 0.5, 0), height - 1)
            u = min(max((x + 0.5) / s - 0.5, 0), width - 1)
            for j in range(height):
                for i in range(width):
                    share = max(0, 1 - abs(v - j)) * max(0, 1 - abs(u - i))
                    image[y, x] += share * small[j, i]
    return image


def mixed_seeds(
    rng: np.random.Generator, device: int, samples: list[Sample], config: SeedingConfig
) -> list[Seed]:
    """Eq. 6: N_S mixes of N samples with different labels, rounded to 8 bits (decision 10).

    The labels stand in cyclic order, so that devices which mix the same labels have cyclic shifts
    of each other (decision 16).
    """
    labels = [int(np.argmax(label)) for _, label in samples]
    seeds = []
    for _ in range(config.seed_samples):
        mixed: list[int] = []
        for _ in config.ratios:
            others = [i for i in range(len(samples)) if labels[i] not in [labels[j] for j in mixed]]
            mixed.append(others[rng.integers(len(others))])
        first = labels[mixed[0]]
        mixed.sort(key=lambda i: (labels[i] < first, labels[i]))
        image = carried(combine(config.ratios, [samples[i][0] for i in mixed]), config)
        seeds.append(Seed(device, image, tuple(labels[i] for i in mixed)))
    return seeds


def mean_weights(uploads: list[Weights], sizes: list[int]) -> Weights:
    """Sec. II-A: sum of |S_d| w_d over sum of |S_d|."""
    shares = [size / sum(sizes) for size in sizes]
    return {name: combine(shares, [w[name] for w in uploads]) for name in uploads[0]}


def mean_outputs(uploads: list[Outputs], last: Outputs | None, unseen_labels: str) -> Outputs:
    """Sec. II-B, with decision 4 for labels that some or all devices never drew."""
    mean: Outputs = []
    for n in range(len(uploads[0])):
        rows = [row for upload in uploads if (row := upload[n]) is not None]
        counted = len(uploads) if unseen_labels == "zero" else len(rows)
        if rows:
            mean.append(combine([1 / counted] * len(rows), rows))
        else:
            mean.append(None if last is None else last[n])
    return mean


def soft_label(labels: tuple[int, ...], ratios: tuple[float, ...], num_labels: int) -> Floats:
    """The label vector of a mix."""
    vector = np.zeros(num_labels)
    for label, ratio in zip(labels, ratios, strict=True):
        vector[label] = ratio
    return vector


def all_groups(pool: list[Seed]) -> set[frozenset[int]]:
    """Every N mixed-up samples of N devices whose label tuples are the N rotations of one tuple."""
    size = len(pool[0].labels)
    groups = set()
    for group in combinations(range(len(pool)), size):
        first = pool[group[0]].labels
        rotations = {first[shift:] + first[:shift] for shift in range(size)}
        devices = {pool[i].device for i in group}
        if len(devices) == size and {pool[i].labels for i in group} == rotations:
            groups.add(frozenset(group))
    return groups


def unmix(group: list[Seed], label: int, ratios: tuple[float, ...], num_labels: int) -> Sample:
    """Eqs. 7 and 8: the combination of the group's samples that leaves ``label`` alone."""
    soft = np.array([soft_label(seed.labels, ratios, num_labels) for seed in group])
    hard = np.eye(num_labels)[label]
    inverse_ratios = np.linalg.lstsq(soft.T, hard)[0]
    return combine(inverse_ratios, [seed.image for seed in group]), hard


def accuracy(network: Network, weights: Weights, samples: list[Sample]) -> float:
    """Share of samples whose largest output is at their label."""
    right = [np.argmax(network(weights, x)[0]) == np.argmax(label) for x, label in samples]
    return right.count(True) / len(samples)
