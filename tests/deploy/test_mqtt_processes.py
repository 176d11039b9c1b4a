"""The MQTT fleet with a real broker and real processes: numbers, strangers, and kills."""

import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import serve_one
from deploy.lab import assert_same_as_engine, deployed_grid, diary, rounds_of, wait_until
from deploy.mqtt_lab import (
    Client,
    Serving,
    fleet_of,
    needs_mosquitto,
    serve,
    toy_run,
)
from deploy.relay import Relay
from mix2fld.deploy.keys import make_fleet_certificates
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import end_group

pytestmark = needs_mosquitto


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttFleet]:
    """A broker with four devices, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("fleet")
    with fleet_of(
        folder, deployed_grid(folder, kernel="native", protocols=("fl", "mix2fld"))
    ) as made:
        made.start_devices()
        yield made


@pytest.mark.parametrize("name", ["mix2fld", "murmur"])
def test_a_run_over_a_broker_has_the_numbers_of_the_engine(
    fleet: MqttFleet, tmp_path: Path, name: str
) -> None:
    path = serve(fleet, toy_run(fleet.folder, protocol=name))
    assert_same_as_engine(path, fleet.folder, tmp_path / "engine")


def test_a_stranger_is_refused(fleet: MqttFleet, tmp_path: Path) -> None:
    """Without a key, with a key of another authority, and without encryption."""
    with pytest.raises((ssl.SSLError, OSError)):
        _connect(fleet, None)
    make_fleet_certificates(tmp_path, ["127.0.0.1"], 2)
    theirs = {"certfile": str(tmp_path / "device-1.crt"), "keyfile": str(tmp_path / "device-1.key")}
    with pytest.raises((ssl.SSLError, OSError)):
        _connect(fleet, None, **theirs)
    with pytest.raises((ssl.SSLError, OSError)):
        _connect(fleet, None, encrypted=False)


def _connect(fleet: MqttFleet, key: str | None, **tls: object) -> None:
    client = Client(fleet, key, **tls)
    try:
        reason = client.wait("connect", 2.0)
        if reason is None or reason.is_failure:
            raise OSError("refused")
    finally:
        client.close()


def test_a_device_cannot_act_for_another(fleet: MqttFleet) -> None:
    """It hears nothing of device 1, is told so when it publishes, and keeps its own name."""
    other = Client(fleet, "server", name="server")
    assert not other.wait("connect").is_failure
    rogue = Client(fleet, "device-3", name="1")
    assert not rogue.wait("connect").is_failure
    for topic in ("u/1", "p/1", "o/1", "g", "s"):
        rogue.client.publish(topic, b"forged", qos=1)
        assert rogue.wait("sent").getName() == "Not authorized"
    for topic in ("#", "o/1", "u/+", "u/3"):
        rogue.client.subscribe(topic, qos=1)
    other.client.publish("o/1", b"\x00secret", qos=1)
    other.client.publish("o/3", b"\x00for you", qos=1)
    heard = rogue.wait("message")
    assert heard is not None
    while heard is not None:
        assert heard.topic in {"o/3", "g", "s"}
        heard = rogue.wait("message", 0.5)
    rogue.close()
    other.close()


def test_bombs_and_floods_do_not_stop_a_run(fleet: MqttFleet) -> None:
    """Device 3 is taken over by someone with its key: the uploads of the others are taken."""
    config = toy_run(fleet.folder, protocol="fd", rounds=2)
    fleet.stop("device-3")
    bomber = Client(fleet, "device-3")
    assert not bomber.wait("connect").is_failure
    bomber.client.publish("p/3", b"1", qos=1, retain=True)
    serving = Serving(fleet, config, timeout_s=8)
    for _ in range(3000):
        bomber.client.publish("u/3", bytes(500), qos=0)
    bomber.client.publish("u/3", bytes(1 << 22), qos=1)
    path = serving.join()
    bomber.close()
    fleet.start_device(3)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [3, 3]
    assert fleet.alive("broker")


@pytest.mark.long
def test_of_two_devices_with_one_key_one_ends_and_says_why(fleet: MqttFleet) -> None:
    fleet.start_device(2, name="twin")
    words = "another client connects under this name"
    wait_until(lambda: words in fleet.log("twin") + fleet.log("device-2"), "end of one of them")
    fleet.stop("device-2", "twin")
    fleet.start_device(2)


@pytest.mark.long
@pytest.mark.usefixtures("all_take_part")
@pytest.mark.parametrize("victim", ["device", "broker"])
@pytest.mark.parametrize("moment", ["ordered", "answered", "downloaded"])
def test_nothing_is_lost_by_a_kill(tmp_path: Path, victim: str, moment: str) -> None:
    """Killed with -9 at some point of round 2, and started again: no upload is lost."""
    config = toy_run(tmp_path, protocol="topk", rounds=4, local_steps=2000)
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        serving = Serving(fleet, config, timeout_s=60)
        state = tmp_path / "device-1" / "state"
        marks = {
            "ordered": lambda: len(rounds_of(serving.path)) == 1,
            "answered": lambda: bool(list(state.rglob("2.state"))),
            "downloaded": lambda: bool(list(state.rglob("2.download"))),
        }
        wait_until(marks[moment], moment)
        name = "broker" if victim == "broker" else "device-1"
        fleet.kill(name)
        if victim == "broker":
            fleet.start_broker()
        else:
            fleet.start_device(1)
        path = serving.join()
    assert [info["uploads"]["devices"] for info in rounds_of(path)] == [[0, 1, 2, 3]] * 4
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.long
@pytest.mark.parametrize("broken", [False, True], ids=["silent", "broken"])
def test_a_link_that_was_down_loses_nothing(tmp_path: Path, broken: bool) -> None:
    """Down for 8 s of round 2; then what waited goes through, or the connection is gone."""
    config = toy_run(tmp_path, protocol="topk", rounds=3, local_steps=2000)
    with fleet_of(tmp_path, config) as fleet, Relay(fleet.port) as relay:
        for device in (0, 2, 3):
            fleet.start_device(device)
        fleet.start_device(1, port=relay.port)
        serving = Serving(fleet, config, timeout_s=60)
        wait_until(lambda: len(rounds_of(serving.path)) == 1, "round 1")
        relay.go_down()
        time.sleep(8)
        assert len(rounds_of(serving.path)) == 1  # it waits
        relay.come_back(broken)
        path = serving.join()
    uploads = [info["uploads"]["devices"] for info in rounds_of(path)]
    assert uploads == [[0, 1, 2, 3]] * 3
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.long
def test_a_server_that_is_killed_resumes(tmp_path: Path) -> None:
    """The whole command is killed with -9 in round 2; the same command finishes the run."""
    config = toy_run(tmp_path, protocol="topk", rounds=3, local_steps=2000)
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        path = fleet.folder / "runs" / config.run_name
        told = [str(fleet.folder), str(fleet.port), config.model_dump_json()]
        process = fleet.popen([sys.executable, serve_one.__file__, *told], subprocess.DEVNULL)
        wait_until(lambda: "round 1 is done" in diary(path), "round 1")
        end_group(process)
        serve(fleet, config)
    assert "1 of 3 rounds are done" in diary(path)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
