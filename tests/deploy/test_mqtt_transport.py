"""A broker that is away is no round, and a device that floods it takes nobody's place."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deploy.lab import assert_same_as_engine, deployed_config, diary, rounds_of, wait_until
from deploy.memory_line import MemoryBroker, MemoryLine, run_in_memory
from deploy.mqtt_lab import Client, Serving, fleet_of, needs_mosquitto, toy_run
from mix2fld.base.errors import TransportLostError
from mix2fld.config.settings import Config
from mix2fld.deploy import inbox, remote_fleet
from mix2fld.deploy.edge.line import Listener
from mix2fld.deploy.inbox import MOST_AT_ONCE, MOST_QUEUED, Allowances, Inbox
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.loop import Watcher
from mix2fld_lab.trials.processes import HOST


class Breaking(MemoryBroker):
    """The server loses it when device 2 is asked for the second time; it comes back, or does not.

    What is sent meanwhile goes nowhere.
    """

    def __init__(self, comes_back: bool) -> None:
        super().__init__()
        self.comes_back, self.asked, self.away = comes_back, 0, False

    def send(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> None:
        self.asked += topic == "o/2" and payload[:1] == b"O"
        if self.asked == 2 and not self.away:
            self.away = True
            server = self.clients["server"]
            server.listener.lost(server)
            if self.comes_back:
                threading.Timer(0.5, self._come_back, [server]).start()
        if not self.away:
            super().send(topic, payload, qos, retain)

    def _come_back(self, server: MemoryLine) -> None:
        self.asked, self.away = 3, False
        for device in range(4):
            self.retained[f"p/{device}"] = b"1"
        server.topics.clear()
        server.listener.connected(server, True)


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_broker_that_is_away_is_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    monkeypatch.setattr(remote_fleet, "RETRY_S", 0.05)
    config = deployed_config(tmp_path, protocol="fd", rounds=3)
    path, broker = tmp_path / "runs" / config.run_name, Breaking(comes_back)
    if comes_back:
        run_in_memory(tmp_path, config, broker, timeout_s=5)
        assert "round 2: devices can be reached again" in diary(path)
    else:
        with pytest.raises(TransportLostError, match=r"lost.* the same command resumes the run"):
            run_in_memory(tmp_path, config, broker, timeout_s=1)
        assert len(rounds_of(path)) == 1
        run_in_memory(tmp_path, config)
    assert "round 2: the connection to the broker is lost; the round waits" in diary(path)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_what_waits_is_bounded_for_each_device() -> None:
    events = Inbox()
    for _ in range(10 * MOST_QUEUED):
        events.put(("answer", 3, b"x"))
    events.put(("answer", 1, b"y"))
    events.put(("lost", -1, b""))
    heard = [events.get(0) for _ in range(MOST_QUEUED + 2)]
    assert heard[-2:] == [("answer", 1, b"y"), ("lost", -1, b"")]
    assert events.get(0) is None
    events.put(("answer", 3, b"x"))
    assert events.get(0) == ("answer", 3, b"x")


def test_a_device_whose_link_keeps_breaking_does_not_flood() -> None:
    now = 0.0
    allowances = Allowances(lambda: now)
    assert not any(allowances.flooded_by(1) for _ in range(MOST_AT_ONCE))
    assert allowances.flooded_by(1)
    assert not allowances.flooded_by(2)
    for _ in range(10_000):
        now += 1 / inbox.MOST_PER_S
        assert not allowances.flooded_by(2)


def test_a_flooding_device_is_refused_and_costs_the_others_nothing(tmp_path: Path) -> None:
    """What it sends is not even delivered to the server any more."""

    class Flooded(MemoryBroker):
        def send(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> None:
            if topic == "u/3" and payload[:1] == b"T" and len(self.sent) < 10_000:
                for _ in range(1000):
                    super().send(topic, payload[:-1])
            super().send(topic, payload, qos, retain)

        def deliveries(
            self, line: MemoryLine, topic: str, payload: bytes
        ) -> list[tuple[MemoryLine, str, bytes]]:
            heard.append(topic)
            return super().deliveries(line, topic, payload)

    heard: list[str] = []
    config = deployed_config(tmp_path, protocol="fd", rounds=3)
    broker = Flooded()
    path = run_in_memory(tmp_path, config, broker, timeout_s=10)
    assert [info["uploads"]["devices"] for info in rounds_of(path)][1:] == [[0, 1, 2]] * 2
    assert diary(path).count("device 3 floods: more than 100 messages at once") == 1
    heard.clear()
    broker.send("u/3", b"more")
    broker.send("p/3", b"1")
    assert heard == []

    class Without(MemoryBroker):
        def connect(self, name: str, listener: Listener) -> MemoryLine | None:
            return None if name == "3" else super().connect(name, listener)

    (tmp_path / "without").mkdir()
    other = run_in_memory(tmp_path / "without", config, Without())
    assert [i["scores"]["global"] for i in rounds_of(path)] == [
        i["scores"]["global"] for i in rounds_of(other)
    ]
    assert "did not answer" not in diary(path)


@needs_mosquitto
@pytest.mark.long
@pytest.mark.usefixtures("all_take_part")
def test_a_broker_that_comes_back_loses_no_upload(tmp_path: Path) -> None:
    """Killed with -9 in round 2, and away for longer than a device takes."""
    config = toy_run(tmp_path, protocol="topk", rounds=4, local_steps=60_000)
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        serving = Serving(fleet, config, timeout_s=40)
        wait_until(lambda: len(rounds_of(serving.path)) == 1, "round 1")
        fleet.kill("broker")
        time.sleep(9)
        assert len(rounds_of(serving.path)) <= 2
        fleet.start_broker()
        path = serving.join()
    assert "the connection to the broker is lost; the round waits" in diary(path)
    assert [info["uploads"]["devices"] for info in rounds_of(path)] == [[0, 1, 2, 3]] * 4
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@needs_mosquitto
@pytest.mark.long
def test_a_broker_that_stays_away_ends_the_command_and_the_next_one_resumes(
    tmp_path: Path,
) -> None:
    """Its clock is an hour behind when it is started again."""
    config = toy_run(tmp_path, protocol="fd", rounds=4, local_steps=2000)
    file = tmp_path / "run.toml"
    file.write_text(dump_config(config))
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        command = [sys.executable, "-P", "-c", CLI, "deploy", "server", f"{HOST}:{fleet.port}"]
        command += ["--keys", str(fleet.keys), "--config", str(file), "--timeout-s", "8"]
        command += ["--out", str(tmp_path / "runs")]
        path = tmp_path / "runs" / config.run_name
        first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        wait_until(lambda: "round 1 is done" in diary(path), "round 1")
        fleet.kill("broker")
        _, said = first.communicate(timeout=60)
        assert first.returncode == 2
        assert "the connection to the broker is lost, and the same command resumes" in said
        assert all(info["uploads"]["delivered"] for info in rounds_of(path))
        assert len(rounds_of(path)) < 4
        fleet.start_broker()
        behind = {**os.environ, "BEHIND_S": "3600"}
        again = subprocess.run(command, cwd=tmp_path, env=behind, check=False, timeout=120)
        assert again.returncode == 0
    assert len(rounds_of(path)) == 4
    assert all(info["uploads"]["delivered"] for info in rounds_of(path))
    assert rounds_of(path)[-1]["uploads"]["devices"] == [0, 1, 2, 3]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


CLI = """
import os, time
now, behind = time.time, float(os.environ.get("BEHIND_S", 0))
time.time = lambda: now() - behind
from mix2fld.cli import main
main()
"""


@needs_mosquitto
def test_a_server_whose_clock_is_set_back_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedError(Exception):
        pass

    class Stopping(Watcher):
        def round_done(self, config: Config, info: RoundInfo) -> None:
            raise StoppedError

    config = toy_run(tmp_path, protocol="fd", rounds=2)
    settings = Settings(config, tmp_path / "runs", timeout_s=10, wait_s=30)
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        with pytest.raises(StoppedError):
            serve_mqtt(settings, fleet.address(), Stopping())
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() - 3600)
        serve_mqtt(settings, fleet.address())
    path = tmp_path / "runs" / config.run_name
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]


@needs_mosquitto
def test_idle_connections_lock_no_device_out(tmp_path: Path) -> None:
    config = toy_run(tmp_path, protocol="fd", rounds=1)
    with fleet_of(tmp_path, config) as fleet:
        idle = [socket.create_connection((HOST, fleet.port)) for _ in range(200)]
        began = time.monotonic()
        device = Client(fleet, "device-3")
        reason = device.wait("connect")
        assert reason is not None
        assert not reason.is_failure
        assert time.monotonic() - began < 5
        device.close()
        for one in idle:
            one.close()


@needs_mosquitto
def test_a_flood_over_a_broker_costs_no_upload(tmp_path: Path) -> None:
    config = toy_run(tmp_path, protocol="fd", rounds=3)
    with fleet_of(tmp_path, config) as fleet:
        for device in range(3):
            fleet.start_device(device)
        bomber = Client(fleet, "device-3")
        assert not bomber.wait("connect").is_failure
        bomber.client.publish("p/3", b"1", qos=1, retain=True)
        serving = Serving(fleet, config, timeout_s=20)
        for number in range(20_000):
            bomber.client.publish("u/3", bytes(500) + number.to_bytes(4), qos=number % 2)
        path = serving.join()
        bomber.close()
    uploads = [info["uploads"]["devices"] for info in rounds_of(path)]
    assert uploads == [[0, 1, 2]] * 3
    assert "device 3 floods" in diary(path)
