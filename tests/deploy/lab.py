"""Deployments of toy runs, in this process or in Flower's, and the simulator's run beside them."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from deploy.grid import Client, InProcessGrid
from mix2fld.config import Config
from mix2fld.deploy.client_app import app
from mix2fld.deploy.federation import Federation
from mix2fld.deploy.local import node_config, write_device_files
from mix2fld.deploy.server_app import serve
from mix2fld.deploy.settings import Settings, read_settings
from mix2fld.deploy.store import Store
from mix2fld.link import Direction
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import run
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset

FAULTY = Path(__file__).parent / "faulty"
PATIENCE = 600.0


def deployed_config(folder: Path, **fields: object) -> Config:
    """A toy config whose dataset is a file, as a server of its own process needs it."""
    file = folder / "toy.npz"
    if not file.exists():
        data = toy_dataset()
        arrays = ("train_images", "train_labels", "test_images", "test_labels")
        np.savez(file, **{name: getattr(data, name) for name in arrays})
    return toy_config(dataset=str(file), computing_time="measured", **fields)


def play_in_process(
    folder: Path,
    config: Config,
    client: Client = app,
    faults: Mapping[int, str] | None = None,
    prepare: Callable[[InProcessGrid], None] = lambda _: None,
    timeout_s: float = 60,
) -> Path:
    """Play a run with a grid of this process; gives the run's folder."""
    files = write_device_files(folder, config, toy_dataset())
    settings = Settings(config, folder / "runs", timeout_s, wait_s=1)
    configs = {
        device: {**node_config(file), "fault": (faults or {}).get(device, "")}
        for device, file in enumerate(files)
    }
    grid = InProcessGrid(configs, settings.as_run_config(), client)
    prepare(grid)
    serve(grid, read_settings(settings.as_run_config()))
    return settings.out / config.run_name


class ReplayLink:
    """Delivers to and from the devices that a recorded run delivered to and from."""

    slot_seconds = 0.0
    max_slots = 1

    def __init__(self, rounds: list[dict[str, Any]]) -> None:
        self._records = {
            "uplink": iter([info["uploads"]["devices"] for info in rounds]),
            "downlink": iter([info["downloads"]["devices"] for info in rounds]),
        }

    def transmit(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = np.array(next(self._records[direction]), bool) | (bits == 0)
        return Delivery(delivered, np.where(delivered, 0, self.max_slots))


def rounds_of(path: Path) -> list[dict[str, Any]]:
    file = path / "rounds.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def diary(path: Path) -> str:
    file = path / "diary.log"
    return file.read_text() if file.exists() else ""


def assert_same_as_engine(path: Path, devices: Path, tmp_path: Path) -> None:
    """The simulator, with the same deliveries, has the same numbers, bit for bit."""
    result = RunFolder(path).finished()
    assert result is not None, diary(path)
    link = ReplayLink(result.rounds)
    stated = result.config.replace(computing_time="stated")
    (simulated,) = run(stated, tmp_path, dataset=toy_dataset(), link=link)
    for mine, theirs in zip(result.rounds, simulated.rounds, strict=True):
        heard = mine["uploads"]["devices"] if mine["uploads"]["attempted"] else None
        assert comparable(mine, heard) == comparable(theirs, heard)
    server, engine = (
        load_file(folder / "checkpoint.safetensors")
        for folder in (path, tmp_path / result.config.run_name)
    )
    for name in (name for name in engine if name.startswith(("server", "seed"))):
        np.testing.assert_array_equal(server[name], engine[name], err_msg=name)
    run_id = (path / "identity").read_text()
    arrived = result.rounds[-1]["downloads"]["devices"]
    for device in range(result.config.data.devices):
        store = Store(devices / f"device-{device}" / "state", run_id, device)
        own = store.before(result.config.rounds + 1)
        assert own is not None
        assert own.round == result.config.rounds
        assert (own.download is not None) == arrived[device]
        if not arrived[device] or "server_weights.0" not in engine:
            for number, weights in enumerate(own.weights):
                np.testing.assert_array_equal(weights, engine[f"weights.{number}"][device])


def comparable(info: dict[str, Any], heard: list[bool] | None) -> dict[str, Any]:
    """A round without its seconds, which the simulator states and a deployment measures.

    Also without the accuracy of devices that the server has not ``heard``, and without their curve.
    """
    kept = {name: value for name, value in info.items() if name not in {"seconds", "slots"}}
    if heard is not None and not all(heard):
        devices = zip(info["accuracy"]["devices"], heard, strict=True)
        own = [accuracy for accuracy, known in devices if known]
        kept["accuracy"] = {"devices": own, "global": info["accuracy"]["global"]}
        kept["curve"] = []
    kept["curve"] = [(p["step"], p["accuracy"], p["event"]) for p in kept["curve"]]
    return kept


def wait_until(happened: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen in {patience:g} s"
        time.sleep(0.1)


class Lab(Federation):
    """A federation with the faulty app, whose nodes can be told to misbehave."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, app=FAULTY)
        self.files: list[Path] = []

    def begin(self, config: Config, faults: Mapping[int, str] | None = None) -> None:
        self.files = write_device_files(self.folder, config, toy_dataset())
        self.start_superlink()
        self.register(range(len(self.files)))
        for device in range(len(self.files)):
            self.begin_node(device, (faults or {}).get(device, ""))

    def begin_node(self, device: int, fault: str = "", late_s: float = 0.0) -> None:
        extra = {
            "fault": fault,
            "late_s": str(late_s),
            "mark": str(self.mark(device)),
            "key": str(self.keys / f"device-{device}.key"),
            "ca": str(self.keys / "ca.crt"),
            "superlink": f"{self.host}:{self.port}",
        }
        self.start_node(device, {**node_config(self.files[device]), **extra})

    def kill_server_app(self) -> None:
        """``kill -9`` the process of the server app, and no other."""
        (app,) = (
            int(entry.name)
            for entry in self._own_processes()
            if b"/flwr-serverapp" in (entry / "cmdline").read_bytes()
        )
        os.kill(app, signal.SIGKILL)

    def mark(self, device: int) -> Path:
        return self.folder / f"mark-{device}"

    def play(self, config: Config, timeout_s: float = PATIENCE, out: str = "runs") -> Path:
        """Start a run and give its folder."""
        settings = Settings(config, self.folder / out, timeout_s, wait_s=PATIENCE)
        self.run(settings.as_run_config())
        return settings.out / config.run_name

    def play_to_end(self, config: Config, timeout_s: float = PATIENCE, out: str = "runs") -> Path:
        path = self.play(config, timeout_s, out)
        patience = PATIENCE * config.rounds
        wait_until(lambda: RunFolder(path).finished() is not None, f"end of {path.name}", patience)
        return path
