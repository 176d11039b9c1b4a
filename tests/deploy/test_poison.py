"""Well-formed poison in a deployment: who is named, what is spared, and who is not blamed."""

import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, Message

from deploy.grid import InProcessGrid
from deploy.lab import FAULTY, Lab, deployed_config, diary, order_in, rounds_of, run_in_process
from mix2fld.base.errors import InputError
from mix2fld.config.settings import PRESETS, Config
from mix2fld.deploy.edge.messages import Refused
from mix2fld.deploy.forms import to_record
from mix2fld.report.tables import results_table
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import run
from toys import bars

sys.path.insert(0, str(FAULTY))
import faulty_app

SEEDS = {
    "protocol": "fld",
    "devices": 5,
    "samples_per_device": 60,
    "server_steps": 150,
    "seed_samples": 16,
    "learning_rate": 0.05,
}
BAD = 2


def reached(path: Path) -> float:
    """The accuracy of the server's model at the end."""
    result = RunFolder(path).finished()
    assert result is not None, diary(path)
    found: float = result.summary["scores"]["global"]
    return found


def lie_about_labels(file: Path) -> None:
    """A device's samples with every label taken for the next one."""
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["train_labels"] = (arrays["train_labels"] + 1) % 4
    np.savez(file, **arrays)


def assert_only_one_is_named(path: Path, device: int) -> None:
    named = [line for line in diary(path).splitlines() if "times as far" in line or "left" in line]
    assert named
    assert all(f"device {device} " in line for line in named)
    assert "refused" not in diary(path)


def test_false_seeds_are_named_and_left_out(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, bars(), **SEEDS, **PRESETS["robust"])

    def lie(_: InProcessGrid) -> None:
        lie_about_labels(tmp_path / f"device-{BAD}" / "samples.npz")

    path = run_in_process(tmp_path, config, prepare=lie)
    assert f"the seeds of device {BAD} are left out: models of other devices agree with" in diary(
        path
    )
    assert_only_one_is_named(path, BAD)
    assert [info["left_out"] for info in rounds_of(path)] == [[BAD]] * config.rounds


def test_a_model_that_all_refuse_is_not_blamed_on_them(tmp_path: Path) -> None:
    """Without a defence the run stops, says who sent what, and keeps the model before it."""
    config = deployed_config(tmp_path, protocol="fl", rounds=4)

    def client(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train" and _round_of(message) == 3:
            refused = Refused("", 0, "the weights diverged", diverged=True)
            return Message(to_record(refused), reply_to=message)
        return faulty_app.client(message, context)

    with pytest.raises(InputError) as stopped:
        run_in_process(tmp_path, config, client, {BAD: "2:enlarged"})
    (path,) = (tmp_path / "runs").iterdir()
    assert str(stopped.value).startswith("round 3: all 4 devices that were asked diverge from")
    assert f"in round 2, device {BAD} uploaded weights" in str(stopped.value)
    assert "the model before round 2 is kept" in str(stopped.value)
    assert RunFolder(path).finished() is None
    assert len(rounds_of(path)) == 1


def _round_of(message: Message) -> int:
    return order_in(message).round


def test_a_run_that_an_attacker_spoilt_is_not_blamed_on_the_learning_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = deployed_config(tmp_path, protocol="fl")
    run_in_process(tmp_path, config, faulty_app.client, {BAD: "0:equal"})
    said = capsys.readouterr().err
    assert f"guessing one of 4 labels; in round 1, device {BAD} uploaded weights" in said
    assert "preset = robust" in said
    assert "learning_rate" not in said


def test_a_device_that_never_trained_does_not_count(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", devices=3)
    path = run_in_process(tmp_path, config, faulty_app.client, {1: "0:fails"})
    result = RunFolder(path).finished()
    assert result is not None
    for info in result.rounds:
        first, never, last = info["scores"]["devices"]
        assert never is None
    assert result.summary["scores"]["mean"] == np.mean([first, last])
    assert result.summary["devices"] == {"all": 3, "measured": 2}
    assert "2 of 3" in str(results_table([result]).columns[1].header)


@pytest.mark.long
def test_one_of_five_nodes_attacks_in_every_round(tmp_path: Path) -> None:
    """−10 w, 100,000 w, zeros with a claim of 2³¹ samples; with real processes."""
    config = deployed_config(tmp_path, protocol="fl", devices=5, rounds=3, **PRESETS["robust"])
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config, faults={BAD: "1:flipped 2:enlarged 3:zeros"})
        path = lab.run_to_end(config)
        assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [5] * 3
        for number in (1, 2, 3):
            assert f"round {number}: device {BAD} uploaded weights" in diary(path)
        assert_only_one_is_named(path, BAD)
        assert reached(path) > honest_accuracy(config) - 0.1


@pytest.mark.long
def test_one_of_five_nodes_sends_false_seeds(tmp_path: Path) -> None:
    """The same for seeds, which are sent once and kept; with real processes."""
    config = deployed_config(tmp_path, bars(), **SEEDS, **PRESETS["robust"])
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config)
        lie_about_labels(lab.files[BAD])
        path = lab.run_to_end(config)
        assert_only_one_is_named(path, BAD)
        assert [info["left_out"] for info in rounds_of(path)] == [[BAD]] * config.rounds
        assert reached(path) > honest_accuracy(config) - 0.1


def honest_accuracy(config: Config) -> float:
    (result,) = run(config.replace(computing_time="stated"))
    found: float = result.summary["scores"]["global"]
    return found
