"""``mix2fld deploy`` on several machines: keys, and the server over MQTT."""

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Output
from mix2fld.config.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from mix2fld.runs.fleet_status import DeviceStatus


@dataclass(frozen=True)
class DeployServer:
    """Serve runs to devices on other machines, over an MQTT broker.

    A run that already exists in the output folder is resumed. Devices are started with
    mix2fld-device on their machines.
    """

    broker: tyro.conf.Positional[str] = "localhost:8883"
    """Host and port of the broker, such as broker.example.org:8883."""
    keys: Path = Path("keys")
    """Folder of mix2fld deploy keys --transport mqtt."""
    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust; nb-iot and others; phone, sensor."""
    out: Path = Path("runs/deployment")
    """Folder for the runs."""
    overwrite: bool = False
    """Replace runs that already exist in the folder."""
    timeout_s: float = 600.0
    """Seconds after which a round continues without the missing replies."""
    wait_s: float = 120.0
    """Seconds to wait for all devices to be connected before the first round."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        needs_mqtt()
        check_positive(timeout_s=self.timeout_s, wait_s=self.wait_s)
        from mix2fld.cli.console import print_table
        from mix2fld.cli.progress import RichWatcher
        from mix2fld.data import load_dataset
        from mix2fld.deploy.edge.__main__ import broker_address
        from mix2fld.deploy.identity import forget
        from mix2fld.deploy.mqtt_server import NAME, serve_mqtt
        from mix2fld.deploy.settings import Settings
        from mix2fld.protocols.table import single_runs
        from mix2fld.report.tables import results_table
        from mix2fld.runs.simulation import check

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        address = broker_address(self.broker, self.keys, NAME)
        console = self.output.console()
        settings = self.settings.replace(link="ideal", computing_time="measured")
        check(settings, load_dataset(settings.data, console=console))
        devices = settings.data.devices
        console.print(f"waiting up to {self.wait_s:g} s for {devices} devices at {address}")
        with RichWatcher(console, settings) as watcher:
            results = []
            for single in single_runs(settings):
                if self.overwrite:
                    forget(self.out / single.run_name)
                each = Settings(single, self.out, self.timeout_s, self.wait_s)
                results.append(serve_mqtt(each, address, watcher))
        print_table(console, results_table(results))
        self.output.print_json([result.summary for result in results])


@dataclass(frozen=True)
class DeployKeys:
    """Create the files of a deployment on several machines: certificates, keys, limits and units.

    Over Flower: ``ca.crt`` goes to every node, ``server.crt`` and ``server.key`` to the server, and
    ``device-<n>.key`` to one node each; ``device-<n>.pub`` is registered at the SuperLink.
    ``nginx.conf`` is the proxy, which refuses requests larger than those of the protocols and the
    model of the settings below; ``mix2fld-*.service`` are units for systemd.

    Over MQTT: ``ca.crt`` goes to everyone, ``broker.*``, ``ca.crl``, ``mosquitto.conf`` and
    ``access.acl`` to the broker, ``server.*`` to the server, and ``device-<n>.*`` to one device
    each. The broker listens on loopback, behind the front of ``mix2fld-front.service``. ``ca.key``
    stays where keys are made: ``deploy key`` needs it.
    """

    hosts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Host names and addresses at which nodes reach the proxy, or devices the broker."""
    transport: Literal["flower", "mqtt"] = "flower"
    """Transport between server and devices."""
    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust."""
    out: Path = Path("keys")
    """Folder for the files; must not exist yet."""
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        if self.transport == "flower":
            needs_flower()
        else:
            needs_mqtt()
        if not self.hosts:
            raise InputError(
                field="hosts", hint="must name at least one, e.g. 192.168.1.10 or link.example.org"
            )
        if self.out.exists():
            raise InputError(
                field="out", value=self.out, hint="already exists; must be a new folder"
            )
        from mix2fld.base.files import writing

        devices = self.settings.data.devices
        with writing("out", self.out):
            if self.transport == "flower":
                self._write_for_flower(devices)
            else:
                self._write_for_mqtt(devices)

    def _write_for_flower(self, devices: int) -> None:
        from mix2fld.deploy.keys import make_certificates, make_device_key
        from mix2fld.deploy.proxy import largest_request
        from mix2fld.deploy.units import write_units

        largest = largest_request(self.settings)
        make_certificates(self.out, self.hosts)
        for device in range(devices):
            make_device_key(self.out, f"device-{device}")
        write_units(self.out, self.hosts[0], largest, devices)
        print(f"certificates, {devices} device keys, proxy and units in {self.out}")

    def _write_for_mqtt(self, devices: int) -> None:
        from mix2fld.deploy.broker import largest_message
        from mix2fld.deploy.keys import make_fleet_certificates
        from mix2fld.deploy.units import write_mqtt_units

        largest = largest_message(self.settings)
        make_fleet_certificates(self.out, self.hosts, devices)
        write_mqtt_units(self.out, self.hosts[0], largest, devices)
        print(f"certificates of broker, server and devices ({devices}), and units in {self.out}")


@dataclass(frozen=True)
class DeployStatus:
    """Show how deployed runs and their devices are, or serve that to a monitor.

    Reads the files of the runs on the server's machine, while a server runs or not. Fails if a run
    is in trouble, such as one that no server has.
    """

    runs: tyro.conf.Positional[Path] = Path("runs/deployment")
    """Folder of the runs."""
    listen: str = ""
    """Serve /health and, for Prometheus, /metrics at this address, such as 127.0.0.1:9464."""
    keys: Path | None = None
    """Folder of deploy keys: show when certificates end."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        from mix2fld.runs.fleet_status import deployed_runs

        if self.listen:
            self._serve()
            return
        found, now = deployed_runs(self.runs), time.time()
        console, ends = self.output.console(), self._ends()
        for run in found:
            state = run.trouble(now) or ("finished" if run.finished else "in progress")
            words = f"{run.name}: {run.rounds_done} of {run.rounds} rounds; {state}"
            console.print(words, markup=False)
            console.print(_device_table(run.devices, now, ends))
            if run.silent and not run.finished:
                console.print(f"silent: devices {', '.join(map(str, run.silent))}")
        for name in ("ca", "broker", "server"):
            if name in ends:
                console.print(f"the certificate of {name} ends on {ends[name]}")
        self.output.print_json([run.as_json(now) for run in found])
        if trouble := [run.name for run in found if run.trouble(now)]:
            raise InputError(f"{', '.join(trouble)}: in trouble")

    def _ends(self) -> dict[str, str]:
        """When certificates end, by the names of their files."""
        if self.keys is None:
            return {}
        needs_mqtt()
        from mix2fld.deploy.keys import ends

        return {name: f"{end:%Y-%m-%d}" for name, end in ends(self.keys).items()}

    def _serve(self) -> None:
        if find_spec("prometheus_client") is None:
            raise InputError(
                "--listen needs prometheus_client; install it with: pip install 'mix2fld[metrics]'"
            )
        if self.keys is not None:
            needs_mqtt()
        from mix2fld.deploy.health import make_health_server

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with make_health_server(self.runs, self.listen, self.keys) as server:
            host, port = str(server.server_address[0]), server.server_port
            shown = f"[{host}]" if ":" in host else host
            words = f"/health and /metrics at http://{shown}:{port}"
            self.output.console().print(words, markup=False)
            with suppress(KeyboardInterrupt):
                server.serve_forever()


def _device_table(
    devices: "Sequence[DeviceStatus]", now: float, ends: "Mapping[str, str]"
) -> "Table":
    from rich.table import Column, Table

    names = ("device", "last answer", "version", "round", "taken", "refused", "suspected", "silent")
    last = [Column("key ends", min_width=10)] if ends else []
    table = Table(*names, *last, box=None)
    for one in devices:
        seen = "never" if one.last_seen is None else f"{max(0.0, now - one.last_seen):.0f} s ago"
        counts = (one.round, one.taken, one.refused, one.suspected, one.silent)
        key = [ends.get(f"device-{one.device}", "-")] if ends else []
        table.add_row(str(one.device), seen, one.version or "-", *map(str, counts), *key)
    return table


def needs_flower() -> None:
    """Raise ``InputError`` if Flower is not installed."""
    if find_spec("flwr") is None:
        raise InputError("deploy needs Flower; install it with: pip install 'mix2fld[flower]'")


def needs_mqtt() -> None:
    """Raise ``InputError`` if the MQTT client or what makes certificates is not installed."""
    for module in ("paho", "cryptography"):
        if find_spec(module) is None:
            raise InputError(
                f"needs {module}, which is not installed; install it with: pip install "
                "'mix2fld[mqtt]'"
            )


def check_positive(**given: float) -> None:
    """Raise ``InputError`` for the first field that is not above 0."""
    for name, value in given.items():
        if not value > 0:
            raise InputError(field=name, value=f"{value:g}", hint="must be above 0")
