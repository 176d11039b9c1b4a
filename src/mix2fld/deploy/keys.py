"""Certificates and keys: for Flower's SuperLink and SuperNodes, and for an MQTT broker."""

import datetime
import ipaddress
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mix2fld.base.errors import InputError
from mix2fld.base.files import remove, write_atomic

VALID_DAYS, ROOT_DAYS = 365, 3650
SOON = datetime.timedelta(days=30)
"""Before a certificate ends, its operator is warned."""
CLOCKS_DIFFER = datetime.timedelta(minutes=5)
ISSUED, REVOKED = "issued", "ca.crl"
"""Folder with every certificate that was issued, and the list of those that are revoked."""
PASSPHRASE = "MIX2FLD_CA_PASSPHRASE"
"""Variable with what ``ca.key`` is encrypted with; without it, it is not."""
SUPERLINK = "mix2fld SuperLink"
NAMES = {SUPERLINK: "server"}
"""Certificates whose files are called differently, devices apart."""
LOOPBACK = ("localhost", "127.0.0.1")
LONGEST_NAME = 253
_PART = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"(?!(.*\.)?\d+$)({_PART}\.)*{_PART}", re.IGNORECASE | re.ASCII)


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """``ca.crt`` and ``server.crt``, each with its key, for a SuperLink at ``hosts``."""
    names = _names(hosts)
    authority = Authority.new(folder, "mix2fld certificate authority", ec.SECP384R1())
    authority.issue("server", SUPERLINK, names)


def make_fleet_certificates(folder: Path, hosts: Sequence[str], devices: int) -> None:
    """``ca.crt``, and a certificate with its key for the broker, the server and every device.

    The name in a device's certificate is its number: the broker knows it by nothing else.
    """
    names = _names(hosts)
    authority = Authority.new(folder, "mix2fld", ec.SECP256R1())
    authority.issue("broker", "broker", names)
    authority.issue("server", "server")
    for device in range(devices):
        authority.issue(f"device-{device}", str(device))


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


class Authority:
    """Signs certificates and the list of those that are revoked; its own key is ``ca.key``.

    That key is needed to add, renew and revoke, and by nothing that runs.
    """

    def __init__(
        self, folder: Path, root: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self._folder, self._root, self._key = folder, root, key
        self._name, self._curve = root.subject, key.curve

    @classmethod
    def new(cls, folder: Path, name: str, curve: ec.EllipticCurve) -> Self:
        """A new one, with ``ca.crt``, ``ca.key`` and an empty ``ca.crl``."""
        folder.mkdir(parents=True, exist_ok=True)
        key, subject = ec.generate_private_key(curve), _name(name)
        constraints = x509.BasicConstraints(True, 0)
        root = _certificate(subject, key, subject, key.public_key(), constraints, ROOT_DAYS)
        (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
        _write_private(folder / "ca.key", key, serialization.PrivateFormat.PKCS8, _passphrase())
        made = cls(folder, root, key)
        made._write_list([])
        return made

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The one whose files are in a folder."""
        root = read_certificate(folder / "ca.crt")
        try:
            data = (folder / "ca.key").read_bytes()
            key = serialization.load_pem_private_key(data, _passphrase())
        except FileNotFoundError:
            raise InputError(
                field="keys", value=folder, hint="has no ca.key; put it beside ca.crt for this step"
            ) from None
        except (ValueError, TypeError) as error:
            hint = f"its ca.key cannot be read ({error}); {PASSPHRASE} must hold its passphrase"
            raise InputError(field="keys", value=folder, hint=hint) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != root.public_key():
            raise InputError(field="keys", value=folder, hint="its ca.key is not that of ca.crt")
        return cls(folder, root, key)

    def issue(self, file: str, name: str, hosts: x509.SubjectAlternativeName | None = None) -> None:
        """A key and its certificate; of a server with its hosts."""
        key = ec.generate_private_key(self._curve)
        made = _certificate(
            self._name, self._key, _name(name), key.public_key(),
            x509.BasicConstraints(ca=False, path_length=None), VALID_DAYS, hosts,
        )  # fmt: skip
        pem = made.public_bytes(serialization.Encoding.PEM)
        (self._folder / ISSUED).mkdir(exist_ok=True)
        write_atomic(self._folder / ISSUED / f"{made.serial_number:x}.crt", pem)
        _write_private(self._folder / f"{file}.key", key, serialization.PrivateFormat.PKCS8)
        write_atomic(self._folder / f"{file}.crt", pem)

    def renew(self, file: str) -> None:
        """A new key and certificate in place of these; the old ones are valid until they end."""
        old = read_certificate(self._folder / f"{file}.crt")
        try:
            hosts = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            hosts = None
        self.issue(file, _common(old), hosts)

    def valid(self, file: str, name: str) -> list[x509.Certificate]:
        """Certificates of a name that are neither revoked nor at their end, as far as is known."""
        now, known = datetime.datetime.now(datetime.UTC), self._revoked_numbers()
        found = [self._folder / f"{file}.crt", *sorted((self._folder / ISSUED).glob("*.crt"))]
        by_number = {
            one.serial_number: one for one in map(read_certificate, filter(Path.exists, found))
        }
        return [
            one
            for number, one in by_number.items()
            if _common(one) == name and number not in known and one.not_valid_after_utc > now
        ]

    def revoke(self, file: str, numbers: Collection[int]) -> int:
        """Put serial numbers on the list; files of the name go if theirs is on it.

        Returns how many are new; if none is, nothing is changed.
        """
        now = datetime.datetime.now(datetime.UTC)
        new = [
            x509.RevokedCertificateBuilder().serial_number(one).revocation_date(now).build()
            for one in sorted(set(numbers) - self._revoked_numbers())
        ]
        if not new:
            return 0
        self._write_list([*self.revoked(), *new])
        certificate = self._folder / f"{file}.crt"
        if certificate.exists() and read_certificate(certificate).serial_number in numbers:
            for ending in ("crt", "key"):
                remove(self._folder / f"{file}.{ending}")
        return len(new)

    def number_of(self, certificate: Path, name: str) -> int:
        """The serial number of a certificate; raises ``InputError`` unless it is this name's."""
        found = read_certificate(certificate)
        try:
            found.verify_directly_issued_by(self._root)
        except (ValueError, TypeError, InvalidSignature):
            raise InputError(
                field="certificate", value=certificate, hint="was not issued with this ca.key"
            ) from None
        if _common(found) != name:
            raise InputError(
                field="certificate", value=certificate, hint=f"is that of {label(found)}"
            )
        return found.serial_number

    def revoked(self) -> list[x509.RevokedCertificate]:
        """All that are on the list."""
        return list(read_list(self._folder / REVOKED))

    def _revoked_numbers(self) -> set[int]:
        return {one.serial_number for one in self.revoked()}

    def _write_list(self, revoked: Sequence[x509.RevokedCertificate]) -> None:
        builder = x509.CertificateRevocationListBuilder(
            issuer_name=self._name,
            last_update=datetime.datetime.now(datetime.UTC) - CLOCKS_DIFFER,
            next_update=self._root.not_valid_after_utc,
            revoked_certificates=list(revoked),
        )
        made = builder.sign(self._key, _digest(self._key))
        write_atomic(self._folder / REVOKED, made.public_bytes(serialization.Encoding.PEM))


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate; raises ``InputError`` if the file holds none."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a certificate"
        raise InputError(field="keys", value=path, hint=f"cannot be read ({why})") from None


def read_list(path: Path) -> x509.CertificateRevocationList:
    """The revoked ones; raises ``InputError`` if the file holds no list."""
    try:
        return x509.load_pem_x509_crl(path.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a revocation list"
        hint = f"cannot be read ({why}); put a copy of it back"
        raise InputError(field="keys", value=path, hint=hint) from None


def ends(folder: Path) -> dict[str, datetime.datetime]:
    """When the newest certificate of each name ends that is not revoked, by the name of its file.

    Where ``issued/`` is, all are known; on other machines those that are there.
    """
    listed = folder / REVOKED
    revoked = {one.serial_number for one in read_list(listed)} if listed.exists() else set()
    found = map(read_certificate, [*folder.glob("*.crt"), *(folder / ISSUED).glob("*.crt")])
    newest: dict[str, datetime.datetime] = {}
    for one in found:
        if one.serial_number not in revoked:
            name = label(one)
            newest[name] = max(one.not_valid_after_utc, newest.get(name, one.not_valid_after_utc))
    return dict(sorted(newest.items()))


def ending(folder: Path, within: datetime.timedelta) -> list[str]:
    """Certificates in a folder that end soon or have ended, in words."""
    now, found = datetime.datetime.now(datetime.UTC), []
    for name, end in ends(folder).items():
        if end - now <= within:
            found.append(f"{name}.crt {'has ended' if end <= now else 'ends'} on {end:%Y-%m-%d}")
    return found


def label(certificate: x509.Certificate) -> str:
    """The name of the file that a certificate was first written to."""
    if certificate.subject == certificate.issuer:
        return "ca"
    name = _common(certificate)
    return f"device-{name}" if name.isdecimal() else NAMES.get(name, name)


def _certificate(
    issuer: x509.Name, signer: ec.EllipticCurvePrivateKey, subject: x509.Name,
    key: ec.EllipticCurvePublicKey, constraints: x509.BasicConstraints, days: int,
    extension: x509.ExtensionType | None = None,
) -> x509.Certificate:  # fmt: skip
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder(issuer, subject, key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(constraints, critical=True)
    )
    for more in (
        x509.SubjectKeyIdentifier.from_public_key(key),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        *([extension] if extension else []),
    ):
        builder = builder.add_extension(more, critical=False)
    return builder.sign(signer, _digest(signer))


def _digest(key: ec.EllipticCurvePrivateKey) -> hashes.SHA256 | hashes.SHA384:
    return hashes.SHA384() if key.key_size > 256 else hashes.SHA256()


def _passphrase() -> bytes | None:
    return os.environ.get(PASSPHRASE, "").encode() or None


def _write_private(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat,
    passphrase: bytes | None = None,
) -> None:
    secret = serialization.BestAvailableEncryption(passphrase) if passphrase else None
    encryption = secret or serialization.NoEncryption()
    data = key.private_bytes(serialization.Encoding.PEM, form, encryption)
    write_atomic(path, data, private=True)


def _common(certificate: x509.Certificate) -> str:
    (found,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    """How a server is called, and loopback, where a proxy and its own programs reach it."""
    return x509.SubjectAlternativeName(
        [_general_name(host) for host in dict.fromkeys([*hosts, *LOOPBACK])]
    )


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
