"""Settings that the user states win over those that contenders were measured with."""

import json
from pathlib import Path
from typing import Any

import pytest

from mix2fld.advice.measured import MeasuredSetting, load_measured
from mix2fld.advice.pilot import OURS, candidates
from mix2fld.advice.ranking import Case, best_by_protocol, rank
from mix2fld.advice.stated import as_stated
from mix2fld.cli import main
from mix2fld.config.settings import Config
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.types import SampleFormat
from stored_runs import save_toy_dataset

MEASURED = load_measured()
TOY = ["--devices", "3", "--samples-per-device", "30", "--partition", "iid", "--model", "mlp"]
SHORT = ["--rounds", "1", "--local-steps", "20", "--server-steps", "5", "--seed", "3", "4"]


def changes_of(setting: MeasuredSetting, protocol: str) -> list[dict[str, Any]]:
    return [point.changes for point in setting.points if point.protocol == protocol]


def test_a_rate_that_is_stated_is_that_of_every_round() -> None:
    measured = as_stated(
        MEASURED["mnist-non-iid"], Config.of(learning_rate=0.05), ["learning_rate"]
    )
    for point in measured.points:
        assert not {"learning_rate", "final_learning_rate"} & point.changes.keys()
        assert point.devices


def test_other_uploads_than_those_measured_have_no_gain() -> None:
    config = Config.of(update_bits=200)
    measured = as_stated(MEASURED["mnist-non-iid"], config, ["update_bits"])
    known = {
        point.contender for point in measured.points if "murmur" in point.protocol and point.devices
    }
    assert {"murmur-200", "murmur-200-edges"} <= known
    assert not {"murmur-500", "murmur-50", "murmur-4000"} & known
    assert measured.seeds == MEASURED["mnist-non-iid"].seeds


def test_murmurs_logit_adjustment_follows_the_labels_held() -> None:
    """Decision 35 is the rule of those that recommend it; others keep what was searched."""
    for setting in MEASURED.values():
        measured = as_stated(setting, Config(), ())
        murmur = changes_of(measured, "murmur")
        assert murmur
        assert all("logit_adjustment" not in changes for changes in murmur)
    assert (
        "logit_adjustment"
        in changes_of(as_stated(MEASURED["mnist-non-iid"], Config(), ()), "fl8")[0]
    )


def test_bits_spelled_with_a_name_are_settings() -> None:
    measured = as_stated(MEASURED["cifar10-features-non-iid"], Config(), ())
    assert {one["update_bits"] for one in changes_of(measured, "murmur")} >= {50, 200, 500}


def test_every_second_round_of_one_is_the_first() -> None:
    measured = as_stated(MEASURED["mnist-non-iid"], Config.of(rounds=1), ())
    assert {one.get("upload_every", 1) for one in changes_of(measured, "murmur")} == {1}


@pytest.mark.parametrize("key", [key for key, one in MEASURED.items() if one.ideal_link])
def test_murmur_is_in_every_pilot(key: str) -> None:
    config = Config.of(link="ideal")
    images = SampleFormat((28, 28, 1), "uint8")
    case = Case(sizes_for(Classification(10), config, images, ((12_544,),)), "labels", 0.2)
    everybody = rank(case, as_stated(MEASURED[key], config, ()))
    found = [
        one.point.protocol for one in candidates(best_by_protocol(everybody), everybody, False)
    ]
    assert found.count(OURS) == 1


def pilot(tmp_path: Path, capsys: pytest.CaptureFixture[str], *given: str) -> dict[str, Any]:
    data = str(save_toy_dataset(tmp_path / "toy.npz"))
    main(["advise", "--dataset", data, *TOY, *SHORT, "--pilot", "--json", *given])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_a_pilot_trains_at_the_rate_that_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = pilot(tmp_path, capsys, "--protocols", "murmur", "fl8", "--learning-rate", "0.05")
    for run in told["pilot"]:
        assert run["training"]["learning_rate"] == 0.05
        assert run["training"]["final_learning_rate"] == 0.05
    (murmur,) = {
        run["training"]["scarce_adjustment"] for run in told["pilot"] if run["protocol"] == "murmur"
    }
    assert murmur == 1.0


def test_a_pilot_on_features_that_were_measured_with_fewer_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of features has local steps of its own, and a pilot has fewer."""
    features = MEASURED["cifar10-features-non-iid"]
    monkeypatch.setattr("mix2fld.advice.ranking.nearest", lambda case, measured: [features])
    told = pilot(tmp_path, capsys, "--protocols", "murmur", "fd")
    assert {run["protocol"] for run in told["pilot"]} >= {"murmur", "fd"}
