"""The front of a broker, with real processes: what proves nothing takes nobody's place."""

import asyncio
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from deploy.lab import rounds_of, wait_until
from deploy.mqtt_lab import Client, fleet_of, needs_mosquitto, serve, toy_run
from mix2fld.deploy import front
from mix2fld.deploy.front import RETRY, WaitingConnections, network
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST, free_port

MANY = 1200
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

OTHER = "127.0.0.2"
"""An address of this machine that the others do not use."""
NO_GROUP = b"\x0a\x0a"


def hello(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """What a TLS client says first; nobody needs a key for it."""
    context = ssl.create_default_context()
    context.maximum_version = version
    made = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), made, server_hostname=HOST).do_handshake()
    return made.read()


STRANGERS = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, 2 * (resource.getrlimit(resource.RLIMIT_NOFILE)[1],))
host, port, many, *words = sys.argv[1:]
held = []
for each in words:
    for _ in range(int(many)):
        held.append(socket.create_connection((host, int(port)), timeout=10))
        held[-1].sendall(bytes.fromhex(each))
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def strangers(port: int, *words: bytes) -> Iterator[None]:
    """A process that says each of these on many connections, and keeps them all open."""
    command = [sys.executable, "-c", STRANGERS, HOST, str(port), str(MANY)]
    process = subprocess.Popen(
        [*command, *(each.hex() for each in words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"connected\n"
        try:
            yield
        finally:
            process.kill()


@needs_mosquitto
@pytest.mark.skipif(FILES < 4 * MANY, reason=f"no more than {FILES} open files are allowed here")
def test_thousands_of_idle_connections_lock_no_device_out(tmp_path: Path) -> None:
    """All from the address of the device: half of them silent, half with the first byte of TLS."""
    config = toy_run(tmp_path, protocol="fd", rounds=1)
    with fleet_of(tmp_path, config, front=True) as fleet, strangers(fleet.port, b"", b"\x16"):
        began = time.monotonic()
        device = Client(fleet, "device-3")
        assert connected(device)
        assert time.monotonic() - began < 10
        device.close()
        fleet.start_devices()
        path = serve(fleet, config, timeout_s=30)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4]


def connected(client: Client) -> bool:
    reason = client.wait("connect")
    return reason is not None and not reason.is_failure


@contextmanager
def front_of(fleet: MqttFleet, places: int) -> Iterator[None]:
    """A front in a thread of this process; the fleet's port is its port as long as it lasts."""
    broker, fleet.port = fleet.port, free_port()
    loop = asyncio.new_event_loop()
    task = loop.create_task(front.serve((HOST, fleet.port), (HOST, broker), places))

    def run() -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop().run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: fleet.answers(HOST, fleet.port), "listening")
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        fleet.port = broker


def stalling(fleet: MqttFleet, words: bytes) -> socket.socket:
    """A connection that says this and waits for more; the broker has answered if it was a hello."""
    made = socket.create_connection((HOST, fleet.port), timeout=10)
    made.sendall(words)
    if len(words) >= 5 + int.from_bytes(words[3:5]):
        assert made.recv(1, socket.MSG_PEEK) == b"\x16"
    return made


def closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        while one.recv(4096):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except (ConnectionResetError, ssl.SSLError):
        pass
    return True


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with fleet_of(folder, toy_run(folder, protocol="fd")) as made:
        yield made


STALLS = {
    "silent": b"",
    "one byte": b"\x16",
    "half a hello": hello()[:200],
    "a hello": hello(),
    "a hello and half a record": hello() + b"\x17\x03\x03\x01\x00more",
    "a hello of TLS 1.2": hello(ssl.TLSVersion.TLSv1_2),
}


@needs_mosquitto
def test_who_proves_no_key_is_closed_within_seconds_and_a_device_is_not(
    fleet: MqttFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PATIENCE_S", 1.0)
    with front_of(fleet, 10):
        device = Client(fleet, "device-3")
        assert connected(device)
        made = {name: stalling(fleet, words) for name, words in STALLS.items()}
        deadline = time.monotonic() + 3
        for name, one in made.items():
            wait_until(lambda one=one: closed(one), name, deadline - time.monotonic())
            one.close()
        assert device.wait("gone", 0.2) is None
        device.close()


@needs_mosquitto
def test_a_stranger_who_is_asked_for_another_hello_has_proved_nothing(
    fleet: MqttFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers twice: it wants another group for the key, and has got one."""
    monkeypatch.setattr(front, "PATIENCE_S", 1.0)
    whole = hello().replace(b"\0\x18\1\0", b"\0\x18" + NO_GROUP)  # in its list of groups
    with front_of(fleet, 10), stalling(fleet, b"") as stranger:
        stranger.sendall(whole.replace(b"\0\x1d\0\x20", NO_GROUP + b"\0\x20"))
        assert stranger.recv(1 << 16)[11:43] == RETRY
        stranger.sendall(whole)
        assert len(stranger.recv(1 << 16)) > 500  # with a certificate
        wait_until(lambda: closed(stranger), "closing", 3)


@needs_mosquitto
def test_places_are_taken_from_those_who_prove_nothing(fleet: MqttFleet) -> None:
    with front_of(fleet, 3):
        device = Client(fleet, "device-3")
        assert connected(device)
        made = [stalling(fleet, hello()) for _ in range(5)]
        wait_until(lambda: [closed(one) for one in made] == [True] * 2 + [False] * 3, "eviction", 5)
        other = Client(fleet, "device-2")
        assert connected(other)
        assert device.wait("gone", 0.5) is None
        for one in (*made, device, other):
            one.close()


@needs_mosquitto
def test_a_key_without_a_client_has_a_place_among_those_that_wait(fleet: MqttFleet) -> None:
    with front_of(fleet, 3):
        made = [proving(fleet, "device-1") for _ in range(5)]
        wait_until(lambda: [closed(one) for one in made] == [True] * 2 + [False] * 3, "eviction", 5)
        device = Client(fleet, "device-2", bind_address=OTHER)
        assert connected(device)
        for one in (*made, device):
            one.close()


@needs_mosquitto
@pytest.mark.long
@pytest.mark.skipif(FILES < 8200, reason=f"no more than {FILES} open files are allowed here")
def test_two_thousand_connections_of_one_key_lock_no_device_out(tmp_path: Path) -> None:
    config = toy_run(tmp_path, protocol="fd", rounds=1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with fleet_of(tmp_path, config, front=True) as fleet, ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        for _ in range(2100):
            held.enter_context(proving(fleet, "device-1"))
        device = held.enter_context(proving(fleet, "device-2", OTHER))  # more files than paho takes
        device.sendall(CONNECT)
        assert device.recv(4)[0] == CONNACK


CONNECT = bytes((0x10, 16, 0, 4, *b"MQTT", 5, 2, 0, 60, 0, 0, 3, *b"any"))
CONNACK = 0x20


def proving(fleet: MqttFleet, key: str, address: str = HOST) -> ssl.SSLSocket:
    """A connection that proves its key and then says nothing: it is no client of the broker."""
    context = ssl.create_default_context(cafile=str(fleet.keys / "ca.crt"))
    context.load_cert_chain(str(fleet.keys / f"{key}.crt"), str(fleet.keys / f"{key}.key"))
    made = socket.create_connection((HOST, fleet.port), 10, (address, 0))
    return context.wrap_socket(made, server_hostname=HOST)


def test_the_address_with_the_most_loses_its_oldest() -> None:
    async def scene() -> list[str]:
        waiting, tasks = WaitingConnections(4), {}
        for name in ("a1", "b1", "b2", "b3", "c1", "d1", "b4"):
            tasks[name] = asyncio.create_task(asyncio.sleep(9))
            waiting.enter(name[0], tasks[name])
        await asyncio.sleep(0)
        return [name for name, task in tasks.items() if task.cancelled()]

    with ThreadPoolExecutor(1) as thread:  # a browser's loop may run in this one
        assert thread.submit(asyncio.run, scene()).result() == ["a1", "b1", "b2"]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_of_ipv6_counts_as_its_network(address: str, found: str) -> None:
    assert network(address) == found


def test_what_has_ended_after_its_last_bytes_can_be_closed_again() -> None:
    """It ends while bytes wait, which the other side then takes: nothing is left to tell of it."""

    async def scene() -> None:
        def writes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(bytes(1 << 24))
            writer.close()
            written.append(writer)

        written: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(writes, HOST, 0)
        reader, other = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert len(await reader.read()) == 1 << 24
        await written[0].wait_closed()
        front.abort(written[0])
        other.close()
        server.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, scene()).result()
