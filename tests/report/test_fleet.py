"""Deployed runs on the page: one table of devices for each."""

from pathlib import Path

import pytest

from deploy.lab import deployed_config
from deploy.memory_line import run_in_memory
from deploy.test_silent_device import Silent
from mix2fld.report.live import Feed
from mix2fld.report.page_data import page_data
from mix2fld.runs.reader import require_runs
from mix2fld.runs.simulation import run


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    config = deployed_config(folder, protocol="fd", rounds=3)
    return run_in_memory(folder, config, Silent(range(2, 4)), timeout_s=1)


def test_the_page_has_the_devices_of_deployed_runs_alone(deployed: Path, tmp_path: Path) -> None:
    (fleet,) = page_data(require_runs([deployed]))["fleets"]
    assert (fleet["name"], fleet["rounds"], fleet["of"]) == ("fd-s0", 3, 3)
    assert [one["taken"] for one in fleet["devices"]] == [3, 3, 1, 3]
    assert [one["silent"] for one in fleet["devices"]] == [0, 0, 2, 0]
    run(deployed_config(tmp_path, protocol="fd", rounds=1), out=tmp_path / "simulated")
    assert page_data(require_runs([tmp_path / "simulated"]))["fleets"] == []


def test_a_live_page_follows_events(deployed: Path) -> None:
    feed = Feed(deployed.parent)
    before = feed.text()
    with (deployed / "events.jsonl").open("a") as file:
        file.write('{"time": 2000000000, "event": "upload", "device": 2, "round": 3}\n')
    after = feed.text()
    assert b"2000000000" in after
    assert b"2000000000" not in before
