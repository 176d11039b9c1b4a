"""Links that are cut, or answers that nobody can take: rounds without uploads are never success."""

import sys
import time
from pathlib import Path

import pytest
from flwr.app import Context, Message

from deploy.grid import InProcessGrid
from deploy.lab import (
    FAULTY,
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    run_in_process,
)
from deploy.memory_line import MemoryBroker, MemoryLine, run_in_memory
from mix2fld.base.errors import InputError, TransportLostError
from mix2fld.deploy import remote_fleet
from mix2fld.deploy.edge.messages import pack, unpack
from mix2fld.runs.fleet_status import run_status

sys.path.insert(0, str(FAULTY))
import faulty_app

NOBODY = r"no device answers \(asked: 0, 1, 2, 3\); the same command resumes the run"


class Cut(MemoryBroker):
    """Answers of these rounds are lost between devices and broker; presence is kept."""

    def __init__(self, rounds: range) -> None:
        super().__init__()
        self.rounds = rounds

    def deliveries(
        self, line: MemoryLine, topic: str, payload: bytes
    ) -> list[tuple[MemoryLine, str, bytes]]:
        if topic.startswith("u/") and unpack(payload).round in self.rounds:
            return []
        return super().deliveries(line, topic, payload)


class Cutting:
    """All nodes of a grid hang as soon as a run has so many rounds."""

    def __init__(self, path: Path, rounds: int) -> None:
        self.path, self.rounds = path, rounds

    def __contains__(self, device: int) -> bool:
        return len(rounds_of(self.path)) >= self.rounds


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange is steady at once: nobody who answers begins a new wait by that."""
    monkeypatch.setattr(remote_fleet, "RETRY_S", 0.05)
    monkeypatch.setattr(remote_fleet, "STEADY_S", 0.1)


@pytest.mark.parametrize("transport", ["mqtt", "flower"])
def test_rounds_that_nobody_answers_are_not_recorded(tmp_path: Path, transport: str) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=4)
    path = tmp_path / "runs" / config.run_name

    def prepare(grid: InProcessGrid) -> None:
        grid.hanging = Cutting(path, 2)

    def run_cut() -> Path:
        if transport == "mqtt":
            return run_in_memory(tmp_path, config, Cut(range(3, 9)), timeout_s=2)
        return run_in_process(tmp_path, config, prepare=prepare, timeout_s=4)

    with pytest.raises(TransportLostError, match=NOBODY):
        run_cut()
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]
    assert diary(path).count("round 3: no device answers (asked: 0, 1, 2, 3); the round waits") == 2
    if transport == "mqtt":
        run_in_memory(tmp_path, config)
    else:
        run_in_process(tmp_path, config)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4] * 4
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_links_that_come_back_in_time_lose_no_round(tmp_path: Path) -> None:
    class Shortly(Cut):
        def deliveries(
            self, line: MemoryLine, topic: str, payload: bytes
        ) -> list[tuple[MemoryLine, str, bytes]]:
            if "no device answers" in diary(path):
                self.rounds = range(0)
            return super().deliveries(line, topic, payload)

    config = deployed_config(tmp_path, protocol="fl", rounds=3)
    path = tmp_path / "runs" / config.run_name
    run_in_memory(tmp_path, config, Shortly(range(2, 3)), timeout_s=2)
    assert "round 2: devices can be reached again" in diary(path)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


class Damaging(MemoryBroker):
    """Uploads of these rounds lose their last byte on the way."""

    def __init__(self, rounds: range) -> None:
        super().__init__()
        self.rounds = rounds

    def send(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> None:
        if topic.startswith("u/") and unpack(payload).round in self.rounds:
            answer = unpack(payload)
            payload = pack(answer._replace(upload=answer.upload[:-1]))
        super().send(topic, payload, qos, retain)


def test_a_run_whose_uploads_are_all_refused_stops_and_says_why(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=9)
    path = tmp_path / "runs" / config.run_name
    why = r"round 4: no upload could be taken in 3 rounds in a row \(device 0: outputs: 63 bytes"
    with pytest.raises(InputError, match=why):
        run_in_memory(tmp_path, config, Damaging(range(2, 9)))
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 0, 0]
    status = run_status(path)
    assert status is not None
    assert status.trouble(time.time()) == "no upload for 2 rounds; diary.log says why"


@pytest.mark.parametrize("transport", ["mqtt", "flower"])
def test_a_run_that_ends_without_uploads_is_no_success(tmp_path: Path, transport: str) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=3)
    path = tmp_path / "runs" / config.run_name

    def client(message: Message, context: Context) -> Message:
        context.node_config["fault"] = "3:truncated"
        return faulty_app.client(message, context)

    def run_damaged() -> Path:
        if transport == "mqtt":
            return run_in_memory(tmp_path, config, Damaging(range(3, 9)))
        return run_in_process(tmp_path, config, client)

    for _ in range(2):  # nor is it one if it is finished already
        with pytest.raises(InputError, match="no upload arrived from round 3 to the end"):
            run_damaged()
    status = run_status(path)
    assert status is not None
    assert (status.finished, status.without_upload) == (True, 1)
    assert "no upload for 1 round" in status.trouble(time.time())


def test_nodes_whose_apps_all_fail_are_reached_and_stop_the_run(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=9)

    def client(message: Message, context: Context) -> Message:
        raise RuntimeError("out of coffee")

    why = r"round 3: no upload could be taken in 3 rounds in a row \(device 0: out of coffee"
    with pytest.raises(InputError, match=why):
        run_in_process(tmp_path, config, client)
    assert len(rounds_of(tmp_path / "runs" / config.run_name)) == 2
