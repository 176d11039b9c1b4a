"""Keys over a life: one is added, renewed or revoked, and the others do not notice."""

import datetime
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from deploy.lab import deployed_config
from deploy.mqtt_lab import fleet_of, needs_mosquitto
from mix2fld.cli import main
from mix2fld.deploy import keys
from mix2fld.deploy.keys import (
    PASSPHRASE,
    SOON,
    ending,
    make_certificates,
    make_fleet_certificates,
    read_certificate,
)
from mix2fld_lab.trials.check import CONNACK, MQTT_CONNECT, check_broker
from mix2fld_lab.trials.mqtt import MqttFleet, find_mosquitto
from mix2fld_lab.trials.processes import HOST


def change(action: str, name: str, folder: Path) -> None:
    main(["deploy", "key", action, name, "--keys", str(folder)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "keys"
    make_fleet_certificates(made, [HOST], 2)
    return made


@needs_mosquitto
def test_a_broker_refuses_a_revoked_key_and_no_other(tmp_path: Path) -> None:
    with fleet_of(tmp_path, deployed_config(tmp_path, protocol="fd")) as fleet:
        stolen = {name: (fleet.keys / name).read_bytes() for name in KEY_OF_1}
        assert let_in(fleet, "device-1")
        change("add", "device-7", fleet.keys)
        change("renew", "device-2", fleet.keys)
        change("revoke", "device-1", fleet.keys)
        for name, data in stolen.items():
            (fleet.keys / name).write_bytes(data)
        fleet.stop("broker")
        fleet.start_broker()
        assert not let_in(fleet, "device-1")
        assert all(let_in(fleet, name) for name in ("device-0", "device-2", "device-7", "server"))
        for name in KEY_OF_1:
            (fleet.keys / name).unlink()
        change("add", "device-1", fleet.keys)
        assert let_in(fleet, "device-1")


KEY_OF_1 = ("device-1.crt", "device-1.key")


def let_in(fleet: MqttFleet, name: str) -> bool:
    """In TLS 1.3 a client is refused after its handshake."""
    context = ssl.create_default_context(cafile=str(fleet.keys / "ca.crt"))
    context.load_cert_chain(fleet.keys / f"{name}.crt", fleet.keys / f"{name}.key")
    try:
        with (
            socket.create_connection((HOST, fleet.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as secure,
        ):
            secure.sendall(MQTT_CONNECT)
            answer = secure.recv(4)
    except (ssl.SSLError, ConnectionError):
        return False
    return answer[:1] == bytes([CONNACK]) and answer[3] == 0


@pytest.mark.parametrize("name", ["broker", "server"])
def test_a_renewed_server_keeps_its_names(folder: Path, tmp_path: Path, name: str) -> None:
    """Over MQTT devices know the broker, over Flower the server."""
    if name == "server":
        folder = tmp_path / "flower"
        make_certificates(folder, [HOST])
    old = read_certificate(folder / f"{name}.crt")
    change("renew", name, folder)
    new = read_certificate(folder / f"{name}.crt")
    names = x509.SubjectAlternativeName
    assert new.serial_number != old.serial_number
    of_old = old.extensions.get_extension_for_class(names)
    assert new.extensions.get_extension_for_class(names) == of_old
    assert (folder / f"{name}.key").stat().st_mode & 0o777 == 0o600


def test_all_that_a_name_was_given_are_revoked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [read_certificate(folder / "device-1.crt").serial_number]
    change("renew", "device-1", folder)
    before.append(read_certificate(folder / "device-1.crt").serial_number)
    change("revoke", "device-1", folder)
    assert "2 certificates of device-1 revoked" in capsys.readouterr().out
    listed = x509.load_pem_x509_crl((folder / "ca.crl").read_bytes())
    assert sorted(one.serial_number for one in listed) == sorted(before)
    assert listed.next_update_utc > datetime.datetime.now(datetime.UTC) + 9 * SOON


def test_an_encrypted_authority_needs_its_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    make_fleet_certificates(tmp_path / "keys", [HOST], 1)
    assert b"ENCRYPTED" in (tmp_path / "keys" / "ca.key").read_bytes()
    assert b"ENCRYPTED" not in (tmp_path / "keys" / "device-0.key").read_bytes()
    change("add", "device-1", tmp_path / "keys")
    for wrong in ("", "other"):
        monkeypatch.setenv(PASSPHRASE, wrong)
        with pytest.raises(SystemExit, match="2"):
            change("add", "device-2", tmp_path / "keys")
        assert f"{PASSPHRASE} must hold its passphrase" in capsys.readouterr().err
    assert not (tmp_path / "keys" / "device-2.crt").exists()


@pytest.mark.parametrize(
    ("action", "name", "words"),
    [
        ("add", "device-1", "already exists; renew or revoke it"),
        ("renew", "device-5", "is not there"),
        ("revoke", "server", "must be device-0 and so on"),
        ("add", "../device-1", "must be device-0 and so on"),
        ("add", "device-01", "must be device-0 and so on"),
    ],
)
def test_bad_names_are_one_line_and_change_nothing(
    folder: Path, action: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(SystemExit, match="2"):
        change(action, name, folder)
    assert words in capsys.readouterr().err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("lost", ["ca.key", "broker.crt"])
def test_a_folder_that_lacks_something_says_so(
    folder: Path, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / lost).unlink()
    with pytest.raises(SystemExit, match="2"):
        change("add", "device-2", folder)
    assert f"has no {lost}" in capsys.readouterr().err


@pytest.fixture
def old_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(keys, "VALID_DAYS", 29)
    make_fleet_certificates(tmp_path / "old", [HOST], 1)
    return tmp_path / "old"


def test_certificates_that_end_within_a_month_are_named(folder: Path, old_keys: Path) -> None:
    assert ending(folder, SOON) == []
    named = [line.partition(" ")[0] for line in ending(old_keys, SOON)]
    assert named == ["broker.crt", "device-0.crt", "server.crt"]


@needs_mosquitto
def test_the_check_speaks_mqtt(
    tmp_path: Path, old_keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closed broker is closed, and one that asks nobody for a key is open to everybody."""
    with fleet_of(tmp_path, deployed_config(tmp_path, protocol="fd")) as fleet:
        address = f"{HOST}:{fleet.port}"
        check = ["deploy", "check", address, "--transport", "mqtt"]
        found = check_broker(address, fleet.keys / "ca.crt")
        assert [(one.tried, one.closed) for one in found[1:]] == [
            ("connection without a key", True),
            ("connection with a key of others", True),
        ]
        with pytest.raises(SystemExit, match="2"):
            main([*check, "--keys", str(old_keys)])
        said = capsys.readouterr().out
        assert "OPEN  certificates in keys: broker.crt ends on" in said
        fleet.stop("broker")
        config = fleet.keys / "mosquitto.conf"
        text = config.read_text().replace("require_certificate true", "require_certificate false")
        text = text.replace("use_identity_as_username true", "use_identity_as_username false")
        text = text.replace("use_username_as_clientid true", "")
        config.write_text(text.replace("allow_anonymous false", "allow_anonymous true"))
        fleet.start("broker", [find_mosquitto(), "-c", str(config)])
        fleet.wait_for_port("broker", HOST, fleet.port)
        assert not check_broker(address)[1].closed
