"""Health and metrics of deployed runs over HTTP: ``/health`` and, for Prometheus, ``/metrics``.

A process of its own, which reads the files of the runs and has no key: it also answers when no
server is running.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.runs.fleet_status import RunStatus, deployed_runs

IDLE_SECONDS = 10.0
"""After which a connection that sends nothing is closed."""
OF_RUN = {
    "healthy": "1 unless an operator should look after the run",
    "rounds_done": "Rounds that are done",
    "rounds": "Rounds that the run has",
    "last_event_timestamp_seconds": "When anything happened last",
}
OF_DEVICE = {
    "last_seen_timestamp_seconds": "When it answered last",
    "silent_rounds": "Rounds in a row that it has not answered",
}
COUNTED = {
    "taken": "Rounds with its upload",
    "refused": "Its uploads that were refused",
    "suspected": "Rounds in which its upload lay far from the rest",
}


class FleetCollector(Collector):
    """The metrics of all runs in a folder, read when they are asked for."""

    def __init__(self, folder: Path, keys: Path | None) -> None:
        self._folder, self._keys = folder, keys

    def collect(self) -> Iterator[Metric]:
        """Every metric, with a sample for each run or for each of its devices."""
        runs, now = deployed_runs(self._folder), time.time()
        gauges = {
            n: GaugeMetricFamily(f"mix2fld_{n}", t, labels=["run"]) for n, t in OF_RUN.items()
        }
        labels = ["run", "device"]
        of_device = {
            name: GaugeMetricFamily(f"mix2fld_device_{name}", text, labels=labels)
            for name, text in OF_DEVICE.items()
        }
        counted = {
            name: CounterMetricFamily(f"mix2fld_device_uploads_{name}", text, labels=labels)
            for name, text in COUNTED.items()
        }
        version = GaugeMetricFamily(
            "mix2fld_device_version", "Its version of mix2fld", labels=[*labels, "version"]
        )
        for run in runs:
            known = (not run.trouble(now), run.rounds_done, run.rounds, run.last_event)
            for gauge, value in zip(gauges.values(), known, strict=True):
                gauge.add_metric([run.name], value)
            for one in run.devices:
                who = [run.name, str(one.device)]
                seen = (one.last_seen or 0.0, one.silent)
                for gauge, value in zip(of_device.values(), seen, strict=True):
                    gauge.add_metric(who, value)
                for name, counter in counted.items():
                    counter.add_metric(who, getattr(one, name))
                if one.version:
                    version.add_metric([*who, one.version], 1)
        yield from (*gauges.values(), *of_device.values(), *counted.values(), version)
        if self._keys is not None:
            yield _key_ends(self._keys)


def _key_ends(keys: Path) -> Metric:
    from mix2fld.deploy.keys import ends

    gauge = GaugeMetricFamily(
        "mix2fld_certificate_end_timestamp_seconds",
        "When the newest valid certificate of a name ends",
        labels=["name"],
    )
    with suppress(Mix2fldError):  # a monitor sees that it is missing; runs are not in trouble
        for name, end in ends(keys).items():
            gauge.add_metric([name], end.timestamp())
    return gauge


class HealthHandler(BaseHTTPRequestHandler):
    """Serves two pages; clients may only read."""

    server: "HealthServer"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Serve health, as status 200 or 503, or metrics."""
        try:
            if self.path == "/health":
                self._health(deployed_runs(self.server.folder))
            elif self.path == "/metrics":
                metrics = generate_latest(self.server.registry)
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics)
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")
        except Mix2fldError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n".encode())

    def _health(self, runs: list[RunStatus]) -> None:
        trouble = {run.name: run.trouble(time.time()) for run in runs}
        healthy = not any(trouble.values())
        status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps({"healthy": healthy, "runs": trouble})
        self._answer(status, "application/json", f"{body}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing: a monitor asks every few seconds."""


class HealthServer(ThreadingHTTPServer):
    """Serves one folder of runs."""

    daemon_threads = True

    def __init__(self, folder: Path, keys: Path | None, host: str, port: int) -> None:
        self.folder = folder
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.registry = CollectorRegistry()
        super().__init__((host, port), HealthHandler)
        self.registry.register(FleetCollector(folder, keys))


def make_health_server(folder: Path, listen: str, keys: Path | None = None) -> HealthServer:
    """A server at ``address:port``; ``serve_forever`` starts it.

    With a folder of keys, it also says when certificates end.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise InputError(
            field="listen", value=f"{listen!r}", hint="must be address:port, e.g. 127.0.0.1:9464"
        )
    try:
        return HealthServer(folder, keys, host.strip("[]"), int(port))
    except OSError as error:
        raise InputError(
            field="listen", value=listen, hint=f"cannot be used ({error.strerror or error})"
        ) from None
