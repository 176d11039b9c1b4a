"""Groups for inverse-Mixup: drawn at random from all that there are, evenly, none twice."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from mix2fld.base.streams import stream
from mix2fld.protocols import inverse_mixup
from mix2fld.protocols.inverse_mixup import (
    MOST_GROUPS,
    Joined,
    Pool,
    find_groups,
    groups_wanted,
    inverse_groups,
    samples_wanted,
)
from mix2fld.protocols.seed_samples import as_collected, inversely_mixed
from mix2fld.tasks.learning import dimensions
from mix2fld.types import SampleFormat, Seeds
from toys import toy_config

DEVICES, LABELS, EACH = 4, 4, 2


def every_label_pair(devices: int = DEVICES, each: int = EACH) -> Pool:
    """A pool in which every device has ``each`` samples of every ordered pair of labels."""
    pairs = [(a, b) for a, b in product(range(LABELS), repeat=2) if a != b]
    labels = np.array(pairs * each * devices, np.int32)
    device = np.repeat(np.arange(devices), len(pairs) * each)
    return Pool(np.zeros((len(labels), 1, 1, 1), np.uint8), labels, device)


def drawn(pool: Pool, wanted: int, seed: int) -> list[tuple[int, ...]]:
    groups = find_groups(pool, wanted, stream(seed, "pairs"))
    return [tuple(group) for group in groups.members.tolist()]


def test_groups_depend_on_the_stream_and_on_it_alone() -> None:
    pool = every_label_pair()
    assert drawn(pool, 20, seed=0) == drawn(pool, 20, seed=0)
    choices = {frozenset(drawn(pool, 20, seed)) for seed in range(10)}
    assert len(choices) == 10


def test_few_groups_already_span_devices_and_labels() -> None:
    """Taken in order, the first groups would all be of the first labels or devices."""
    pool = every_label_pair()
    for seed in range(5):
        groups = drawn(pool, 60, seed)
        rows = [row for group in groups for row in group]
        assert {int(pool.device[row]) for row in rows} == set(range(DEVICES))
        assert {frozenset(pool.labels[row].tolist()) for row in rows} == {
            frozenset(pair) for pair in product(range(LABELS), repeat=2) if len(set(pair)) == 2
        }


def test_every_group_is_drawn_equally_often() -> None:
    """Chi-squared over all groups, drawn a tenth at a time from many streams."""
    pool = every_label_pair(devices=3, each=1)
    every = drawn(pool, 10_000, seed=0)
    assert len(every) == len(set(every)) == LABELS * (LABELS - 1) // 2 * 3 * 2
    wanted, streams = len(every) // 10, 1200
    counts = Counter(group for seed in range(streams) for group in drawn(pool, wanted, seed))
    expected = wanted * streams / len(every)
    squares = sum((counts[group] - expected) ** 2 / expected for group in every)
    # Without replacement within a stream: the variance is smaller by the share not drawn.
    freedom = len(every) - 1
    assert squares / (1 - wanted / len(every)) == pytest.approx(
        freedom, abs=5 * (2 * freedom) ** 0.5
    )


def test_label_tuples_take_turns_where_seeds_are_checked() -> None:
    """Of labels that few devices hold there are as many groups as there can be."""
    pool = every_label_pair()
    rare = (pool.labels == 3).any(axis=1) & (pool.device > 1)
    pool = Pool(pool.inputs[~rare], pool.labels[~rare], pool.device[~rare])
    for evenly in (False, True):
        groups = find_groups(pool, 24, stream(0, "pairs"), evenly)
        counts = Counter(tuple(sorted(labels)) for labels in groups.labels.tolist())
        assert (sorted(counts.values()) == [4] * 6) == evenly
    everything = find_groups(pool, 10_000, stream(0, "pairs"), True).members.tolist()
    assert sorted(everything) == sorted(
        find_groups(pool, 10_000, stream(0, "pairs")).members.tolist()
    )


def test_labels_take_turns_where_one_is_mixed_with_few_others() -> None:
    """Label 3 comes with label 0 alone: a quarter of the tuples, but as often as labels 1 and 2."""
    pool = every_label_pair()
    gone = (pool.labels == 3).any(axis=1) & (pool.labels != 0).all(axis=1)
    pool = Pool(pool.inputs[~gone], pool.labels[~gone], pool.device[~gone])
    groups = find_groups(pool, 25, stream(0, "pairs"), evenly=True)
    counts = np.bincount(groups.labels.ravel(), minlength=LABELS)
    assert counts.sum() == 50
    assert max(counts[1:]) - min(counts[1:]) <= 1


def test_all_groups_of_different_devices_are_found_once() -> None:
    pool = every_label_pair()
    found = drawn(pool, 10_000, seed=1)
    expected = {
        (one, other)
        for one, other in product(range(len(pool.labels)), repeat=2)
        if pool.device[one] != pool.device[other]
        and pool.labels[one].tolist() == pool.labels[other].tolist()[::-1]
        and pool.labels[one][0] < pool.labels[one][1]
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize(
    ("count", "inverse_samples", "samples", "groups"),
    [("per-device", 5, 20, 10), ("total", 5, 5, 3)],
)
def test_counts_are_those_of_the_config(
    count: str, inverse_samples: int, samples: int, groups: int
) -> None:
    config = toy_config(inverse_count=count, inverse_samples=inverse_samples)
    pool = every_label_pair()
    seeds = {
        device: Seeds(pool.inputs[pool.device == device], pool.labels[pool.device == device])
        for device in range(DEVICES)
    }
    assert groups_wanted(config) == groups
    assert len(inverse_groups(seeds, config)[1].members) == groups
    made = inversely_mixed(seeds, FakeTask(config))
    assert made is not None
    assert len(made.inputs) == len(made.targets) == samples
    assert made.distinct_groups == groups
    assert (made.targets.sum(axis=1) == 1).all()


class FakeTask:
    """What ``inversely_mixed`` needs of a task."""

    def __init__(self, config) -> None:
        self.config = config
        self.seed = config.seed
        self.dims = dimensions(config.seeding, SampleFormat((1, 1, 1)), LABELS)


def test_samples_are_the_same_made_together_or_one_by_one() -> None:
    config = toy_config(inverse_samples=30, mixing_ratio=0.1234567)
    rng = np.random.default_rng(5)
    pool = every_label_pair()
    seeds = {
        device: Seeds(
            rng.integers(0, 256, (24, 1, 1, 1)).astype(np.uint8), pool.labels[pool.device == device]
        )
        for device in range(DEVICES)
    }
    for made in (inversely_mixed(seeds, FakeTask(config)), as_collected(seeds, FakeTask(config))):
        assert made is not None
        together = made.inputs
        rows = rng.integers(len(made.targets), size=200)
        np.testing.assert_array_equal(made.make(rows), together[rows])
        for row in range(0, len(together), 7):
            np.testing.assert_array_equal(made.make(np.array([row]))[0], together[row])


def test_rows_of_joined_arrays_are_those_of_their_concatenation() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, (count, 2, 3)).astype(np.uint8) for count in (3, 0, 1, 5)]
    joined, together = Joined(arrays), np.concatenate(arrays)
    assert joined.shape == together.shape
    for shape in ((), (1,), (7,), (4, 2)):
        rows = rng.integers(9, size=shape)
        np.testing.assert_array_equal(joined[np.asarray(rows)], together[rows])


def test_of_very_many_devices_not_all_samples_are_made() -> None:
    config = toy_config(devices=10_000, inverse_samples=100)
    assert samples_wanted(config) == 1_000_000
    assert groups_wanted(config) == MOST_GROUPS
    pool = every_label_pair(devices=40, each=4)
    seeds = {
        device: Seeds(pool.inputs[pool.device == device], pool.labels[pool.device == device])
        for device in range(40)
    }
    made = inversely_mixed(seeds, FakeTask(config))
    assert made is not None
    assert len(made.targets) == 2 * MOST_GROUPS
    groups = inverse_groups(seeds, config)[1]
    assert made.distinct_groups == len(np.unique(groups.members, axis=0)) == MOST_GROUPS
    assert (pool.device[groups.members[:, 0]] != pool.device[groups.members[:, 1]]).all()


@pytest.mark.parametrize("evenly", [False, True])
def test_groups_are_the_same_however_many_candidates_are_looked_at(
    evenly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two devices, half of all candidates have both samples of one."""
    pool, found = every_label_pair(devices=2), []
    for spare in (1, 3, 10_000):
        monkeypatch.setattr(inverse_mixup, "SPARE", spare)
        for wanted in (2, 40, 10_000):
            groups = find_groups(pool, wanted, stream(3, "pairs"), evenly)
            found.append((wanted, groups.members.tolist(), groups.labels.tolist()))
    assert found[:3] == found[3:6] == found[6:]
