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
    authority = _Authority("mix2fld certificate authority", ec.SECP384R1())
    authority.issue(folder, "server", "mix2fld SuperLink", hosts)


def make_fleet_certificates(folder: Path, hosts: Sequence[str], devices: int) -> None:
    """``ca.crt``, and a certificate with its key for the broker, the server and every device.

    The name in a device's certificate is its number: the broker knows it by nothing else. The key
    of the authority is not kept.
    """
    authority = _Authority("mix2fld", ec.SECP256R1())
    authority.issue(folder, "broker", "broker", hosts)
    authority.issue(folder, "server", "server")
    for device in range(devices):
        authority.issue(folder, f"device-{device}", str(device))


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


class _Authority:
    """Signs certificates, as long as it lives in memory."""

    def __init__(self, name: str, curve: ec.EllipticCurve) -> None:
        self._curve, self._key, self._name = curve, ec.generate_private_key(curve), _name(name)
        self._root = self._certificate(self._name, self._key, x509.BasicConstraints(True, 0))

    def issue(self, folder: Path, file: str, name: str, hosts: Sequence[str] = ()) -> None:
        """A key and its certificate, beside that of the authority; ``hosts`` if it is a server."""
        key = ec.generate_private_key(self._curve)
        extensions: list[x509.ExtensionType] = []
        if hosts:  # localhost: by which a proxy reaches it
            known = [_general_name(host) for host in dict.fromkeys([*hosts, "localhost"])]
            extensions.append(x509.SubjectAlternativeName(known))
        leaf = x509.BasicConstraints(ca=False, path_length=None)
        made = self._certificate(_name(name), key, leaf, extensions)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(self._root)
        (folder / f"{file}.crt").write_bytes(made)
        _write_private(folder / f"{file}.key", key, serialization.PrivateFormat.PKCS8)

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey,
        constraints: x509.BasicConstraints, extensions: Sequence[x509.ExtensionType] = (),
    ) -> bytes:  # fmt: skip
        now, signer = datetime.datetime.now(datetime.UTC), self._key.public_key()
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
            .add_extension(constraints, critical=True)
        )
        for extension in (
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer),
            *extensions,
        ):
            builder = builder.add_extension(extension, critical=False)
        digest = hashes.SHA384() if self._key.key_size > 256 else hashes.SHA256()
        return builder.sign(self._key, digest).public_bytes(serialization.Encoding.PEM)


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
