"""Samples of any shape and type through whole runs: signals, vectors, token ids."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.codecs import PayloadError
from mix2fld.engine.checks import check_upload
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.simulation import check, make_simulation, run
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.stepper import TestSet
from mix2fld.types import Dataset, Model, SampleFormat, Seeds, Upload
from toys import toy_config, toy_dataset, toy_grid, toy_signals

SUMMARISED = [
    name
    for name, row in PROTOCOLS.items()
    if row.first_model is not None or row.statistics is not None
]
SEEDED = [name for name, row in PROTOCOLS.items() if row.seeds and name not in SUMMARISED]
GENERATED = ["dp-seeds", "dp-seeds-sum"]


def signal_config(**fields) -> mix2fld.Config:
    small = {"model": "mlp", "rounds": 2, "link": "ideal", "learning_rate": 1e-4}
    return toy_config(**{**small, **fields})


@pytest.mark.parametrize(
    ("protocol", "bits"),
    [("fl", 8), ("fd", 8), ("fld", 3), ("mixfld", 12), ("mix2fld", 12), ("mix2fld", 32)],
)
def test_every_protocol_runs_on_toy_signals(protocol: str, bits: int) -> None:
    data, config = toy_signals(), signal_config(protocol=protocol, seed_bits=bits)
    assert check(config, data) == []
    (result,) = run(config, dataset=data)
    if protocol in SEEDED:
        mixed = 1 if protocol == "fld" else 2
        each = config.seeding.seed_samples * (24 * bits + 2 * mixed)
        assert result.rounds[0]["bits"]["up"] == 4 * (32 * 16 + each)


def test_what_the_server_learns_from_is_in_the_units_of_the_data() -> None:
    """Of raw samples rounded to 12 bits: within half a step of the samples themselves."""
    data = toy_signals()
    scenario, fleet = make_simulation(signal_config(protocol="fld", seed_bits=12), data)
    own, labels = fleet.own(2)
    made = scenario.wire.make_once(2, own, labels)
    decoded = scenario.wire.decode_once(scenario.wire.encode_once(made).data)
    learned = scenario.wire.prepare_seeds({2: decoded}).inputs
    assert learned.dtype == np.float32
    step = (data.value_range[1] - data.value_range[0]) / 4095
    apart = np.abs(learned[:, None] - own[None]).max(axis=(2, 3)).min(axis=1)
    assert apart.max() <= 0.5001 * step


def test_a_range_that_clips_is_what_the_server_sees() -> None:
    data = toy_signals(value_range=(30.0, 45.0))
    for bits in (8, 32):
        scenario, fleet = make_simulation(signal_config(protocol="fld", seed_bits=bits), data)
        made = scenario.wire.make_once(0, *fleet.own(0))
        check_upload(PROTOCOLS["fld"], Upload((), 1, made), data.samples)
        inputs = scenario.wire.prepare_seeds({0: made}).inputs
        assert inputs.min() == 30
        assert inputs.max() == 45
    honest = Seeds(np.full((1, 12, 2), 46, np.float32), np.zeros((1, 1), np.int32))
    with pytest.raises(PayloadError, match="a value of 46; must be from 30 to 45"):
        check_upload(PROTOCOLS["fld"], Upload((), 1, honest), data.samples)


def test_a_run_remembers_how_samples_are_stored(tmp_path: Path) -> None:
    config = signal_config(protocol="fl", rounds=1)
    data = toy_signals(value_range=(0.0, 60.0), mean=(1.0, 2.0), std=(3.0, 4.0))
    run(config, tmp_path, dataset=data)
    recorded = json.loads(made_with(tmp_path / "fl-s0" / "checkpoint.safetensors")["samples"])
    assert recorded == {
        "shape": [12, 2], "dtype": "float32", "low": 0.0, "high": 60.0,
        "mean": [1.0, 2.0], "std": [3.0, 4.0],
    }  # fmt: skip
    other = replace(data, value_range=(0.0, 61.0))
    with pytest.raises(InputError, match=r"stored differently \(high = 60.0, now 61.0\)"):
        run(config, tmp_path, dataset=other)
    run(config, tmp_path, dataset=data)
    run(config.replace(devices=3), tmp_path / "images", dataset=toy_dataset())
    assert "samples" not in made_with(tmp_path / "images" / "fl-s0" / "checkpoint.safetensors")


def tokens() -> Dataset:
    rng = np.random.default_rng(6)
    labels = np.arange(300) % 3
    inputs = rng.integers(0, 24, (300, 4))
    inputs[:, 0] = 24 + labels  # this word tells
    parts = (inputs[:200], labels[:200], inputs[200:], labels[200:])
    return Dataset("tokens", *parts, num_labels=3)


BAG_OF_WORDS = Model(
    "bag of words",
    lambda key: {"table": 0.1 * jax.random.normal(key, (27, 3))},
    lambda weights, inputs: weights["table"][inputs].sum(axis=1),
)


@pytest.mark.parametrize(
    "protocol", [name for name in PROTOCOLS if name not in (*SEEDED, *SUMMARISED, *GENERATED)]
)
def test_token_ids_work_where_no_seeds_are_sent(protocol: str) -> None:
    config = toy_config(protocol=protocol, rounds=1, devices=3, local_steps=200, kernel="auto")
    (result,) = run(config, dataset=tokens(), model=BAG_OF_WORDS)
    assert result.summary["scores"]["mean"] > 0.8


@pytest.mark.parametrize("protocol", GENERATED)
def test_token_ids_are_refused_where_seeds_are_generated(protocol: str, tmp_path: Path) -> None:
    config = toy_config(protocol=protocol, devices=3, kernel="auto")
    with pytest.raises(InputError, match=r"samples are \[4\]: seeds are generated for images"):
        run(config, tmp_path / "out", dataset=tokens(), model=BAG_OF_WORDS)


@pytest.mark.parametrize("protocol", SEEDED)
def test_token_ids_are_refused_where_seeds_are_sent(protocol: str, tmp_path: Path) -> None:
    config = toy_grid(protocols=("fl", protocol), devices=3, kernel="auto")
    with pytest.raises(InputError, match="uploads seed samples, but samples are int32") as caught:
        run(config, tmp_path / "out", dataset=tokens(), model=BAG_OF_WORDS)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kernel", ["xla", "native"])
def test_float_images_are_tested_as_they_are_stored(kernel: str) -> None:
    """Images as uint8, and the same ones divided by 255, have the same accuracy."""
    data = toy_dataset()
    scaled = SampleFormat(data.sample_shape, "float32", 0.0, 1.0)
    config = toy_config(model="paper-cnn", kernel=kernel)
    found = []
    for samples, inputs in (
        (data.samples, data.test_inputs),
        (scaled, (data.test_inputs / 255).astype(np.float32)),
    ):
        learning = make_learning(config, samples, Classification(4))
        models = [learning.stepper.draw_weights(seed) for seed in range(6)]
        found.append(
            TestSet(learning.stepper, learning.task, inputs, data.test_labels).scores(models)
        )
    assert found[0] == found[1]
    assert len(set(found[0])) > 1
