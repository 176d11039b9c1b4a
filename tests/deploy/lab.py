"""Deployments of toy runs, in this process or in Flower's, and the simulator's run beside them."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import Message
from reliability.replay import ReplayLink as ReplayLink
from reliability.replay import assert_same_as_engine as assert_same_as_engine
from reliability.replay import assert_same_trees as assert_same_trees
from reliability.replay import diary as diary
from reliability.replay import last_state as last_state
from reliability.replay import rounds_of as rounds_of

from deploy.grid import Client, InProcessGrid
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.client_app import app
from mix2fld.deploy.edge.messages import Trained, TrainOrder
from mix2fld.deploy.forms import RECORD, from_record, read
from mix2fld.deploy.server_app import serve
from mix2fld.deploy.settings import Settings, read_settings
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.folder import RunFolder
from mix2fld.types import Dataset
from mix2fld_lab.trials.federation import Federation
from mix2fld_lab.trials.flower import node_config
from mix2fld_lab.trials.trial import write_device_files
from toys import save_dataset, toy_config, toy_dataset

FAULTY = Path(__file__).parent / "faulty"
PATIENCE = 600.0
DEPLOYED = [name for name, row in PROTOCOLS.items() if row.promise is None]
"""Protocols whose numbers a simulator can know: noise of a deployment is secret."""


def deployed_config(folder: Path, data: Dataset | None = None, **fields: object) -> Config:
    """A toy config whose dataset is a file, as a server of its own process needs it."""
    file = folder / "toy.npz"
    if not file.exists():
        save_dataset(file, data or toy_dataset())
    return toy_config(dataset=str(file), computing_time="measured", **fields)


def deployed_grid(folder: Path, **fields: object) -> Grid:
    """The same for several runs."""
    config = deployed_config(folder)
    return Grid.of_run(config).replace(**fields)


def run_in_process(
    folder: Path,
    config: Config,
    client: Client = app,
    faults: Mapping[int, str] | None = None,
    prepare: Callable[[InProcessGrid], Any] = lambda _: None,
    timeout_s: float = 60,
) -> Path:
    """Run with a grid of this process, or what ``prepare`` makes of it; returns the folder."""
    files = write_device_files(folder, config, load_dataset(config.data))
    settings = Settings(config, folder / "runs", timeout_s, wait_s=1)
    configs = {
        device: {**node_config(file), "fault": (faults or {}).get(device, "")}
        for device, file in enumerate(files)
    }
    grid = InProcessGrid(configs, settings.as_run_config(), client)
    serve(prepare(grid) or grid, read_settings(settings.as_run_config()))
    return settings.out / config.run_name


def order_in(message: Message) -> SimpleNamespace:
    """All that an order of Flower says, to which device too."""
    order, fields = from_record(message.content, TrainOrder)
    return SimpleNamespace(**order._asdict(), device=fields["device"])


def trained_in(reply: Message) -> Trained | None:
    """The upload that a device of Flower answers with, if it does."""
    answer = read(reply.content.config_records[RECORD]["message"])
    return answer if isinstance(answer, Trained) else None


def wait_until(happened: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen in {patience:g} s"
        time.sleep(0.02)


class Lab(Federation):
    """A federation with the faulty app, whose nodes can be told to misbehave."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, app=FAULTY)
        self.files: list[Path] = []

    def begin(self, config: Config, faults: Mapping[int, str] | None = None) -> None:
        self.start_superlink()
        self.begin_all(config, faults)

    def begin_all(self, config: Config, faults: Mapping[int, str] | None = None) -> None:
        """All nodes, of a SuperLink that is running."""
        self.files = write_device_files(self.folder, config, load_dataset(config.data))
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
            for entry in self.own_processes()
            if b"/flwr-serverapp" in (entry / "cmdline").read_bytes()
        )
        os.kill(app, signal.SIGKILL)

    def mark(self, device: int) -> Path:
        return self.folder / f"mark-{device}"

    def start_run(self, config: Config, timeout_s: float = PATIENCE, out: str = "runs") -> Path:
        """Start a run; returns its folder."""
        settings = Settings(config, self.folder / out, timeout_s, wait_s=PATIENCE)
        self.run(settings.as_run_config())
        return settings.out / config.run_name

    def run_to_end(self, config: Config, timeout_s: float = PATIENCE, out: str = "runs") -> Path:
        path = self.start_run(config, timeout_s, out)
        patience = PATIENCE * config.rounds
        wait_until(lambda: RunFolder(path).finished() is not None, f"end of {path.name}", patience)
        return path


HOSTILE = {
    "nan": "outputs: a value is not finite",
    "infinite": "outputs: a value is not finite",
    "negative": "outputs: a value is negative",
    "not-one": "sums to 0.5; must be 0 or 1",
    "wrong-labels": "outputs: 100 bytes; must be 64",
    "wrong-shape": "outputs: 48 bytes; must be 64",
    "oversized": r"outputs: \d+ bytes; must be 64",
    "truncated": "outputs: 61 bytes; must be 64",
    "nothing": "outputs: 0 bytes; must be 64",
    "pickle": r"outputs: \d+ bytes; must be 64",
    "fewer-bits": "outputs: 507 bits in 64 bytes; must be 512 bits",
    "no-seeds": "seeds: missing",
    "long-seeds": r"seeds: \d+ bytes; must be \d+",
    "short-seeds": r"seeds: \d+ bytes; must be \d+",
    "pickled-seeds": r"seeds: \d+ bytes; must be \d+",
    "old-round": "an answer for round 0",
    "boast": "accuracy 7; must be 0 to 1",
    "chatter": "1000 scores",
    "slow": r"1e\+06 s of computing in a wait of \d+\.\d s",
    "rich": "less than or equal to 2147483648",
    "stranger": r"records \['Stranger'\]",
}
"""Answers that are refused, and what is said of each."""
