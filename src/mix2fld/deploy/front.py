"""The front of an MQTT broker: a connection that proves no key within seconds is closed.

TLS stays between device and broker. What the front sees of it is who speaks: a client sends its
hello, the broker answers with its certificate, the client proves its key, and only then does the
broker speak again; what the client says next is that it connects, and the third answer accepts it.
Until the second answer a connection lasts for so many seconds at most. Until the third it has a
place among those that wait: when all are taken, the address with the most of them loses its oldest.
"""

import argparse
import asyncio
import resource
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

PATIENCE_S, CLOSING_S, REPORT_S = 30.0, 10.0, 60.0
CHUNK, BACKLOG = 1 << 16, 1024
HANDSHAKE, LARGEST_RECORD = 0x16, 1 << 14
RETRY = sha256(b"HelloRetryRequest").digest()
"""In place of random bytes in an answer that asks for another hello (RFC 8446, 4.1.3)."""


class WaitingConnections:
    """Connections that the broker has not accepted yet, oldest first, by their addresses."""

    def __init__(self, places: int) -> None:
        self._places, self._closed, self._said = places, 0, False
        self._tasks: dict[str, list[asyncio.Task[None]]] = defaultdict(list)

    def enter(self, address: str, task: asyncio.Task[None]) -> None:
        """One more; if there is no place, the address with the most loses its oldest."""
        if sum(map(len, self._tasks.values())) >= self._places:
            most = max(self._tasks, key=lambda one: len(self._tasks[one]))
            oldest = self._tasks[most][0]
            self.leave(most, oldest)
            oldest.cancel()
        self._tasks[address].append(task)

    def leave(self, address: str, task: asyncio.Task[None]) -> None:
        """The connection is no longer pending: it was accepted, or closed."""
        if task in self._tasks[address]:
            self._tasks[address].remove(task)
        if not self._tasks[address]:
            del self._tasks[address]

    def report(self, address: str) -> None:
        """Say once a minute how many were closed."""
        self._closed += 1
        if not self._said:
            self._said = True
            asyncio.get_running_loop().call_later(REPORT_S, self._report, address)

    def _report(self, address: str) -> None:
        print(
            f"connections closed that proved no key or did not connect: {self._closed}, "
            f"one from {address}",
            flush=True,
        )
        self._closed, self._said = 0, False


class Handshake:
    """Counts the broker's answers: the second is for a proved key, the third for a client."""

    def __init__(self, proved: Callable[[], None], accepted: Callable[[], None]) -> None:
        self._next, self._asked = [lambda: None, proved, accepted], True

    def client_spoke(self, _data: bytes) -> None:
        """What comes next from the broker is an answer."""
        self._asked = True

    def broker_spoke(self, data: bytes) -> None:
        """An answer, if the client has spoken since the last one."""
        if not self._asked or not self._next:
            return
        self._asked = False
        if data[11:43] != RETRY:
            self._next.pop(0)()


class Front:
    """Passes connections on to a broker."""

    def __init__(self, broker: tuple[str, int], places: int) -> None:
        self._broker, self._waiting = broker, WaitingConnections(places)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its end."""
        task, address = asyncio.current_task(), network(writer.get_extra_info("peername")[0])
        assert task is not None
        self._waiting.enter(address, task)
        try:
            async with asyncio.timeout(PATIENCE_S) as patience:

                def proved() -> None:
                    patience.reschedule(None)

                def accepted() -> None:
                    self._waiting.leave(address, task)

                hello = await client_hello(reader)
                await self._pass_on(hello, reader, writer, Handshake(proved, accepted))
        except (TimeoutError, asyncio.CancelledError, ValueError):
            self._waiting.report(address)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._waiting.leave(address, task)
            abort(writer)

    async def _pass_on(
        self, hello: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
        handshake: Handshake,
    ) -> None:  # fmt: skip
        from_broker, to_broker = await asyncio.open_connection(*self._broker)
        to_broker.write(hello)
        up = asyncio.create_task(copy(reader, to_broker, handshake.client_spoke))
        try:
            await copy(from_broker, writer, handshake.broker_spoke)
        finally:
            up.cancel()
            abort(to_broker)


def abort(writer: asyncio.StreamWriter) -> None:
    """Close at once; asyncio cannot where a transport has ended after its last bytes went."""
    with suppress(AttributeError):
        writer.transport.abort()


async def copy(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, spoke: Callable[[bytes], None]
) -> None:
    """Pass on until the source ends, then end the sink, too."""
    with suppress(OSError):
        while data := await source.read(CHUNK):
            spoke(data)
            sink.write(data)
            await sink.drain()
    sink.close()
    with suppress(OSError, TimeoutError):
        await asyncio.wait_for(sink.wait_closed(), CLOSING_S)


async def client_hello(reader: asyncio.StreamReader) -> bytes:
    """The first record of a connection; raises ``ValueError`` if it is none of a handshake."""
    start = await reader.readexactly(5)
    size = int.from_bytes(start[3:])
    if start[0] != HANDSHAKE or size > LARGEST_RECORD:
        raise ValueError("no TLS")
    return start + await reader.readexactly(size)


def network(address: str) -> str:
    """Whom an address belongs to: of IPv6, one customer has 2^64 or more."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or f"{IPv6Address(int(found) >> 64 << 64)}/64")
    return str(found)


async def serve(listen: tuple[str | None, int], broker: tuple[str, int], places: int) -> None:
    """Listen until this is cancelled."""
    front = Front(broker, places)
    server = await asyncio.start_server(front.serve, *listen, backlog=BACKLOG)
    async with server:
        await server.serve_forever()


def main() -> None:
    """``python -m mix2fld.deploy.front --listen 8883 --broker 127.0.0.1:8884 --places 1004``."""
    parser = argparse.ArgumentParser(description="Close connections that prove no key in time.")
    parser.add_argument("--listen", type=_address, required=True, help="port, or address:port")
    parser.add_argument("--broker", type=_address, required=True, help="address:port")
    parser.add_argument("--places", type=int, required=True, help="connections that may wait")
    chosen = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # where no limit is infinite
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(chosen.listen, chosen.broker, chosen.places))


def _address(text: str) -> tuple[str | None, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or None, int(port)


if __name__ == "__main__":
    main()
