"""Keys over a life: one is added, renewed or revoked, and the others do not notice."""

import datetime
import os
import shutil
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from deploy.lab import deployed_config
from deploy.mqtt_lab import fleet_of, needs_mosquitto
from mix2fld.base import files
from mix2fld.cli import main
from mix2fld.deploy import keys
from mix2fld.deploy.keys import (
    PASSPHRASE,
    SOON,
    ending,
    ends,
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


def test_programs_of_the_superlink_reach_it_on_loopback(tmp_path: Path) -> None:
    """As an operator makes the keys: with the addresses of nodes alone."""
    make_certificates(tmp_path / "keys", ["link.example.org", "192.168.1.10"])
    names = read_certificate(tmp_path / "keys" / "server.crt").extensions
    found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["link.example.org", "localhost"]
    addresses = found.get_values_for_type(x509.IPAddress)
    assert [str(address) for address in addresses] == ["192.168.1.10", "127.0.0.1"]


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


def files_of(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def revoked_numbers(folder: Path) -> set[int]:
    listed = x509.load_pem_x509_crl((folder / "ca.crl").read_bytes())
    return {one.serial_number for one in listed}


def test_without_the_issued_nothing_is_called_revoked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "issued")
    before = files_of(folder)
    for action, name in (("revoke", "device-1"), ("add", "device-2")):
        with pytest.raises(SystemExit, match="2"):
            change(action, name, folder)
        assert "has no issued/" in capsys.readouterr().err
    assert files_of(folder) == before


@pytest.mark.parametrize("by", ["--serial", "--certificate"])
def test_one_certificate_is_revoked_without_the_issued(folder: Path, by: str) -> None:
    shutil.rmtree(folder / "issued")
    number = read_certificate(folder / "device-1.crt").serial_number
    shown = f"{number:x}" if by == "--serial" else str(folder / "device-1.crt")
    main(["deploy", "key", "revoke", "device-1", "--keys", str(folder), by, shown])
    assert revoked_numbers(folder) == {number}
    assert not (folder / "device-1.crt").exists()
    assert (folder / "device-0.crt").exists()


def test_only_certificates_of_the_name_and_the_authority_are_revoked(
    folder: Path, old_keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(folder)
    revoke = ["deploy", "key", "revoke", "device-1", "--keys", str(folder)]
    for file, words in (
        (folder / "device-0.crt", "is that of device-0"),
        (old_keys / "device-0.crt", "was not issued with this ca.key"),
        (folder / "ca.key", "cannot be read (not a certificate)"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main([*revoke, "--certificate", str(file)])
        assert words in capsys.readouterr().err
    assert files_of(folder) == before


def test_a_certificate_that_was_moved_to_its_machine_is_revoked_and_is_no_free_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = read_certificate(folder / "device-1.crt").serial_number
    for name in KEY_OF_1:
        (folder / name).unlink()
    with pytest.raises(SystemExit, match="2"):
        change("add", "device-1", folder)
    assert "already exists; renew or revoke it" in capsys.readouterr().err
    change("revoke", "device-1", folder)
    assert revoked_numbers(folder) == {number}
    with pytest.raises(SystemExit, match="2"):
        change("revoke", "device-1", folder)
    assert "has no certificate that could be revoked" in capsys.readouterr().err
    change("add", "device-1", folder)
    assert (folder / "device-1.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "data", [b"", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", None]
)
def test_a_damaged_list_is_named(
    folder: Path, data: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is None:
        (folder / "ca.crl").unlink()
    else:
        (folder / "ca.crl").write_bytes(data)
    before = files_of(folder)
    with pytest.raises(SystemExit, match="2"):
        change("revoke", "device-1", folder)
    assert "ca.crl: cannot be read" in capsys.readouterr().err
    assert files_of(folder) == before


def test_a_key_is_never_half_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor readable by others while it is written, whatever an earlier attempt left."""
    before = (folder / "device-1.key").read_bytes()
    (folder / "device-1.key.part").write_bytes(b"left")
    (folder / "device-1.key.part").chmod(0o644)
    modes = []

    def full(file: int, data: bytes) -> int:
        modes.append(os.fstat(file).st_mode & 0o777)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomic(folder / "device-1.key", b"new", private=True)
    assert modes == [0o600]
    assert (folder / "device-1.key").read_bytes() == before
    assert not (folder / "device-1.key.part").exists()


def test_the_newest_valid_certificate_of_a_name_says_when_it_ends(
    old_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "VALID_DAYS", 365)
    change("renew", "device-0", old_keys)
    (old_keys / "device-0.crt").unlink()  # it is on its machine
    assert [line.partition(" ")[0] for line in ending(old_keys, SOON)] == [
        "broker.crt",
        "server.crt",
    ]
    change("revoke", "device-0", old_keys)
    assert "device-0" not in ends(old_keys)
    assert list(ends(old_keys)) == ["broker", "ca", "server"]
