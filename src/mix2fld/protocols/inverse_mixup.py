"""Inverse-Mixup, Eqs. 7 and 8: hard-labelled samples from mixed-up ones of different devices."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.data.resolution import enlarge
from mix2fld.data.samples import Coding, clip_to_real, coding_of
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Carried, Seeds

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

CANDIDATES = 1_000_000
MOST_GROUPS = 100_000
SPARE = 2_000
"""Candidates beyond those wanted that are looked at first: few have two samples of a device."""
"""Of many devices; their samples are more than a server draws in dozens of conversions."""
GROUPS_AT_ONCE = 1024


class Groups(NamedTuple):
    """Groups of N mixed-up samples whose label tuples are all the rotations of one tuple.

    Member a of a group mixes label b of ``labels`` with ratio ``lambda_(a+b)``, indices modulo N.
    """

    members: NDArray[np.int64]  # [g, N], rows into the pooled samples
    labels: NDArray[np.int32]  # [g, N]


class Pool(NamedTuple):
    """All delivered mixed-up samples, one after another, with the device each came from."""

    inputs: "Carried | Joined"  # [m, ...]
    labels: NDArray[np.int32]  # [m, N]
    device: NDArray[np.int64]  # [m]
    targets: NDArray[np.float32] | None = None  # [m, T], numbers, mixed as the samples are


class Joined:
    """Arrays one after another, of which rows are taken without putting all of them together."""

    def __init__(self, arrays: Sequence[Carried]) -> None:
        self._arrays, self._ends = arrays, np.cumsum([len(array) for array in arrays])
        self.shape = (int(self._ends[-1]), *arrays[0].shape[1:])

    def __getitem__(self, rows: NDArray[np.integer]) -> Carried:
        flat = rows.ravel()
        whose = np.searchsorted(self._ends, flat, side="right")
        taken = np.empty((len(flat), *self.shape[1:]), self._arrays[0].dtype)
        order = np.argsort(whose, kind="stable")
        numbers, begins = np.unique(whose[order], return_index=True)
        for number, places in zip(numbers, np.split(order, begins[1:]), strict=True):
            array = self._arrays[number]
            taken[places] = array[flat[places] - (self._ends[number] - len(array))]
        return taken.reshape(*rows.shape, *self.shape[1:])


def mixing_matrix(ratios: tuple[float, ...]) -> NDArray[np.float64]:
    """The circulant matrix of Eq. 8: row a is ``(lambda_a, lambda_(a+1), ...)``, cyclic."""
    size = len(ratios)
    index = np.arange(size)
    return np.asarray(ratios)[(index[:, None] + index[None, :]) % size]


def inverse_ratios(ratios: tuple[float, ...]) -> NDArray[np.float64]:
    """Eq. 8: row n holds the ratios lambda-hat that leave only label n."""
    return np.linalg.inv(mixing_matrix(ratios)).astype(np.float64)


def pool_seeds(seeds: Mapping[int, Seeds]) -> Pool:
    """Put the seeds of all devices into one row of samples, in the order of device numbers."""
    devices = sorted(seeds)
    targets = [own for d in devices if (own := seeds[d].targets) is not None]
    return Pool(
        inputs=Joined([seeds[d].inputs for d in devices]),
        labels=np.concatenate([seeds[d].labels for d in devices]),
        device=np.repeat(devices, [len(seeds[d].labels) for d in devices]),
        targets=np.concatenate(targets) if targets else None,
    )


def samples_wanted(config: "Config") -> int:
    """How many samples inverse-Mixup generates: N_I for each device, or N_I in total."""
    per_device = config.seeding.inverse_count == "per-device"
    return config.seeding.inverse_samples * (config.data.devices if per_device else 1)


def groups_wanted(config: "Config") -> int:
    """How many groups these samples take, N samples from each; the last may not be used up.

    Of very many devices, not all N_I samples are made (decision 8).
    """
    return min(-(-samples_wanted(config) // len(config.seeding.ratios)), MOST_GROUPS)


def inverse_groups(seeds: Mapping[int, Seeds], config: "Config") -> tuple[Pool, Groups]:
    """The delivered seeds as a pool, and its distinct groups, at most as many as are wanted.

    Where seeds are checked, labels take turns: devices that are left out may be most of those with
    a label, which then would be in few groups (decision 33).
    """
    pool, rng = pool_seeds(seeds), stream(config.seed, "pairs")
    evenly = config.defence.seed_check != "none"
    return pool, find_groups(pool, groups_wanted(config), rng, evenly)


def inverse_samples(pool: Pool, groups: Groups, sizes: Sizes) -> NDArray[np.float32]:
    """The samples of these groups [g, N, ...], clipped to the real range if so configured."""
    config, coding = sizes.config.seeding, coding_of(sizes.dims)
    samples = unmix(pool, groups, config.ratios, coding)
    if sizes.dims.seed_shape != coding.samples.shape:
        flat = samples.reshape(-1, *sizes.dims.seed_shape).astype(np.float64)
        large = enlarge(flat, coding.samples.shape).astype(np.float32)
        samples = large.reshape(*groups.members.shape, *coding.samples.shape)
    return clip_to_real(samples, coding.samples) if config.inverse_clip else samples


def find_groups(pool: Pool, wanted: int, rng: np.random.Generator, evenly: bool = False) -> Groups:
    """Up to ``wanted`` distinct groups of samples from different devices, in random order.

    All groups are equally likely, or with ``evenly`` all labels, as far as they have groups.
    """
    rows = _rows_by_labels(pool.labels)
    orbits = [
        [rows[shifted] for shifted in _rotations(labels)]
        for labels in sorted(rows)
        if labels == min(_rotations(labels)) and all(s in rows for s in _rotations(labels))
    ]
    size = pool.labels.shape[1]
    if not orbits:
        return Groups(np.zeros((0, size), np.int64), np.zeros((0, size), np.int32))
    shapes = np.array([[len(member) for member in orbit] for orbit in orbits])
    ends = np.cumsum(shapes.prod(axis=1))
    total = int(ends[-1])
    tried = rng.choice(total, size=min(total, _candidates(wanted)), replace=False)
    most, at_once = len(tried) if evenly else wanted, len(tried) if evenly else wanted + SPARE
    found, count = [np.zeros((0, size), np.int64)], 0
    for start in range(0, len(tried), at_once):
        members = _members_of(tried[start : start + at_once], orbits, shapes, ends)
        devices = np.sort(pool.device[members], axis=1)
        found.append(members[(devices[:, 1:] > devices[:, :-1]).all(axis=1)])
        count += len(found[-1])
        if count >= most:
            break
    across = np.concatenate(found)
    if evenly:
        across = across[labels_in_turn(pool.labels[across[:, 0]])]
    across = across[:wanted]
    return Groups(members=across, labels=pool.labels[across[:, 0]])


def labels_in_turn(labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """An order of label tuples [n, N] in which labels take turns, and so do the tuples of each."""
    order = kinds_in_turn(np.unique(labels, axis=0, return_inverse=True)[1].ravel())
    ordered, turns = labels[order], np.full(len(order), len(order))
    for label in np.unique(ordered):
        own = np.flatnonzero((ordered == label).any(axis=1))
        turns[own] = np.minimum(turns[own], np.arange(len(own)))
    return order[np.argsort(turns, kind="stable")]


def kinds_in_turn(kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order [n] in which each kind comes once before any comes again."""
    order = np.argsort(kinds, kind="stable")
    turns = np.empty(len(kinds), np.int64)
    turns[order] = np.arange(len(kinds)) - np.searchsorted(kinds[order], kinds[order])
    return np.argsort(turns, kind="stable")


def _candidates(wanted: int) -> int:
    """How many groups are tried: of many devices, hardly any has two samples of the same one."""
    return 2 * wanted if wanted == MOST_GROUPS else max(CANDIDATES, 20 * wanted)


def _rows_by_labels(labels: NDArray[np.int32]) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """The rows of each label tuple, in increasing order."""
    order = np.lexsort(labels.T[::-1])
    differs = np.any(labels[order[1:]] != labels[order[:-1]], axis=1)
    parts = np.split(order, np.flatnonzero(differs) + 1)
    return {tuple(labels[part[0]].tolist()): part for part in parts}


def unmix(
    pool: Pool, groups: Groups, ratios: tuple[float, ...], coding: Coding
) -> NDArray[np.float32]:
    """Eq. 7 for every group and label: [g, N, ...], sample n of a group has its label n.

    Inverse ratios sum to one, so that the origin of the codes is added once, at the end.
    """
    inverse = inverse_ratios(ratios) / coding.per_unit
    unmixed = np.empty((*groups.members.shape, *pool.inputs.shape[1:]), np.float32)
    for start in range(0, len(unmixed), GROUPS_AT_ONCE):
        part = slice(start, start + GROUPS_AT_ONCE)
        samples = pool.inputs[groups.members[part]].astype(np.float64)
        unmixed[part] = np.einsum("na,ga...->gn...", inverse, samples) + coding.origin
    return unmixed


def unmixed_numbers(
    targets: NDArray[np.float32], groups: Groups, ratios: tuple[float, ...]
) -> NDArray[np.float32]:
    """Eq. 7 for the numbers [m, T] of mixes: [g, N, T]. What is mixed alike is unmixed alike."""
    mixed = targets[groups.members].astype(np.float64)
    return np.einsum("na,gat->gnt", inverse_ratios(ratios), mixed).astype(np.float32)


def _rotations(labels: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Label tuples of members a = 0, 1, ...: each shifts the one before by one place."""
    size = len(labels)
    return [labels[size - shift :] + labels[: size - shift] for shift in range(size)]


def _members_of(
    candidates: NDArray[np.int64],
    orbits: list[list[NDArray[np.int64]]],
    shapes: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Decode candidate numbers: which orbit, and which sample of each of its N rows: [c, N]."""
    orbit = np.searchsorted(ends, candidates, side="right")
    within = candidates - (ends - shapes.prod(axis=1))[orbit]
    members = np.empty((len(candidates), shapes.shape[1]), np.int64)
    starts = np.cumsum([0, *shapes.ravel()[:-1]]).reshape(shapes.shape)
    flat = np.concatenate([rows for orbit_rows in orbits for rows in orbit_rows])
    for position in range(shapes.shape[1]):
        within, place = np.divmod(within, shapes[:, position][orbit])
        members[:, position] = flat[starts[:, position][orbit] + place]
    return members
