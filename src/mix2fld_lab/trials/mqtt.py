"""A trial on one machine: a real broker on loopback, and a process for each device."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from mix2fld.base.custom_code import modules_in
from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.deploy.broker import Broker, largest_message, places
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.edge.mqtt_line import Address
from mix2fld.deploy.keys import make_fleet_certificates
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.types import Dataset
from mix2fld_lab.trials.processes import HOST, NamedProcesses, free_port, ignoring_signals
from mix2fld_lab.trials.trial import Trial, run_trial


class MqttFleet(NamedProcesses):
    """A broker and its devices; use it in a ``with`` block."""

    def __init__(
        self, folder: Path, files: Sequence[Path], largest: int, modules: Path | None = None,
        front: bool = False,
    ) -> None:  # fmt: skip
        """With ``front``, devices and server connect through one, as in a deployment."""
        super().__init__(folder)
        self.files, self._largest, self._modules = list(files), largest, modules
        self.port = self._broker_port = free_port()
        self._front = front

    def __enter__(self) -> Self:
        for made in (self.keys, self.logs, self.folder / "broker"):
            made.mkdir(parents=True, exist_ok=True)
        make_fleet_certificates(self.keys, [HOST], len(self.files))
        self.start_broker()
        if self._front:
            self.start_front()
        return self

    def __exit__(self, *error: object) -> None:
        with ignoring_signals():
            self.stop(*self._processes)
            for name in ("keys", "broker"):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def keys(self) -> Path:
        """Where certificates and keys are, while it lasts."""
        return self.folder / "keys"

    def start_broker(self) -> None:
        """Start Mosquitto, and wait until it listens."""
        broker = Broker(
            keys=self.keys,
            state=self.folder / "broker",
            largest_message=self._largest,
            devices=len(self.files),
            listen=f"{self._broker_port} {HOST}",
            user="root" if os.geteuid() == 0 else None,  # as all other processes of the trial
        )
        file = broker.write(self.keys)
        self.start("broker", [find_mosquitto(), "-c", str(file)])
        self.wait_for_port("broker", HOST, self._broker_port)

    def start_front(self) -> None:
        """Start what closes connections that prove nothing; its port is used, also after this."""
        self.port = free_port() if self.port == self._broker_port else self.port
        command = [sys.executable, "-P", "-m", "mix2fld.deploy.front"]
        command += ["--listen", f"{HOST}:{self.port}", "--broker", f"{HOST}:{self._broker_port}"]
        self.start("front", [*command, "--places", str(places(len(self.files)))])
        self.wait_for_port("front", HOST, self.port)

    def start_device(self, device: int, name: str | None = None, port: int | None = None) -> None:
        """Start the process of a device; ``port`` is another way to the broker than its own."""
        file = self.files[device].resolve()
        command = [sys.executable, "-P", "-m", "mix2fld.deploy.edge", "--device", str(device)]
        command += ["--broker", f"{HOST}:{port or self.port}", "--keys", str(self.keys)]
        command += ["--data", str(file), "--state", str(file.parent / "state")]
        self.start(name or f"device-{device}", command)

    def start_devices(self) -> None:
        """Start all of them."""
        for device in range(len(self.files)):
            self.start_device(device)

    def address(self, name: str = "server") -> Address:
        """Where the broker is for the holder of this certificate."""
        return broker_address(f"{HOST}:{self.port}", self.keys, name)

    def environment(self) -> dict[str, str]:
        """Processes find a custom module in its folder, after all that is installed."""
        return {**os.environ, **modules_in(self._modules)}


def run_over_mqtt(
    grid: Grid, out: Path, dataset: Dataset, watcher: Watcher, trial: Trial
) -> list[RunResult]:
    """Run every run of a grid over MQTT, with one broker for each seed."""
    find_mosquitto()
    own_modules = Path.cwd() if ":" in grid.learning.model else None

    def runs(folder: Path, files: Sequence[Path], settings: Sequence[Settings]) -> list[RunResult]:
        largest = largest_message(grid)
        with MqttFleet(folder, files, largest, own_modules, trial.proxy) as fleet:
            fleet.start_devices()
            return [serve_mqtt(each, fleet.address(), watcher) for each in settings]

    return run_trial("mqtt", grid, out, dataset, trial, runs)


def find_mosquitto() -> str:
    """The program; raises ``InputError`` if it is not installed."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise InputError(
            "deploy mqtt needs Mosquitto; install it, e.g. with: apt install mosquitto"
        )
    return program
