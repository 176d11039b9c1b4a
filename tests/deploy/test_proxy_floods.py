"""What one address can take from others at the proxy of a deployment, with a real nginx."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.lab import wait_until
from mix2fld.deploy.keys import make_certificates
from mix2fld.deploy.proxy import FEWEST_CONNECTIONS, REQUESTS, Proxy
from mix2fld_lab.trials.processes import free_port

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx here: apt-get install nginx-light")
FLOOD = 400
BODY, MANY = "client_body_timeout 60s", f"rate={4 * REQUESTS}r/s"
AT_ONCE = 2 * REQUESTS
PAUSE_S, RATE = 8, 10
"""In their places: seconds between two parts of a request, and requests a second."""
STRANGER, NODE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def port(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """The proxy of a small fleet; there is no SuperLink behind it, which it says with a 502."""
    make_certificates(tmp_path, [STRANGER])
    port = free_port()
    proxy = Proxy(
        tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt",
        largest_body=1 << 20, devices=4, listen=f"{STRANGER}:{port}", superlink_port=free_port(),
        folder=tmp_path,
    )  # fmt: skip
    config = proxy.nginx_config()
    usual, here = getattr(request, "param", (BODY, f"client_body_timeout {PAUSE_S}s"))
    assert usual in config
    config = config.replace(usual, here)
    (tmp_path / "nginx.conf").write_text(config)
    command = [NGINX, "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        subprocess.Popen(command, stderr=stderr) as process,
    ):
        deadline = time.monotonic() + 30
        while status_for_node(port) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        yield port
        process.terminate()


def status_for_node(port: int, address: str = NODE) -> int | None:
    """What a node at an address of its own is answered; None if it is not."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(
        STRANGER, port, timeout=5, source_address=(address, 0), context=context
    )
    try:
        connection.request("POST", "/v1/fleet/pull-messages", b"")
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


@pytest.mark.parametrize("speaks", [False, True], ids=["idle", "slow posts"])
def test_connections_of_one_address_do_not_lock_out_another(port: int, speaks: bool) -> None:
    """Of those who post, 64 are heard, and closed when they pause; all others are refused."""
    assert status_for_node(port) == 502
    with ExitStack() as flood:
        made = []
        for _ in range(FLOOD):
            one = socket.create_connection((STRANGER, port), timeout=10)
            made.append(flood.enter_context(begun_post(one) if speaks else one))
        assert status_for_node(port) == 502
        if speaks:
            said = [answer(one) for one in made]
            closed, refused = said.count(b""), said.count(b"HTTP/1.1 503")
            assert closed + refused == FLOOD
            assert closed >= FEWEST_CONNECTIONS  # where connecting takes long, others take places
            assert refused


def begun_post(connection: socket.socket) -> ssl.SSLSocket:
    """All that comes before the body of a large request, and six bytes of that."""
    made = ssl._create_unverified_context().wrap_socket(connection)
    head = b"POST /v1/fleet/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n"
    made.sendall(head + b"\r\nbegins")
    return made


def answer(connection: ssl.SSLSocket) -> bytes:
    """The status that it is answered, or nothing if it is closed."""
    try:
        return connection.recv(12)
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize("port", [(MANY, f"rate={RATE}r/s")], indirect=True)
def test_requests_of_one_address_wait_for_their_turn(port: int) -> None:
    """Here ten a second in place of 200; those of another address do not wait for them.

    So many go through at once, as those of a node that takes an order do.
    """
    request = b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    context, started = ssl._create_unverified_context(), time.monotonic()
    with (
        socket.create_connection((STRANGER, port), timeout=30) as one,
        context.wrap_socket(one) as secure,
    ):
        secure.sendall((AT_ONCE + 30) * request)
        said = b""
        while said.count(b"HTTP/1.1 502") < AT_ONCE + 15:
            said += secure.recv(1 << 16)
        assert status_for_node(port) == 502
        while said.count(b"HTTP/1.1 502") < AT_ONCE + 30:
            said += secure.recv(1 << 16)
    assert time.monotonic() - started > 28 / RATE


@pytest.mark.parametrize(
    "path", ["/", "/v1/control/start-run", "/v1/fleet/../control", "/a\x1b[2J", '/"}']
)
def test_who_is_refused_leaves_a_trace(port: int, tmp_path: Path, path: str) -> None:
    """A request that nginx itself cannot read, too; whatever it says, it is one line of JSON."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection((STRANGER, port), timeout=10) as one,
        context.wrap_socket(one) as secure,
    ):
        secure.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
        status = int(secure.recv(12)[-3:])
    assert status in (400, 403)
    wait_until(lambda: f'"refused": {status}' in (tmp_path / "stderr").read_text(), "a trace", 10)
    lines = (tmp_path / "stderr").read_text().splitlines()
    (found,) = [one for one in map(json.loads, filter(is_json, lines)) if one["refused"] == status]
    assert found["address"] == STRANGER
    assert found["request"].startswith("POST ")


def is_json(line: str) -> bool:
    return line.startswith("{")
