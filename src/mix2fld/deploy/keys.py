"""Certificates and keys: for Flower's SuperLink and SuperNodes, and for an MQTT broker."""

import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mix2fld.base.errors import InputError

VALID_DAYS = 365
LONGEST_NAME = 253
_PART = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"(?!(.*\.)?\d+$)({_PART}\.)*{_PART}", re.IGNORECASE | re.ASCII)


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """``ca.crt``, and ``server.crt`` with ``server.key`` for a SuperLink at ``hosts``.

    The key of the authority itself is not kept: whoever wants another certificate makes new ones.
    """
    names = dict.fromkeys([*hosts, "localhost"])  # by which the proxy reaches it
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in names])
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    name = _name("mix2fld certificate authority")
    root = _certificate(name, name, authority, authority, x509.BasicConstraints(True, 0), None)
    leaf = _certificate(
        _name("mix2fld SuperLink"),
        name,
        server,
        authority,
        x509.BasicConstraints(ca=False, path_length=None),
        alternatives,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.crt").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    _write_private(folder / "server.key", server, serialization.PrivateFormat.PKCS8)


def make_fleet_certificates(folder: Path, hosts: Sequence[str], devices: int) -> None:
    """``ca.crt``, and a certificate with its key for the broker, the server and every device.

    The name in a device's certificate is its number: the broker knows it by nothing else. The key
    of the authority is not kept.
    """
    names = dict.fromkeys([*hosts, "localhost"])
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in names])
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer, leaf = _name("mix2fld"), x509.BasicConstraints(ca=False, path_length=None)
    root = _certificate(issuer, issuer, authority, authority, x509.BasicConstraints(True, 0), None)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    clients = {"server": "server", **{f"device-{n}": str(n) for n in range(devices)}}
    for file, common in {"broker": "broker", **clients}.items():
        key = ec.generate_private_key(ec.SECP256R1())
        hosts_of = alternatives if file == "broker" else None
        made = _certificate(_name(common), issuer, key, authority, leaf, hosts_of)
        (folder / f"{file}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        _write_private(folder / f"{file}.key", key, serialization.PrivateFormat.PKCS8)


def make_device_key(folder: Path, name: str) -> Path:
    """``<name>.key`` for a SuperNode and ``<name>.pub`` to register; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    private = ec.generate_private_key(ec.SECP384R1())
    _write_private(folder / f"{name}.key", private, serialization.PrivateFormat.OpenSSH)
    public = folder / f"{name}.pub"
    public.write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    return public


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    constraints: x509.BasicConstraints,
    alternatives: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signer, hashes.SHA384() if signer.key_size > 256 else hashes.SHA256())


def _write_private(
    path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat
) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if len(host) > LONGEST_NAME or not HOST_NAME.fullmatch(host):
            raise InputError(
                field="hosts",
                value=f"{host[:80]!r}",
                hint="must be an IP address or a name such as link.example.org, "
                "in ASCII and without a port",
            ) from None
        return x509.DNSName(host)
