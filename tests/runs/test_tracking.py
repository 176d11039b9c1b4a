"""Every tracker gets the same metrics of the same rounds, under the same names."""

import struct
import time
from pathlib import Path

import pytest
from reliability.faults import Quiet

from mix2fld.base.errors import InputError
from mix2fld.cli.progress import Watchers
from mix2fld.runs.reader import read_run
from mix2fld.runs.simulation import run
from mix2fld.runs.summary import metrics_of
from mix2fld.runs.trackers import tracked
from toys import toy_config, toy_dataset

CONFIG = toy_config(protocol="mix2fld", rounds=3)


def play_tracked(tracker: str, out: Path) -> list[dict[str, float]]:
    """Play with a tracker, after a first round without one; gives what it should have got."""
    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, out, dataset=toy_dataset(), watcher=Quiet(1))
    with tracked(tracker, out) as watcher:  # type: ignore[arg-type]
        run(CONFIG, out, dataset=toy_dataset(), watcher=watcher)
    there = read_run(out / CONFIG.run_name)
    assert there is not None
    assert len(there.rounds) == 3
    return metrics_of(there.rounds)


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    rows = play_tracked("tensorboard", tmp_path)
    (file,) = (tmp_path / "tensorboard" / CONFIG.run_name).iterdir()
    data, place = file.read_bytes(), 0
    found: dict[tuple[str, int], float] = {}
    while place < len(data):
        (size,) = struct.unpack("<Q", data[place : place + 8])
        event = Event.FromString(data[place + 12 : place + 12 + size])
        place += 16 + size
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found[value.tag, event.step] = value.simple_value
    wanted = {(name, step): row[name] for step, row in enumerate(rows, start=1) for name in row}
    assert found == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore")  # MLflow and SQLAlchemy warn of each other
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    rows = play_tracked("mlflow", tmp_path)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mix2fld")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.run_name == CONFIG.run_name
    assert kept.info.status == "FINISHED"
    assert kept.data.params["local_steps"] == "30"
    assert kept.data.metrics == pytest.approx(rows[-1])
    history = client.get_metric_history(kept.info.run_id, "accuracy/mean")
    assert [(entry.step, entry.value) for entry in history] == [
        (step, pytest.approx(row["accuracy/mean"])) for step, row in enumerate(rows, start=1)
    ]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_does_not_call_an_interrupted_run_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def play_and_stop() -> None:
        with tracked("mlflow", tmp_path) as tracker:
            assert tracker is not None
            watchers = Watchers([tracker, Quiet(1)])
            run(CONFIG, tmp_path, dataset=toy_dataset(), watcher=watchers)

    with pytest.raises(KeyboardInterrupt):
        play_and_stop()
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mix2fld")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.status == "KILLED"


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    rows = play_tracked("wandb", tmp_path)
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    wanted = [name.encode() for name in rows[-1]]
    wanted += [str(row["accuracy/mean"]).encode() for row in rows]
    deadline = time.monotonic() + 120  # its own process writes the file
    while not all(words in file.read_bytes() for words in wanted) and time.monotonic() < deadline:
        time.sleep(0.2)
    kept = file.read_bytes()
    assert [words for words in wanted if words not in kept] == []


def test_a_tracker_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mix2fld.runs.trackers.find_spec", lambda _: None)
    with (
        pytest.raises(InputError, match=r"track = 'wandb'.*mix2fld\[wandb\]"),
        tracked("wandb", tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())
