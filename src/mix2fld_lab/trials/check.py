"""What a stranger could do at the address of a deployment: asked from outside, without a key."""

import datetime
import http.client
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from mix2fld.base.errors import InputError
from mix2fld.deploy.keys import SOON, Authority, ending

SECONDS = 10.0
PATIENCE = 3.0
"""Seconds within which a body that is too large is refused."""
REFUSED = (403, 404)
MQTT_CONNECT = bytes((0x10, 16, 0, 4, *b"MQTT", 5, 2, 0, 60, 0, 0, 3, *b"any"))
"""A clean session of the client "any", which stays for a minute."""
CONNACK = 0x20
LARGE = 1 << 40
"""Bytes that are announced, and never sent."""
CONTROL = ("/v1/control/list-runs", "/v1/control/list-nodes", "/v1/control/list-federations")
RUNTIME = ("/v1/runtime/get-nodes", "/v1/runtime/pull-messages", "/v1/runtime/pull-task-input")
OTHERS = ("/", "/docs", "/openapi.json", "/api/v1/control/list-runs", "/v1/")
TRICKS = (
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/..;/control/list-runs",
    "/v1/fleet/%2e%2e%2fcontrol%2flist-runs",
    "//v1/control/list-runs",
    "/v1//control/list-runs",
    "/./v1/control/list-runs",
    "/v1/control/list-runs?/v1/fleet/pull-messages",
    "/v1/control/list-runs#/v1/fleet/pull-messages",
    "/v1/control/%6cist-runs",
    "/v1/control/../fleet/pull-messages",
    "https://localhost/v1/control/list-runs",
)
FLEET = "/v1/fleet/pull-messages"


@dataclass(frozen=True)
class Finding:
    """One thing that was tried."""

    tried: str
    found: str
    closed: bool


def check_address(address: str, authority: Path | None = None) -> list[Finding]:
    """Everything that is tried; ``authority`` is the certificate that nodes trust.

    Nothing is changed there: no task is taken, no node and no run is made.
    """
    host, port = _parsed(address)
    door = _Door(host, port, authority)
    if not door.speaks_tls():
        return [Finding("TLS", "not used: traffic can be read and changed in transit", False)]
    return [
        door.certificate(),
        door.refused("control API", CONTROL, (*REFUSED, 401)),
        door.refused("runtime API", RUNTIME, REFUSED),
        door.refused("other pages", OTHERS, REFUSED),
        door.refused("paths in disguise", TRICKS, (*REFUSED, 400)),
        door.fleet(),
        door.large_body(),
    ]


def check_broker(address: str, authority: Path | None = None) -> list[Finding]:
    """The same for the broker of an MQTT fleet: who has no key, or a key of others, is refused."""
    host, port = _parsed(address)
    door = _Door(host, port, authority)
    if not door.speaks_tls():
        return [Finding("TLS", "not used: traffic can be read and changed in transit", False)]
    with TemporaryDirectory() as folder:
        made = Authority.new(Path(folder), "others", ec.SECP256R1())
        made.issue("server", "server")
        files = (Path(folder) / "server.crt", Path(folder) / "server.key")
        return [
            door.certificate(),
            door.refused_by_broker("connection without a key", None),
            door.refused_by_broker("connection with a key of others", files),
        ]


def check_keys(folder: Path) -> list[Finding]:
    """Whether certificates in a folder of keys end soon."""
    named = ending(folder, SOON)
    words = (
        f"{', '.join(named)}: renew with mix2fld deploy key renew" if named else "none ends soon"
    )
    return [Finding("certificates in keys", words, not named)]


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(
            field="address",
            value=f"{address!r}",
            hint="must be host:port, such as link.example.org:8443",
        )
    return host.strip("[]"), int(port)


class _Door:
    def __init__(self, host: str, port: int, authority: Path | None) -> None:
        self._host, self._port, self._authority = host, port, authority
        self._anyone = ssl.create_default_context()
        self._anyone.check_hostname = False
        self._anyone.verify_mode = ssl.CERT_NONE

    def speaks_tls(self) -> bool:
        try:
            with self._plain() as plain, self._anyone.wrap_socket(plain):
                return True
        except (ssl.SSLEOFError, ConnectionError):
            raise self._unreached("the connection is closed before TLS begins") from None
        except ssl.SSLError:
            return False
        except TimeoutError:
            raise self._unreached(f"no answer within {SECONDS:g} s") from None

    def certificate(self) -> Finding:
        """Whether nodes that trust the authority accept it, and how long."""
        with self._plain() as plain, self._anyone.wrap_socket(plain) as secure:
            shown = secure.getpeercert(binary_form=True) or b""
        ends = x509.load_der_x509_certificate(shown).not_valid_after_utc
        left = ends - datetime.datetime.now(datetime.UTC)
        words = f"valid until {ends:%Y-%m-%d}"
        if left <= SOON:
            words += f": renew it, less than {SOON.days} days are left"
        if self._authority is None:
            return Finding("certificate", f"{words}; its issuer was not checked", left > SOON)
        trusting = _trusting(self._authority)
        try:
            name = self._host
            with self._plain() as plain, trusting.wrap_socket(plain, server_hostname=name):
                pass
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason
            return Finding("certificate", f"refused: {reason}", closed=False)
        return Finding("certificate", f"signed by {self._authority.name}, {words}", left > SOON)

    def refused(self, tried: str, paths: tuple[str, ...], as_closed: tuple[int, ...]) -> Finding:
        """Whether all of these paths are refused."""
        for path in paths:
            status = self._post(path)
            if status is not None and status not in as_closed:
                return Finding(tried, f"open: {path} answers with status {status}", closed=False)
        return Finding(tried, f"refused, {len(paths)} paths tried", closed=True)

    def fleet(self) -> Finding:
        """Nodes must reach it, and prove who they are."""
        status = self._post(FLEET)
        if status is None or status in REFUSED:
            return Finding("fleet API", f"not reached by nodes (status {status})", closed=False)
        if status >= 500:
            words = f"not reached by nodes: no SuperLink behind the proxy (status {status})"
            return Finding("fleet API", words, closed=False)
        if status < 400:
            return Finding("fleet API", "open: no key is asked for", closed=False)
        return Finding("fleet API", f"reached; without a key refused (status {status})", True)

    def refused_by_broker(self, tried: str, key: tuple[Path, Path] | None) -> Finding:
        """Whether a client that proves itself so is refused; in TLS 1.3, after the handshake."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if key is not None:
            context.load_cert_chain(*key)
        try:
            with self._plain() as plain, context.wrap_socket(plain) as secure:
                secure.sendall(MQTT_CONNECT)
                answer = secure.recv(4)
        except OSError:
            return Finding(tried, "refused", closed=True)
        taken = len(answer) == 4 and answer[0] == CONNACK and answer[3] == 0
        return Finding(tried, "open: it is connected" if taken else "refused", not taken)

    def large_body(self) -> Finding:
        """Whether a body of any size would be received."""
        headers = {"Content-Length": str(LARGE)}
        status = self._ask(FLEET, headers, PATIENCE)
        if status == 413:
            return Finding("size of a request", "limited", closed=True)
        return Finding(
            "size of a request", "open: a request of 1 TB would be accepted", closed=False
        )

    def _post(self, path: str) -> int | None:
        return self._ask(path, {"Content-Length": "0"}, SECONDS)

    def _ask(self, path: str, headers: dict[str, str], patience: float) -> int | None:
        """The status of the answer, the path as it stands; None if there is no answer."""
        try:
            with self._plain(patience) as plain, self._anyone.wrap_socket(plain) as secure:
                lines = [f"POST {path} HTTP/1.1", f"Host: {self._host}", "Connection: close"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                lines += ["Content-Type: application/protobuf", "", ""]
                secure.sendall("\r\n".join(lines).encode())
                answer = http.client.HTTPResponse(secure, method="POST")
                answer.begin()
                return answer.status
        except (OSError, http.client.HTTPException):
            return None

    def _plain(self, patience: float | None = None) -> socket.socket:
        try:
            return socket.create_connection((self._host, self._port), timeout=patience or SECONDS)
        except OSError as error:
            raise self._unreached(error.strerror or str(error)) from None

    def _unreached(self, reason: str) -> InputError:
        return InputError(
            field="address",
            value=f"{self._host}:{self._port}",
            hint=f"cannot be reached ({reason})",
        )


def _trusting(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            field="root_certificates", value=authority, hint=f"cannot be read ({error})"
        ) from None
