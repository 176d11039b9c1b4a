"""What a device and a server say to whoever starts them wrongly, with a real broker."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.lab import deployed_config
from deploy.mqtt_lab import fleet_of, needs_mosquitto
from mix2fld.base.errors import InputError
from mix2fld.deploy import mqtt_server
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.keys import make_fleet_certificates
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST, free_port

pytestmark = needs_mosquitto
PATIENCE = 30.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with fleet_of(folder, deployed_config(folder, protocol="fd")) as made:
        make_fleet_certificates(folder / "others", [HOST], 1)
        yield made


def keys_of(fleet: MqttFleet, folder: Path, authority: Path, owner: str, key: str) -> Path:
    """A folder of keys for device 0 that somebody filled with these."""
    folder.mkdir()
    (folder / "ca.crt").write_bytes((authority / "ca.crt").read_bytes())
    for name, source in ((f"{owner}.crt", "device-0.crt"), (f"{key}.key", "device-0.key")):
        (folder / source).write_bytes((fleet.keys / name).read_bytes())
    return folder


def said_by_device(fleet: MqttFleet, keys: Path, broker: str, enough: str) -> str:
    """What the program says, until it says this or ends."""
    file = fleet.files[0]
    command = [sys.executable, "-m", "mix2fld.deploy.edge", "--device", "0", "--broker", broker]
    command += ["--keys", str(keys), "--data", str(file), "--state", str(file.parent / "state")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said, deadline = "", time.monotonic() + PATIENCE
    while enough not in said and time.monotonic() < deadline:
        line = process.stderr.readline()
        said += line
        if not line:
            break
    process.terminate()
    process.wait()
    process.stderr.close()
    return said


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        (lambda fleet: f"{HOST}:{free_port()}", "cannot connect to broker.*: Connection refused"),
        (lambda fleet: f"0.0.0.0:{fleet.port}", "not accepted here .*not valid for '0.0.0.0'"),
        (lambda fleet: "nowhere.invalid", "cannot connect to broker nowhere.invalid:8883"),
        (lambda fleet: f"{HOST}:{fleet.port}", f"connected to broker {HOST}"),
    ],
)
def test_a_device_says_whether_it_reaches_the_broker(
    fleet: MqttFleet, broker: Callable[[MqttFleet], str], words: str
) -> None:
    said = said_by_device(fleet, fleet.keys, broker(fleet), "\n")
    assert re.search(words, said), said


def test_keys_of_others_are_told_apart(fleet: MqttFleet, tmp_path: Path) -> None:
    here, others = f"{HOST}:{fleet.port}", fleet.folder / "others"
    wrong_authority = keys_of(fleet, tmp_path / "a", others, "device-0", "device-0")
    said = said_by_device(fleet, wrong_authority, here, "\n")
    assert "its certificate is not accepted here" in said
    mixed = keys_of(fleet, tmp_path / "b", fleet.keys, "device-0", "device-1")
    assert "cannot be used (key values mismatch)" in said_by_device(fleet, mixed, here, "used")
    of_device_1 = keys_of(fleet, tmp_path / "c", fleet.keys, "device-1", "device-1")
    said = said_by_device(fleet, of_device_1, here, "refuses")
    assert "refuses what this client publishes: the key belongs to another client" in said
    (tmp_path / "d").mkdir()
    for name in ("device-0.crt", "device-0.key"):
        (tmp_path / "d" / name).write_bytes((others / name).read_bytes())
    (tmp_path / "d" / "ca.crt").write_bytes((fleet.keys / "ca.crt").read_bytes())
    said = said_by_device(fleet, tmp_path / "d", here, "\n")
    assert "it does not accept the certificate of this end (unknown ca)" in said


def test_a_server_without_a_broker_says_so(
    fleet: MqttFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt_server, "CONNECT_S", 1.0)
    port = free_port()
    address = broker_address(f"{HOST}:{port}", fleet.keys, "server")
    config = deployed_config(tmp_path, protocol="fd")
    settings = Settings(config, tmp_path / "runs", timeout_s=5, wait_s=5)
    with pytest.raises(InputError, match=f"cannot connect to broker {HOST}:{port}: Connection ref"):
        serve_mqtt(settings, address)
