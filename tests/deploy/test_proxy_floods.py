"""What one address can take from others at the proxy of a deployment, with a real nginx."""

import http.client
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mix2fld.deploy.keys import make_certificates
from mix2fld.deploy.proxy import Proxy
from mix2fld_lab.trials.processes import free_port

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx here: apt-get install nginx-light")
FLOOD = 400
STRANGER, NODE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The proxy of a small fleet; there is no SuperLink behind it, which it says with a 502."""
    make_certificates(tmp_path, [STRANGER])
    port = free_port()
    proxy = Proxy(
        tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt",
        largest_body=1 << 20, devices=4, listen=f"{STRANGER}:{port}", superlink_port=free_port(),
        folder=tmp_path,
    )  # fmt: skip
    (tmp_path / "nginx.conf").write_text(proxy.nginx_config())
    command = [NGINX, "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while status_for_node(port) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        yield port
        process.terminate()


def status_for_node(port: int) -> int | None:
    """What a node at an address of its own is answered; None if it is not."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(
        STRANGER, port, timeout=5, source_address=(NODE, 0), context=context
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
    context = ssl._create_unverified_context()
    head = b"POST /v1/fleet/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n"
    assert status_for_node(port) == 502
    with ExitStack() as flood:
        for _ in range(FLOOD):
            one = flood.enter_context(socket.create_connection((STRANGER, port), timeout=10))
            if speaks:
                try:
                    one = flood.enter_context(context.wrap_socket(one))
                    one.sendall(head + b"X: y\r\n")
                except OSError:  # hung up on
                    continue
        assert status_for_node(port) == 502
