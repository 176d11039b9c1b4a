"""A link between a device and its broker that can go down: silently, or with its connections."""

import selectors
import socket
import threading
from contextlib import suppress
from typing import Self

from mix2fld_lab.trials.processes import HOST


class Relay:
    """Passes bytes on in both directions while it is up; use it in a ``with`` block."""

    def __init__(self, port: int) -> None:
        self._to, self._up, self._over = port, threading.Event(), threading.Event()
        self._up.set()
        self._broken = False
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._others: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._up.set()
        self._thread.join()
        self._cut()
        self._listener.close()

    def go_down(self) -> None:
        """From now on nothing passes, and nobody is told."""
        self._up.clear()

    def come_back(self, broken: bool) -> None:
        """Pass on what waits; or let all connections be broken."""
        self._broken = broken
        self._up.set()

    def _run(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(timeout=0.05):
                self._up.wait()
                if self._broken:
                    self._broken = False
                    self._cut()
                    break
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._others:
                    self._pass_on(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection((HOST, self._to))
        except OSError:
            near.close()
            return
        self._others |= {near: far, far: near}
        for end in (near, far):
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        try:
            data = end.recv(1 << 16)
            self._others[end].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        for one in (end, self._others[end]):
            self._selector.unregister(one)
            del self._others[one]
            with suppress(OSError):
                one.close()

    def _cut(self) -> None:
        while self._others:
            self._close(next(iter(self._others)))
