"""What a relay costs the small device: relays as a server makes them, each decoded in a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.relay_probe import PATHS
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.device_settings import device_config
from mix2fld.protocols.downlink import STEPS
from mix2fld.runs.simulation import make_simulation
from mix2fld.types import Dataset

UPLOADS, BITS = (10, 20, 100), 200


def config_of(uploads: int, **fields: Any) -> Config:
    """So many devices, all of which upload; what they learned is not measured."""
    plain = {"samples_per_device": 20, "partition": "iid", "evaluated_devices": 1}
    return Config.of(**{
        "protocol": "murmur", "update_bits": BITS, "downlink": "relay", "devices": uploads,
        "model": "paper-cnn", "link": "ideal", "local_steps": 1, "curve_points": 1, "rounds": 2,
        **plain, **fields,
    })  # fmt: skip


def measure(folder: Path) -> dict[str, Any]:
    """Of each number of uploads, with the kernel and with NumPy alone."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"bits": BITS, "load": os.getloadavg()[0], "uploads": {}}
    for uploads in UPLOADS:
        config, file = config_of(uploads), folder / f"{uploads}.npz"
        write_relay(file, config, load_dataset(config.data))
        found["uploads"][str(uploads)] = {path: probed(file, path) for path in PATHS}
    return found


def probed(file: Path, path: str) -> dict[str, Any]:
    """What a process says of a relay that it decoded."""
    command = [sys.executable, "-m", "benchmarks.relay_probe", str(file), path]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def write_relay(file: Path, config: Config, dataset: Dataset) -> None:
    """The second step of a run, for a device that has the first, and what the device needs."""
    simulation = make_simulation(config, dataset)
    first, _ = simulation.run_round(simulation.start())
    second, _ = simulation.run_round(first)
    one = np.ones(config.data.devices, np.int64)
    memory = {**second.server.memory[STEPS], "has": one, "confirmed": one}
    server = second.server.keeping(**{STEPS: memory})
    data = simulation.scenario.wire.encode_download(server, 0).data
    assert first.server.weights is not None
    arrays: dict[str, Any] = {f"weights.{n}": own for n, own in enumerate(first.server.weights)}
    dims = simulation.scenario.learning.dims
    asked = {
        "config": device_config(config), "shape": dims.samples.shape, "labels": dims.num_labels,
    }  # fmt: skip
    np.savez(
        file, data=np.frombuffer(data, np.uint8), version=np.array(1), asked=json.dumps(asked),
        **arrays,
    )  # fmt: skip
