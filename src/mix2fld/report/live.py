"""The report page served on the loopback address, updated as the files of runs grow."""

import gzip
import os
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.base.locks import is_locked
from mix2fld.report.html import as_json, live_page
from mix2fld.report.page_data import page_data
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import FoundRuns, find_run_folders, read_runs

LOOPBACK = "127.0.0.1"
CONNECTIONS = Path("/proc/net/tcp")
"""Where Linux lists connections, each end with its user."""
IDLE_SECONDS = 30.0
"""After which a connection that sends nothing is closed; a browser opens another."""


class Feed:
    """The data of the page, rebuilt when a file has changed; nothing is ever written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: object = None
        self._text = b""

    def text(self) -> bytes:
        """The data of the page as JSON."""
        with self._lock:
            now = self._signature()
            if now != self._seen:
                self._text = self._read()
                self._seen = now
            return self._text

    def _read(self) -> bytes:
        """The data of all runs but those that cannot be shown, which are named."""
        found = read_runs([self._folder])
        try:
            return as_json(page_data(found)).encode()
        except Exception:  # a record may hold anything, and only one run must suffer
            shown = FoundRuns(notes=found.notes)
            for run in found.runs:
                try:
                    as_json(page_data(FoundRuns([run])))
                    shown.runs.append(run)
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"[:200]
                    shown.notes.append(f"{run.folder}: cannot be shown ({why})")
            return as_json(page_data(shown)).encode()

    def _signature(self) -> tuple[tuple[object, ...], ...]:
        """Name, time and size of every file of every run, and whether a process writes it."""
        found: list[tuple[object, ...]] = []
        for folder in find_run_folders([self._folder]):
            files = RunFiles(folder)
            if not files.summary.exists():
                found.append((str(folder), is_locked(folder)))
            for file in (files.config, files.rounds, files.summary, files.failure, files.events):
                try:
                    state = file.stat()
                except OSError:
                    continue
                found.append((str(file), state.st_mtime_ns, state.st_size))
        return tuple(found)


class LiveHandler(BaseHTTPRequestHandler):
    """Serves the page and its data."""

    server: "PageServer"
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Serve the page or its data, to a browser on this machine only."""
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if not _same_user(self.client_address, self.connection.getsockname()):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"available to one user only\n")
        elif host not in (LOOPBACK, "localhost"):  # any other name: a script of another site
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"available on this machine only\n")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", live_page().encode())
        elif self.path == "/data.json":
            self._answer(HTTPStatus.OK, "application/json", self.server.feed.text())
        elif self.path == "/favicon.ico":
            self._answer(HTTPStatus.NO_CONTENT, "image/x-icon", b"")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        zipped = "gzip" in (self.headers.get("Accept-Encoding") or "") and len(body) > 1000
        body = gzip.compress(body, 4) if zipped else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing: a page that refreshes would fill the terminal."""


class PageServer(ThreadingHTTPServer):
    """Serves one folder of runs on the loopback address."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.feed = Feed(folder)
        super().__init__((LOOPBACK, port), LiveHandler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closed the connection is not an error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _same_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the other end of a connection is this user's; only Linux says whose it is."""
    if not CONNECTIONS.exists():
        return True
    ends = [f"{_hexadecimal(host)}:{port:04X}" for host, port in (client, server)]
    for line in CONNECTIONS.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == ends:
            return int(fields[7]) in (os.geteuid(), 0)
    return False  # gone already


def _hexadecimal(host: str) -> str:
    """An address as the kernel prints it: a number in its own order of bytes."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}"


def make_server(folder: Path, port: int) -> PageServer:
    """A server for ``folder``; ``serve_forever`` starts it."""
    try:
        return PageServer(folder, port)
    except (OSError, OverflowError) as error:
        raise InputError(
            field="port",
            value=port,
            hint=f"cannot be used ({error}); choose another, or 0 for a free one",
        ) from None
