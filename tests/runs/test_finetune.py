"""Steps of each device after the last round: its own model, beside the common one."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.deploy.settings import check_deployable
from mix2fld.report.html import write_report
from mix2fld.report.tables import results_tables
from mix2fld.runs.reader import require_runs
from toys import toy_config, toy_dataset, toy_grid

STEPS = {"finetune_steps": 40, "own_tests": 0.25, "learning_rate": 0.03}


@pytest.mark.parametrize("protocol", ["fl", "fl8", "murmur", "stc", "isolated"])
def test_rounds_stay_as_they_are_and_devices_have_tuned_models(protocol: str) -> None:
    data = toy_dataset()
    (plain,) = mix2fld.run(
        toy_config(protocol=protocol, own_tests=0.25, learning_rate=0.03), dataset=data
    )
    (tuned,) = mix2fld.run(toy_config(protocol=protocol, **STEPS), dataset=data)
    assert [info["scores"] for info in tuned.rounds] == [info["scores"] for info in plain.rounds]
    assert tuned.summary["own"] == plain.summary["own"]
    own = tuned.summary["finetuned"]
    assert own["steps"] == 40
    scores = [np.mean(d.model.predict(data) == data.test_labels) for d in tuned.devices]
    assert own["mean"] == pytest.approx(np.mean(scores))
    assert len(own["own"]["devices"]) == len(tuned.devices)
    first, second = (result.devices[0].weights for result in (plain, tuned))
    assert any((first[name] != second[name]).any() for name in first)
    assert "finetuned" not in plain.summary


def test_tuned_models_are_kept_in_the_folder(tmp_path: Path) -> None:
    data, config = toy_dataset(), toy_config(protocol="fl", **STEPS)
    (result,) = mix2fld.run(config, tmp_path, dataset=data)
    found = mix2fld.load_model(tmp_path / "fl-s0", device=1)
    for name, weights in result.devices[1].weights.items():
        np.testing.assert_array_equal(found.weights[name], weights)
    (again,) = mix2fld.run(config, tmp_path, dataset=data)
    assert again.summary == result.summary
    (fresh,) = mix2fld.run(config, tmp_path, dataset=data, overwrite=True)
    assert fresh.summary == result.summary


def test_a_run_that_is_killed_before_its_summary_tunes_again(tmp_path: Path) -> None:
    data, config = toy_dataset(), toy_config(protocol="murmur", **STEPS)
    (result,) = mix2fld.run(config, tmp_path, dataset=data)
    (tmp_path / "murmur-s0" / "summary.json").unlink()
    (tmp_path / "murmur-s0" / "finetuned.safetensors").unlink()
    (again,) = mix2fld.run(config, tmp_path, dataset=data)
    assert again.summary == result.summary
    for name, weights in result.devices[2].weights.items():
        np.testing.assert_array_equal(again.devices[2].weights[name], weights)


def test_states_on_disk_are_tuned_too() -> None:
    data = toy_dataset()
    memory, disk = (
        mix2fld.run(toy_config(protocol="fl", device_states=where, **STEPS), dataset=data)[0]
        for where in ("memory", "disk")
    )
    assert memory.summary["finetuned"] == disk.summary["finetuned"]


@pytest.mark.parametrize("protocol", ["fd", "mix2fld", "statistics", "murmur-mix"])
def test_protocols_that_send_no_weights_alone_refuse_it(protocol: str) -> None:
    with pytest.raises(InputError, match="finetune_steps = 5: "):
        mix2fld.run(toy_config(protocol=protocol, finetune_steps=5), dataset=toy_dataset())


@pytest.mark.parametrize("name", ["own_tests", "finetune_steps"])
def test_deployments_refuse_what_is_only_simulated(name: str) -> None:
    value = {"own_tests": 0.2, "finetune_steps": 5}[name]
    with pytest.raises(InputError, match=f"{name} = {value}: is only simulated"):
        check_deployable(toy_config(**{name: value}))


@pytest.mark.parametrize("command", ["local", "mqtt"])
def test_trials_refuse_it_before_anything_starts(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    with pytest.raises(SystemExit):
        main(["deploy", command, "--own-tests", "0.2", "--out", str(tmp_path / "out")])
    assert "own_tests = 0.2: is only simulated" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_own_tests_are_in_frames() -> None:
    results = mix2fld.run(toy_grid(protocols=("isolated", "fl"), **STEPS), dataset=toy_dataset())
    frame = results.frame("runs").set_index("protocol")
    for result in results:
        row, own = frame.loc[result.config.protocol], result.summary["own"]
        assert row["own/mean"] == own["mean"]
        assert row["own/worst_decile"] == own["worst_decile"]
        assert row["finetuned/own/mean"] == result.summary["finetuned"]["own"]["mean"]
        assert row["finetuned/mean"] == result.summary["finetuned"]["mean"]
    alone, fl = (result.summary["own"]["devices"] for result in results)
    gains = np.array(fl) - np.array(alone)
    assert frame.loc["fl", "own/gain_over_alone"] == pytest.approx(gains.mean())
    assert frame.loc["fl", "own/worse_off"] == (gains < 0).sum()
    assert np.isnan(frame.loc["isolated", "own/worse_off"])


def test_the_report_has_own_tests_and_tuned_models(tmp_path: Path) -> None:
    grid = toy_grid(protocols=("isolated", "fl"), **STEPS)
    results = mix2fld.run(grid, tmp_path / "runs", dataset=toy_dataset())
    write_report(require_runs([tmp_path / "runs"]), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    own = results[1].summary["own"]
    for words in (
        "Devices on their own test samples", "FL, fine-tuned", "devices worse off",
        f"<td>{100 * own['mean']:.1f}</td><td>{100 * own['worst_decile']:.1f}</td>",
    ):  # fmt: skip
        assert words in page
    console = Console(width=120, record=True)
    for table in results_tables(results):
        console.print(table)
    said = console.export_text()
    assert "after 40 steps of fine-tuning" in said
    assert "FL, fine-tuned" in said
