"""What ``mix2fld deploy keys --transport mqtt`` writes is what Mosquitto and systemd take."""

import getpass
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.lab import wait_until
from deploy.mqtt_lab import needs_mosquitto
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.edge.line import Line
from mix2fld.deploy.edge.mqtt_line import MqttLine
from mix2fld_lab.trials.mqtt import find_mosquitto
from mix2fld_lab.trials.processes import HOST, free_port

CREDENTIALS = "/run/credentials/mix2fld-broker.service"


class Heard:
    """Counts connections."""

    count = 0

    def connected(self, line: Line, resumed: bool) -> None:
        self.count += 1

    def lost(self, line: Line) -> None:
        """It does not mind."""

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Nothing is said to it."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "keys"
    words = ["--transport", "mqtt", "--devices", "2", "--protocols", "fd", "--out", str(folder)]
    main(["deploy", "keys", HOST, *words])
    return folder


def test_units_are_ones_that_systemd_takes(keys: Path, tmp_path: Path) -> None:
    units = {
        part: keys / f"mix2fld-{part}.service" for part in ("broker", "front", "server", "device@")
    }
    for unit in units.values():
        assert "DynamicUser=yes" in unit.read_text()
        assert re.search(r"^MemoryMax=\d\d%$", unit.read_text(), re.MULTILINE)
        assert "LimitNOFILE=65536" in unit.read_text()
    server = units["server"].read_text()
    assert "Restart=on-failure" in server
    assert server.index("StartLimitBurst=300") < server.index("[Service]")  # where it is read
    assert f"--broker {HOST}:8883" in units["device@"].read_text()
    assert "--listen 8883 \\\n  --broker 127.0.0.1:8884 --places 1002" in units["front"].read_text()
    for name in ("broker.key", "access.acl"):  # which only root can read
        assert (keys / name).stat().st_mode & 0o077 == 0
        assert f"LoadCredential={name}:/etc/mix2fld/{name}" in units["broker"].read_text()
        assert f"{CREDENTIALS}/{name}" in (keys / "mix2fld-broker.conf").read_text()
    if shutil.which("systemd-analyze"):
        one_device = tmp_path / "mix2fld-device@1.service"  # a template cannot be verified
        shutil.copy(units.pop("device@"), one_device)
        command = ["systemd-analyze", "verify", *units.values(), one_device]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
        faults = [line for line in said.splitlines() if "is not executable" not in line]
        assert faults == []


@needs_mosquitto
@pytest.mark.parametrize("config", ["mosquitto.conf", "mix2fld-broker.conf"])
def test_a_broker_starts_with_them(keys: Path, tmp_path: Path, config: str) -> None:
    """The first as it stands but for the port; the second with the unit's folders put here."""
    port, text = free_port(), (keys / config).read_text()
    for there, here in (
        (CREDENTIALS, keys),
        ("/var/lib/mix2fld-broker", tmp_path),
        ("/etc/mix2fld", keys),
        ("listener 8884 127.0.0.1", f"listener {port} {HOST}"),
    ):
        text = text.replace(there, str(here))
    own = "" if "\nuser " in text else f"user {getpass.getuser()}\n"
    (tmp_path / config).write_text(own + text)
    broker = subprocess.Popen([find_mosquitto(), "-c", str(tmp_path / config)])
    heard = Heard()
    line = MqttLine("server", broker_address(f"{HOST}:{port}", keys, "server"), heard)
    line.start()
    try:
        wait_until(lambda: line.run(0.1) and heard.count == 1, "a connection")
    finally:
        line.stop()
        broker.terminate()
        broker.wait()


@pytest.mark.parametrize(
    ("broker", "found"),
    [("b.org", ("b.org", 8883)), ("b.org:1883", ("b.org", 1883)), ("[::1]:99", ("::1", 99))],
)
def test_addresses_of_brokers(keys: Path, broker: str, found: tuple[str, int]) -> None:
    assert broker_address(broker, keys, "server")[:2] == found


@pytest.mark.parametrize("broker", ["", ":8883", "b.org:0", "b.org:99999", "::1", "mqtts://b.org"])
def test_bad_addresses_of_brokers(keys: Path, broker: str) -> None:
    with pytest.raises(InputError, match="must be host:port"):
        broker_address(broker, keys, "server")
