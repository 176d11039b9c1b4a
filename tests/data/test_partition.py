"""How samples are partitioned among devices."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.cli.data import DataShow
from mix2fld.config.settings import Config, DataConfig
from mix2fld.data import (
    PARTITIONS,
    check_labels_covered,
    device_parts,
    label_counts,
    measured_samples,
)
from mix2fld.data.partition import OF_SOURCES, partition
from mix2fld.report.maps import draw_label_map
from mix2fld.report.tables import label_table
from toys import toy_dataset

KINDS = sorted(set(PARTITIONS) - OF_SOURCES)
MNIST_LIKE = np.arange(60_000) % 10


def split(labels, num_labels=10, seed=0, **fields):
    return partition(labels, DataConfig(**fields), num_labels, stream(seed, "partition"))


@st.composite
def problems(draw):
    """A config that every kind can serve, and labels with enough samples for it."""
    num_labels = draw(st.integers(2, 6))
    shards = draw(st.integers(1, 3))
    config = DataConfig(
        partition=draw(st.sampled_from(KINDS)),
        devices=draw(st.integers(1, 6)),
        samples_per_device=shards * draw(st.integers(4, 12)),
        rare_labels=draw(st.integers(0, num_labels - 1)),
        rare_samples=draw(st.integers(0, 1)),
        dirichlet_alpha=draw(st.sampled_from([1e-300, 1e-3, 0.5, 100.0, 1e308])),
        shards_per_device=shards,
        reuse_samples=draw(st.booleans()),
    )
    wanted = config.samples_per_device * config.devices
    sizes = [draw(st.integers(wanted, wanted + 5)) for _ in range(num_labels)]
    labels = np.repeat(np.arange(num_labels), sizes)
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)
    if config.samples_per_device < num_labels + config.rare_labels:
        config = config.model_copy(update={"rare_labels": 0, "samples_per_device": 6 * shards})
    return labels, config, num_labels


@given(problems(), st.integers(0, 2**32 - 1))
def test_sizes_are_exact_and_samples_are_not_shared(problem, seed):
    labels, config, num_labels = problem
    parts = partition(labels, config, num_labels, stream(seed, "partition"))
    assert [len(part) for part in parts] == [config.samples_per_device] * config.devices
    for part in parts:
        assert np.issubdtype(part.dtype, np.integer)
        assert len(np.unique(part)) == len(part)
        assert part.min() >= 0
        assert part.max() < len(labels)
    if not config.reuse_samples:
        assert len(np.unique(np.concatenate(parts))) == config.devices * config.samples_per_device
    again = partition(labels, config, num_labels, stream(seed, "partition"))
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_yields_another_partition(kind):
    one, other = (split(MNIST_LIKE, partition=kind, seed=seed) for seed in (0, 1))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_iid_has_every_label_equally_often():
    counts = label_counts(MNIST_LIKE, split(MNIST_LIKE, partition="iid"), 10)
    assert np.array_equal(counts, np.full((10, 10), 50))


def test_iid_remainder_goes_to_random_labels():
    parts = split(MNIST_LIKE, partition="iid", samples_per_device=503, devices=50)
    counts = label_counts(MNIST_LIKE, parts, 10)
    assert np.array_equal(np.sort(counts, axis=1), [[50] * 7 + [51] * 3] * 50)
    assert (counts == 51).any(axis=0).all()


def test_non_iid_is_the_papers():
    parts = split(MNIST_LIKE, devices=100)
    counts = label_counts(MNIST_LIKE, parts, 10)
    assert np.array_equal(np.sort(counts, axis=1), [[2, 2] + [62] * 8] * 100)
    rare_pairs = {tuple(np.flatnonzero(row == 2)) for row in counts}
    assert len(rare_pairs) > 20


@given(st.integers(1, 9), st.integers(0, 5), st.integers(80, 200))
def test_non_iid_rare_counts_hold_for_any_size(rare_labels, rare_samples, samples):
    parts = split(
        MNIST_LIKE,
        devices=3,
        rare_labels=rare_labels,
        rare_samples=rare_samples,
        samples_per_device=samples,
    )
    common = 10 - rare_labels
    share, extra = divmod(samples - rare_labels * rare_samples, common)
    expected = sorted(
        [rare_samples] * rare_labels + [share + 1] * extra + [share] * (common - extra)
    )
    assert np.array_equal(np.sort(label_counts(MNIST_LIKE, parts, 10), axis=1), [expected] * 3)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_dirichlet_counts_have_the_right_mean_and_spread(alpha):
    devices, samples = 2000, 500
    parts = split(
        MNIST_LIKE,
        partition="dirichlet",
        dirichlet_alpha=alpha,
        devices=devices,
        samples_per_device=samples,
        reuse_samples=True,
    )
    counts = label_counts(MNIST_LIKE, parts, 10)
    mean = samples / 10
    # Variance of a Dirichlet-multinomial count with ten equal concentrations.
    variance = mean * 0.9 * (samples + 10 * alpha) / (1 + 10 * alpha)
    assert counts.mean(axis=0) == pytest.approx([mean] * 10, abs=5 * (variance / devices) ** 0.5)
    assert counts.var() == pytest.approx(variance, rel=0.1)


def test_dirichlet_can_use_the_whole_dataset():
    labels = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 5, 100, 200, 300, 380])
    parts = split(
        labels, partition="dirichlet", dirichlet_alpha=0.01, devices=10, samples_per_device=100
    )
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


def test_shards_hold_few_labels_and_all_labels_are_covered():
    parts = split(MNIST_LIKE, partition="shards", shards_per_device=2)
    counts = label_counts(MNIST_LIKE, parts, 10)
    assert ((counts > 0).sum(axis=1) <= 2).all()
    assert np.array_equal(counts.sum(axis=0), [500] * 10)
    assert set(counts.ravel()) <= {0, 250, 500}


def test_shards_can_use_the_whole_dataset():
    parts = split(MNIST_LIKE, partition="shards", devices=100, samples_per_device=600)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(60_000))


@pytest.mark.parametrize("kind", KINDS)
def test_reuse_serves_more_devices_than_there_are_samples(kind):
    parts = split(MNIST_LIKE, partition=kind, devices=1000, reuse_samples=True)
    assert len(parts) == 1000
    assert all(len(np.unique(part)) == 500 for part in parts)
    check_labels_covered(MNIST_LIKE, parts, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_samples_in_total(kind):
    with pytest.raises(InputError, match=r"samples_per_device = 500.*121.*60,500.*60,000.*reuse"):
        split(MNIST_LIKE, partition=kind, devices=121)


def test_too_few_samples_of_one_label():
    labels = np.concatenate([MNIST_LIKE[MNIST_LIKE != 3], [3] * 499, [0] * 9000])
    split(labels, partition="iid", devices=9)
    with pytest.raises(
        InputError, match=r"devices = 10 need 500 samples of label 3.*has 499.*reuse"
    ):
        split(labels, partition="iid", devices=10)


def test_too_few_samples_of_one_label_even_with_reuse():
    labels = np.repeat([0, 1], [100, 4])
    with pytest.raises(InputError, match="a device needs 10 samples of label 1 but"):
        split(labels, 2, partition="iid", samples_per_device=20, reuse_samples=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rare_labels": 10}, "rare_labels = 10: must be below the number of labels, 10"),
        ({"samples_per_device": 11}, "samples_per_device = 11: must be at least 12"),
        ({"rare_samples": 300}, "samples_per_device = 500: must be at least 608"),
        ({"partition": "shards", "shards_per_device": 3}, "multiple of shards_per_device = 3"),
        ({"reuse_samples": True, "samples_per_device": 60_001}, "a device needs 60,001 samples"),
    ],
)
def test_impossible_settings_are_named(fields, message):
    with pytest.raises(InputError, match=message):
        split(MNIST_LIKE, **fields)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("iiid", "did you mean 'iid'?"),
        ("", "known: by-source, dirichlet, iid, non-iid, shards"),
    ],
)
def test_an_unknown_partition_is_named(name, hint):
    with pytest.raises(InputError) as caught:
        split(MNIST_LIKE, partition=name)
    assert str(caught.value) == f"partition = {name!r}: no such partition; {hint}"


def test_device_parts_are_those_of_the_seed():
    dataset = toy_dataset()
    config = Config.of(partition="iid", devices=3, samples_per_device=20, seed=7)
    labels, num_labels = dataset.train_labels, dataset.num_labels
    expected = partition(labels, config.data, num_labels, stream(7, "partition"))
    for part, same in zip(device_parts(dataset, config), expected, strict=True):
        assert np.array_equal(part, same)


def test_device_parts_hold_every_label():
    dataset = toy_dataset()
    config = Config.of(partition="iid", devices=1, samples_per_device=dataset.num_labels - 1)
    with pytest.raises(InputError, match="no device holds a sample of label"):
        device_parts(dataset, config)
    (part,) = device_parts(dataset, config, every_label=False)
    assert len(part) == dataset.num_labels - 1


def test_of_many_labels_that_nobody_holds_some_are_named():
    with pytest.raises(InputError) as caught:
        check_labels_covered(np.array([0, 7]), [np.array([0, 1])], 2000)
    said = str(caught.value)
    assert "holds a sample of labels 1, 2, 3, 4, 5, 6, 8, 9 and 1,990 others; increase" in said


@pytest.mark.parametrize(("test_samples", "count"), [(0, None), (5, 5), (10**9, None)])
def test_accuracy_is_measured_on_the_first_test_samples(test_samples, count):
    dataset = toy_dataset()
    images, labels = measured_samples(dataset, Config.of(test_samples=test_samples))
    assert np.array_equal(images, dataset.test_inputs[:count])
    assert np.array_equal(labels, dataset.test_labels[:count])


def test_a_validation_split_is_held_by_nobody():
    dataset = toy_dataset()
    chosen = {"partition": "iid", "devices": 3, "samples_per_device": 20, "seed": 7}
    config = Config.of(measured_on="validation", **chosen)
    inputs, labels = measured_samples(dataset, config)
    held = np.concatenate(device_parts(dataset, config))
    assert np.array_equal(held, np.concatenate(device_parts(dataset, Config.of(**chosen))))
    free = np.setdiff1d(np.arange(len(dataset.train_labels)), held)
    assert len(labels) == len(free)
    own = {sample.tobytes() for sample in dataset.train_inputs[free]}
    assert {sample.tobytes() for sample in inputs} == own
    fewer, _ = measured_samples(dataset, config.replace(test_samples=5))
    assert np.array_equal(fewer, inputs[:5])


def test_a_validation_split_needs_samples_that_nobody_holds():
    dataset = toy_dataset()
    count = len(dataset.train_labels)
    config = Config.of(
        partition="iid", devices=1, samples_per_device=count, measured_on="validation"
    )
    with pytest.raises(InputError, match="measured_on = validation: the devices hold all"):
        measured_samples(dataset, config)


def test_sources_leave_their_last_samples_to_a_validation_split():
    dataset = toy_dataset()
    count = len(dataset.train_labels)
    dataset = replace(dataset, train_sources=np.arange(count) % 3)
    config = Config.of(partition="by-source", devices=3, measured_on="validation")
    parts = device_parts(dataset, config)
    _, labels = measured_samples(dataset, config)
    assert sum(map(len, parts)) + len(labels) == count
    for source, part in enumerate(parts):
        for label in range(dataset.num_labels):
            same = (dataset.train_labels == label) & (dataset.train_sources == source)
            kept = np.sort(part[dataset.train_labels[part] == label])
            own = np.flatnonzero(same)
            assert np.array_equal(kept, own[: len(own) - round(0.2 * len(own))])


def test_uncovered_labels_are_named():
    parts = [np.array([0, 1]), np.array([5, 8])]
    with pytest.raises(InputError, match="labels 2, 3, 4, 6, 7, 9"):
        check_labels_covered(MNIST_LIKE, parts, 10)
    with pytest.raises(InputError, match="label 9;"):
        check_labels_covered(MNIST_LIKE, [np.arange(9)], 10)
    check_labels_covered(MNIST_LIKE, [np.arange(4), np.arange(4, 10)], 10)


def test_order_within_a_device_does_not_follow_the_label():
    part = split(np.sort(MNIST_LIKE), partition="iid")[0]
    ordered = np.sort(MNIST_LIKE)[part]
    assert 0.8 < np.mean(np.diff(ordered) != 0) < 1


def cells(text):
    return [line.replace("│", " ").split() for line in text.splitlines()]


def cells_of(table):
    stream = StringIO()
    Console(file=stream, width=200).print(table)
    return cells(stream.getvalue())


def test_label_table_lists_few_devices_and_sums_up_many():
    listed = cells_of(label_table(np.arange(20).reshape(2, 10)))
    assert ["0", *map(str, range(10)), "45"] in listed
    assert ["1", *map(str, range(10, 20)), "145"] in listed
    many = np.zeros((40, 3), int)
    many[:10, 1] = 2_000_000
    summed = cells_of(label_table(many))
    assert ["1", "20,000,000", "30", "0", "0.0", "2,000,000"] in summed


@pytest.mark.parametrize("shape", [(1, 2), (20, 10), (50, 100)])
def test_label_map_is_a_png(tmp_path, shape):
    path = tmp_path / "new" / "map.png"
    draw_label_map(np.random.default_rng(0).integers(0, 60, shape), path)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 2


def test_show_prints_the_partition_of_that_seed(tmp_path, capsys):
    labels = np.repeat([0, 1, 2], 40)
    images = np.zeros((120, 4, 4), np.uint8)
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images[:3], y_test=[0, 1, 2])
    config = DataConfig(
        dataset=str(path), partition="shards", devices=2, samples_per_device=10, shards_per_device=1
    )
    DataShow(seed=5, out=tmp_path / "map.png", data=config).run()
    shown = cells(capsys.readouterr().out)
    counts = label_counts(labels, partition(labels, config, 3, stream(5, "partition")), 3)
    for device, row in enumerate(counts):
        assert [str(device), *map(str, row), "10"] in shown
    assert (tmp_path / "map.png").is_file()
    alone = DataConfig(dataset=str(path), partition="iid", devices=1, samples_per_device=2)
    DataShow(data=alone).run()
    assert "A run would fail: partition: no device holds a sample of" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"must end in \.png"):
        DataShow(out=tmp_path / "map.txt", data=config).run()
    with pytest.raises(InputError, match="seed = -1"):
        DataShow(seed=-1, data=config).run()


@pytest.mark.parametrize("kind", ["iid", "non-iid", "dirichlet"])
@pytest.mark.parametrize("reuse", [False, True])
def test_a_spread_gives_devices_different_sample_counts(kind, reuse):
    fields = {"partition": kind, "devices": 400, "samples_per_device": 60, "reuse_samples": reuse}
    parts = split(MNIST_LIKE, samples_spread=0.5, **fields)
    counts = np.array([len(part) for part in parts])
    z = np.log(counts / 60) / 0.5
    assert abs(z.mean()) < 4.5 / np.sqrt(400)
    assert abs(z.std() - 1) < 4.5 / np.sqrt(2 * 400) + 0.02  # counts are whole
    assert all(len(np.unique(part)) == len(part) for part in parts)
    if not reuse:
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)


def test_a_spread_keeps_what_a_partition_needs():
    parts = split(
        MNIST_LIKE, devices=300, samples_per_device=20, samples_spread=2, reuse_samples=True
    )
    counts = label_counts(MNIST_LIKE, parts, 10)
    assert counts.sum(axis=1).min() == 2 * 2 + 8
    assert ((counts == 2).sum(axis=1) >= 2).all()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"samples_spread": 1, "devices": 100}, "samples_per_device = 500: devices = 100 need"),
        ({"samples_spread": 0.1, "partition": "shards"}, "samples_spread = 0.1: shards are of"),
        ({"samples_spread": -1}, "samples_spread = -1: must be greater than or equal to 0"),
    ],
)
def test_a_bad_spread_is_named(fields, words):
    with pytest.raises(InputError, match=words):
        split(MNIST_LIKE, **fields)


def test_shared_samples_are_drawn_uniformly():
    """Every sample of a label as often as another, and every pair of them."""
    labels = np.repeat([0, 1], [6, 20])
    parts = split(
        labels, 2, partition="iid", devices=6000, samples_per_device=4, reuse_samples=True
    )
    often = np.bincount(np.concatenate(parts), minlength=26)
    assert np.abs(often[:6] - 2000).max() < 4.5 * np.sqrt(6000 / 3 * 2 / 3)
    assert np.abs(often[6:] - 600).max() < 4.5 * np.sqrt(6000 * 0.1 * 0.9)
    pairs = np.array([sorted(part[part >= 6]) for part in parts])
    _, times = np.unique(pairs, axis=0, return_counts=True)
    assert len(times) == 190
    assert times.max() < 6000 / 190 + 5.5 * np.sqrt(6000 / 190)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_by_source_a_device_holds_all_that_its_source_recorded(sources, devices, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.choice(50, sources, replace=False)  # need not be 0, 1, 2, ...
    by = np.concatenate([numbers, rng.choice(numbers, 30)])
    labels = rng.integers(0, 3, len(by))
    config = DataConfig(partition="by-source", devices=devices)
    if devices > sources:
        with pytest.raises(InputError, match=f"devices = {devices}: the dataset has {sources} sou"):
            partition(labels, config, 3, stream(seed, "partition"), by)
        return
    parts = partition(labels, config, 3, stream(seed, "partition"), by)
    held = [set(by[part].tolist()) for part in parts]
    assert all(len(one) == 1 for one in held)
    names = [one.pop() for one in held]
    assert names == sorted(set(names))
    assert [sorted(part) for part in parts] == [np.flatnonzero(by == n).tolist() for n in names]


def test_by_source_needs_sources():
    with pytest.raises(InputError, match="does not say who recorded its samples"):
        device_parts(toy_dataset(), Config.of(partition="by-source", devices=4))
