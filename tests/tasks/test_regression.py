"""Regression: losses, metrics, bins, ridge and mixes of numbers, against plain NumPy."""

import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.codecs import Outputs, PayloadError, SeedSamples, WithBins
from mix2fld.data.bins import bin_edges, bins_of
from mix2fld.engine.one_round import start_run
from mix2fld.protocols.inverse_mixup import inverse_groups, unmixed_numbers
from mix2fld.protocols.seed_samples import mixed_samples
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.losses import distillation_loss, label_loss
from mix2fld.tasks.regression import Regression
from mix2fld.tasks.table import as_record, from_record
from mix2fld.types import Dataset, Model, Seeds
from stored_runs import check_resumed

FEATURES, DEVICES = 5, 4
SLOPES = np.random.default_rng(5).normal(size=(FEATURES, 2))


def line(numbers: int = 1, noise: float = 0.0, **changed) -> Dataset:
    rng = np.random.default_rng(3)
    inputs = rng.uniform(-1, 1, size=(400, FEATURES)).astype(np.float32)
    targets = 40 + 12 * inputs @ SLOPES[:, :numbers] + noise * rng.normal(size=(400, numbers))
    fields = {
        "train_inputs": inputs[:300],
        "train_targets": targets[:300],
        "test_inputs": inputs[300:],
        "test_targets": targets[300:],
        **changed,
    }
    return Dataset("line", **fields)


def linear(numbers: int = 1) -> Model:
    def init(key):
        kernel = 0.1 * jax.random.normal(key, (FEATURES, numbers))
        return {"bias": jnp.zeros(numbers), "kernel": kernel}

    return Model("linear", init, lambda w, x: x @ w["kernel"] + w["bias"])


def settings(**fields) -> mix2fld.Config:
    plain = {
        "protocol": "fl", "devices": DEVICES, "samples_per_device": 60, "rounds": 2,
        "local_steps": 40, "server_steps": 30, "batch_size": 4, "learning_rate": 0.05,
        "seed_samples": 12, "inverse_samples": 10, "partition": "iid", "link": "ideal",
    }  # fmt: skip
    return mix2fld.Config.of(**{**plain, **fields})


@pytest.mark.parametrize("numbers", [1, 2])
def test_ridge_of_all_devices_is_that_of_their_samples_together(numbers: int) -> None:
    """Exact from sums: the least squares of everything that anybody holds."""
    data = line(numbers, noise=2.0)
    config = settings(protocol="statistics", statistics_bits=32, rounds=1)
    simulation = make_simulation(config, data, linear(numbers))
    state, _ = simulation.run_round(simulation.start())
    held = np.concatenate(simulation.fleet.parts)
    x, y = data.train_inputs[held].astype(np.float64), data.train_targets[held]
    task = simulation.scenario.learning.task
    found = task.in_units(
        simulation.scenario.learning.stepper.logits(state.server.weights, data.test_inputs)
    )
    with_bias = np.column_stack([x, np.ones(len(x))])
    wanted = np.linalg.lstsq(with_bias, y.reshape(len(y), -1), rcond=None)[0]
    tests = np.column_stack([data.test_inputs, np.ones(100)])
    largest = np.abs(found - tests @ wanted).max() / np.std(y)
    assert largest < 5e-3  # the ridge itself, and float32


def test_metrics_are_in_units_of_the_data() -> None:
    data = line(noise=3.0)
    task = Regression.of(data)
    guess = data.test_targets[:, 0] + np.random.default_rng(0).normal(size=100)
    outputs, truth = task.targets(guess), data.test_targets[:, 0].astype(np.float64)
    rmse, mae, explained = task.scores(task.score(outputs, task.targets(truth)), 100)
    errors = guess - truth
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    assert mae == pytest.approx(np.abs(errors).mean(), rel=1e-5)
    assert explained == pytest.approx(1 - np.sum(errors**2) / np.sum((truth - truth.mean()) ** 2))
    mean = dict(task.baselines)["mean"]
    assert mean == pytest.approx(np.sqrt(np.mean((truth - data.train_targets.mean()) ** 2)))
    assert task.doubt(mean) is not None
    assert task.doubt(0.5 * mean) is None


@pytest.mark.parametrize(
    ("form", "plain"),
    [
        ("squared", lambda e: e**2 / 2),
        ("absolute", abs),
        ("huber", lambda e: np.where(abs(e) < 1, e**2 / 2, abs(e) - 0.5)),
    ],
)
def test_losses_are_those_of_their_names(form: str, plain) -> None:
    task = Regression((0.0, 1.0), (1.0, 2.0), (-0.5, 0.5), form)
    rng = np.random.default_rng(1)
    outputs, targets = (2 * rng.normal(size=(9, 2)).astype(np.float32) for _ in "ab")
    wanted = plain(outputs - targets).mean()
    assert float(task.loss(jnp.asarray(outputs), targets)) == pytest.approx(wanted, rel=1e-5)
    as_torch = task.torch_loss(torch.tensor(outputs), torch.tensor(targets))
    assert float(as_torch) == pytest.approx(wanted, rel=1e-5)
    teacher = rng.normal(size=(3, 2)).astype(np.float32)
    teacher[1] = 0  # nobody knows the outputs of this bin
    taught = task.local_loss(distillation_loss).taught
    assert taught is not None
    assert task.local_loss(label_loss).taught is None
    bins = bins_of(targets, task.edges)
    assert set(bins) == {0, 1, 2}
    psi = np.where(bins[:, None] == 1, 0, plain(outputs - teacher[bins])).mean()
    for library in (jnp.asarray, torch.tensor):
        found = taught(library(outputs), library(targets), library(teacher), 0.3)
        assert float(found) == pytest.approx(wanted + 0.3 * psi, rel=1e-5)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=60), st.integers(2, 12))
def test_every_bin_has_a_sample(values: list[float], bins: int) -> None:
    targets = np.array(values, np.float32)
    edges = bin_edges(targets, bins)
    counts = np.bincount(bins_of(targets, edges), minlength=len(edges) + 1)
    assert len(counts) <= bins
    assert counts.min() >= 1


def simulated(protocol: str, **fields):
    simulation = make_simulation(settings(protocol=protocol, **fields), line(), linear())
    return simulation, simulation.scenario.learning, simulation.scenario.wire


def test_what_is_mixed_alike_is_unmixed_alike() -> None:
    """On a line, unmixed samples and their numbers lie on it again, wherever they come from."""
    simulation, learning, wire = simulated("mix2fld", seed_bits=32)
    parts, data, task = simulation.fleet.parts, line(), learning.task
    made = {
        d: wire.make_once(d, data.train_inputs[part], data.train_targets[part])
        for d, part in enumerate(parts)
    }
    slope = 12 * SLOPES[:, 0] / task.std[0]
    offset = (40 - task.mean[0]) / task.std[0]
    for own in made.values():
        np.testing.assert_allclose(own.inputs @ slope + offset, own.targets[:, 0], atol=1e-5)
    seeds = wire.prepare_seeds(made)
    np.testing.assert_allclose(seeds.inputs @ slope + offset, seeds.targets[:, 0], atol=1e-4)
    pool, groups = inverse_groups(made, learning.config)
    ratios = learning.config.seeding.ratios
    numbers = unmixed_numbers(pool.targets, groups, ratios)
    assert numbers.shape == (*groups.labels.shape, 1)
    flat = numbers.reshape(-1, 1)
    np.testing.assert_allclose(seeds.targets, np.resize(flat, seeds.targets.shape))
    near = np.abs(bins_of(flat, task.edges) - groups.labels.ravel())
    assert np.mean(near <= 1) > 0.9  # differences within bins do not cancel


def test_seed_samples_carry_their_numbers_to_the_bit() -> None:
    _, learning, _ = simulated("mix2fld")
    codec, dims, data = SeedSamples(2), learning.dims, line()
    rng = np.random.default_rng(0)
    seeds = mixed_samples(rng, data.train_inputs[:60], data.train_targets[:60], learning)
    carried = codec.encode(seeds, dims)
    assert carried.bits == 12 * (FEATURES * 8 + 2 * 4 + 32) == codec.size(dims).bits
    again = codec.decode(carried.data, dims)
    np.testing.assert_array_equal(again.targets, seeds.targets)
    np.testing.assert_array_equal(again.labels, seeds.labels)
    np.testing.assert_array_equal(again.inputs, seeds.inputs)
    broken = Seeds(seeds.inputs, seeds.labels, np.full_like(seeds.targets, np.nan))
    with pytest.raises(PayloadError, match="not finite"):
        codec.encode(broken, dims)


def test_bins_are_announced_with_each_download() -> None:
    for name in ("fd", "mix2fld"):
        simulation, learning, wire = simulated(name)
        plain = Outputs() if name == "fd" else PROTOCOLS["fl"].download_codec
        assert wire.download_size().bits == 32 * 9 + plain.size(learning.dims).bits
        assert len(learning.task.edges) == 9
        _, info = simulation.run_round(start_run(simulation.scenario, simulation.fleet))
        assert info.bits["down"] == wire.download_size().bits
    codec = WithBins((0.0, 1.0), Outputs())
    with pytest.raises(PayloadError, match="other bins"):
        codec.decode(bytes(8) + bytes(40), learning.dims)


WORKS = (
    "isolated", "fl", "fl8", "topk", "stc", "sign", "eden", "projected", "vote", "feedsign",
    "murmur", "murmur-stat", "dp-fl", "dp-murmur", "own-statistics", "statistics", "fd", "fld",
    "mixfld", "mix2fld",
)  # fmt: skip


@pytest.mark.parametrize("protocol", WORKS)
def test_protocols_learn_the_line(protocol: str) -> None:
    (result,) = mix2fld.run(settings(protocol=protocol), dataset=line(), model=linear())
    scores = result.summary["scores"]
    assert scores["metric"]["name"] == "RMSE"
    assert [other["metric"]["name"] for other in scores["further"]] == ["MAE", "R²"]
    if not protocol.startswith("dp-"):
        assert scores["mean"] < 0.75 * scores["baselines"]["mean"]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS.keys() - {*WORKS, "fl4"}))
def test_protocols_of_labels_name_themselves_and_the_task(protocol: str) -> None:
    with pytest.raises(InputError, match=f"{protocol}: needs labels, and the task regression"):
        mix2fld.run(settings(protocol=protocol), dataset=line(), model=linear())


def test_bins_that_no_device_holds_are_refused_where_outputs_are_averaged_in_them() -> None:
    few = settings(target_bins=100, devices=2, samples_per_device=20, partition="iid")
    for name in ("fd", "fld"):
        with pytest.raises(InputError, match=r"target_bins = .*no device holds a sample of"):
            make_simulation(few.replace(protocol=name), line(), linear())
    make_simulation(few.replace(protocol="fl"), line(), linear())


def test_rare_bins_are_what_rare_labels_are() -> None:
    config = settings(partition="non-iid", rare_labels=4, rare_samples=1, samples_per_device=40)
    simulation = make_simulation(config, line(), linear())
    task = simulation.scenario.learning.task
    labels = task.labels(line().train_targets)
    for part in simulation.fleet.parts:
        counts = np.bincount(labels[part], minlength=10)
        assert (counts <= 1).sum() >= 4


@pytest.mark.parametrize("protocol", ["mix2fld", "statistics", "fd"])
def test_a_run_is_resumed_to_the_same_bytes(tmp_path: Path, protocol: str) -> None:
    config = settings(protocol=protocol, rounds=3)
    check_resumed(tmp_path, config, 2, dataset=line(), model=linear())


def test_a_task_of_the_table_is_told_as_plain_values() -> None:
    import json

    task = Regression.of(line(2), settings(target_bins=4, target_loss="absolute"))
    again = from_record(json.loads(json.dumps(as_record(task))))
    assert again.as_fields() == task.as_fields()
    assert again.groups == 4
    for wrong in ({"task": "poetry"}, {"task": "regression"}, {}):
        with pytest.raises(InputError, match="task"):
            from_record(wrong)


@pytest.mark.parametrize(
    ("data", "fields", "words"),
    [
        (lambda: line(train_targets=np.ones((300, 1))), {}, "all are the same"),
        (lambda: line(train_targets=np.full((300, 1), np.nan)), {}, "not finite"),
        (
            lambda: line(2, train_targets=np.stack([np.arange(300), np.ones(300)], axis=1)),
            {},
            "number 1 of a target is 1 in every training sample",
        ),
        (line, {"protocol": "mix2fld", "seed_check": "agreement"}, "seed_check = agreement: is by"),
        (line, {"attack": "label-shift", "attackers": 1}, "falsifies labels"),
    ],
)
def test_bad_input_is_named(data, fields, words) -> None:
    with pytest.raises(InputError, match=words):
        mix2fld.run(settings(**fields), dataset=data(), model=linear())


def write_table(path: Path, constant: bool = False) -> Path:
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "load"])
        for a, b in rng.normal(size=(400, 2)):
            rows.writerow([a, b, 1.0 if constant else 30 * a - 12 * b + 100])
    return path


RUN = ["--partition", "iid", "--devices", "3", "--samples-per-device", "80", "--rounds", "2",
       "--local-steps", "60", "--server-steps", "30", "--seed-samples", "10",
       "--inverse-samples", "10", "--link", "ideal"]  # fmt: skip


def test_a_table_from_the_command_line_to_the_report(tmp_path: Path, capsys) -> None:
    table, out = write_table(tmp_path / "load.csv"), tmp_path / "runs"
    flags = ["--dataset", str(table), "--target-column", "load", *RUN, "--out", str(out)]
    main(["run", "--protocols", "fl", "mix2fld", *flags])
    shown = capsys.readouterr().out
    assert "RMSE" in shown
    assert "R²" in shown
    assert "simple predictions: mean" in shown.replace("\n", " ")
    main(["report", str(out), "--out", str(tmp_path / "report.html")])
    page = (tmp_path / "report.html").read_text()
    assert "RMSE" in page
    assert "accuracy" not in page.split("</script>")[-1].split("<script")[0]


def test_the_trained_model_predicts_in_units_of_the_data(tmp_path: Path, capsys) -> None:
    for numbers in (1, 2):
        data, config = line(numbers), settings(protocol="statistics", statistics_bits=32)
        (result,) = mix2fld.run(config.replace(model="mlp"), dataset=data)
        outputs = result.model.predict(data)
        assert outputs.shape == ((100,) if numbers == 1 else (100, 2))
        error = np.sqrt(np.mean((outputs.reshape(100, -1) - data.test_targets) ** 2))
        assert error == pytest.approx(result.summary["scores"]["global"], rel=1e-4)
        result.model.save(tmp_path / "model.safetensors")
        again = mix2fld.load_model(tmp_path / "model.safetensors").predict(data)
        np.testing.assert_array_equal(again, outputs)
    table, out = write_table(tmp_path / "load.csv"), tmp_path / "runs"
    flags = ["--dataset", str(table), "--target-column", "load", *RUN, "--out", str(out)]
    main(["run", "--protocols", "statistics", *flags])
    main(["predict", str(out / "statistics-s0"), str(table), "--out", str(tmp_path / "said.csv")])
    with (tmp_path / "said.csv").open() as file:
        rows = list(csv.DictReader(file))
    errors = [float(row["predicted"]) - float(row["load"]) for row in rows]
    assert len(errors) == 400
    assert np.sqrt(np.mean(np.square(errors))) < 6
    assert "known numbers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("constant", "column", "words"),
    [(True, "load", "is 1 in every row"), (False, "lod", "no such column")],
)
def test_a_wrong_target_column_is_one_message(tmp_path, capsys, constant, column, words) -> None:
    table = write_table(tmp_path / "load.csv", constant)
    flags = ["--dataset", str(table), "--target-column", column, *RUN]
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--protocols", "fl", *flags, "--out", str(tmp_path / "runs")])
    assert stopped.value.code
    told = capsys.readouterr()
    assert words in told.err + told.out
    assert not (tmp_path / "runs").exists()
