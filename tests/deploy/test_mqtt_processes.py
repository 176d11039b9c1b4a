"""The MQTT fleet with a real broker and real processes."""

import os
import shutil
from pathlib import Path

import pytest

from deploy.lab import assert_same_as_engine, deployed_config
from mix2fld.config import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.broker import largest_message
from mix2fld.deploy.local_trial import write_device_files
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.mqtt_trial import MqttFleet
from mix2fld.deploy.settings import Settings

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
if os.environ.get("MIX2FLD_NEEDS_MOSQUITTO") and MOSQUITTO is None:
    raise RuntimeError("Mosquitto is not installed; install it, e.g. with: apt install mosquitto")
pytestmark = pytest.mark.skipif(
    MOSQUITTO is None, reason="Mosquitto is not installed (apt install mosquitto)"
)


def fleet_of(folder: Path, config: Config) -> MqttFleet:
    files = write_device_files(folder, config, load_dataset(config.data))
    return MqttFleet(folder, files, largest_message(config))


def serve(fleet: MqttFleet, config: Config, timeout_s: float = 60.0) -> Path:
    settings = Settings(config, fleet.folder / "runs", timeout_s, wait_s=timeout_s)
    serve_mqtt(settings, fleet.address())
    return settings.out / config.run_name


def test_a_run_over_a_broker_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocols="mix2fld")
    with fleet_of(tmp_path, config) as fleet:
        fleet.start_devices()
        path = serve(fleet, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
