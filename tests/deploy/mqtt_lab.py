"""Fleets of toy runs with a real broker, and clients that are up to no good."""

import os
import shutil
import ssl
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from deploy.lab import deployed_config
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.broker import largest_message
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST
from mix2fld_lab.trials.trial import write_device_files
from places import TESTS

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
if os.environ.get("MIX2FLD_NEEDS_MOSQUITTO") and MOSQUITTO is None:
    raise RuntimeError("Mosquitto is not installed; install it, e.g. with: apt install mosquitto")
needs_mosquitto = pytest.mark.skipif(
    MOSQUITTO is None, reason="Mosquitto is not installed (apt install mosquitto)"
)


def fleet_of(folder: Path, settings: Config | Grid, front: bool = False) -> MqttFleet:
    files = write_device_files(folder, settings.runs()[0], load_dataset(settings.data))
    return MqttFleet(folder, files, largest_message(settings), TESTS, front)


def serve(fleet: MqttFleet, config: Config, timeout_s: float = 60.0) -> Path:
    settings = Settings(config, fleet.folder / "runs", timeout_s, wait_s=timeout_s)
    serve_mqtt(settings, fleet.address())
    return settings.out / config.run_name


class Serving:
    """A server in a thread of this process; ``join`` returns the run's folder or raises."""

    def __init__(self, fleet: MqttFleet, config: Config, timeout_s: float = 60.0) -> None:
        self.path = fleet.folder / "runs" / config.run_name
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(fleet, config, timeout_s))
        self._thread.start()

    def join(self) -> Path:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.path

    def _run(self, *arguments: Any) -> None:
        try:
            serve(*arguments)
        except BaseException as error:
            self._error = error


class Client:
    """A plain MQTT client with somebody's key, or with none."""

    def __init__(self, fleet: MqttFleet, key: str | None, name: str = "", **tls: Any) -> None:
        address = tls.pop("bind_address", "")
        self.events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        version = MQTTProtocolVersion.MQTTv5
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=version)
        if key is not None:
            files = {"certfile": fleet.keys / f"{key}.crt", "keyfile": fleet.keys / f"{key}.key"}
            tls = {name: str(file) for name, file in files.items()} | tls
        if tls.pop("encrypted", True):
            ca = tls.pop("ca_certs", str(fleet.keys / "ca.crt"))
            self.client.tls_set(ca, cert_reqs=ssl.CERT_REQUIRED, **tls)
        self.client.on_connect = lambda c, d, f, reason, p: self.events.put(("connect", reason))
        self.client.on_disconnect = lambda c, d, f, reason, p: self.events.put(("gone", reason))
        self.client.on_message = lambda c, d, message: self.events.put(("message", message))
        self.client.on_publish = lambda c, d, m, reason, p: self.events.put(("sent", reason))
        self.client.connect(HOST, fleet.port, keepalive=30, bind_address=address)
        self.client.loop_start()

    def wait(self, kind: str, seconds: float = 10.0) -> Any:
        """The next event of a kind; None if there is none in that time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                found, what = self.events.get(timeout=left)
            except Empty:
                return None
            if found == kind:
                return what
        return None

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def toy_run(folder: Path, **fields: object) -> Config:
    """A toy config with the kernel on both sides: device processes have nothing else."""
    return deployed_config(folder, kernel="native", **fields)
