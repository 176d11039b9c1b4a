"""Devices are judged on samples of their own, with the model that they have at the end."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.data.partition import device_parts, own_test_samples
from mix2fld.report.tables import own_table
from toys import toy_config, toy_dataset, toy_grid


def test_held_out_samples_are_not_trained_with_and_are_of_the_device() -> None:
    data, config = toy_dataset(), toy_config(own_tests=0.25)
    parts = device_parts(data, config)
    whole = device_parts(data, toy_config())
    for part, before, (inputs, labels) in zip(
        parts, whole, own_test_samples(data, config), strict=True
    ):
        held = np.setdiff1d(before, part)
        assert len(held) == len(labels) == round(len(before) / 4)
        found = sorted(row.tobytes() for row in inputs)
        assert found == sorted(row.tobytes() for row in data.train_inputs[held])


def test_each_device_is_scored_with_its_own_model(tmp_path: Path) -> None:
    data, config = toy_dataset(), toy_grid(protocols=("isolated", "fl"), own_tests=0.25)
    results = mix2fld.run(config, tmp_path, dataset=data)
    for result in results:
        held = own_test_samples(data, result.config)
        own = result.summary["own"]
        for device, (inputs, labels), score in zip(
            result.devices, held, own["devices"], strict=True
        ):
            said = device.model.predict(inputs)
            assert np.mean(said == labels) == pytest.approx(score)
        assert own["mean"] == pytest.approx(np.mean(own["devices"]))
        assert own["worst_decile"] == min(own["devices"])
    again = mix2fld.run(config, tmp_path, dataset=data)
    assert [one.summary for one in again] == [one.summary for one in results]


def test_the_table_says_who_is_worse_off_than_alone() -> None:
    results = mix2fld.run(
        toy_grid(protocols=("isolated", "fl"), own_tests=0.25), dataset=toy_dataset()
    )
    alone, fl = (result.summary["own"] for result in results)
    alone["devices"][:] = [0.5, 0.5, 0.5, 0.9]
    fl["devices"][:] = [0.6, 0.7, 0.5, 0.1]
    table = own_table(results)
    console = Console(width=120, record=True)
    console.print(table)
    said = console.export_text()
    assert "-12.5" in said
    assert "1/4" in said
    assert own_table(mix2fld.run(toy_config(), dataset=toy_dataset())) is None


def test_rows_of_the_source_of_a_device_test_it() -> None:
    """Without a share, test rows of a table by source: nothing is taken from training."""
    rng = np.random.default_rng(1)
    table = {
        "x": rng.normal(size=120),
        "who": np.array(["a", "b", "c"])[np.arange(120) % 3],
        "label": np.arange(120) // 3 % 2,
    }
    data = mix2fld.dataset_from_table(table, source_column="who")
    config = toy_config(partition="by-source", devices=3, model="linear")
    held = own_test_samples(data, config)
    sources = [set(data.train_sources[part].tolist()) for part in device_parts(data, config)]
    counts = np.bincount(data.test_sources, minlength=3)
    assert [len(labels) for _, labels in held] == [counts[one.pop()] for one in sources]
    (result,) = mix2fld.run(config, dataset=data)
    assert len(result.summary["own"]["devices"]) == 3


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"own_tests = 0\.001: leaves device 0 0 of"):
        mix2fld.run(toy_config(own_tests=0.001), dataset=toy_dataset())
