"""Deployments of toy runs, in this process or in Flower's, and the simulator's run beside them."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from deploy.grid import Client, InProcessGrid
from mix2fld.base.trees import difference, flatten
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.client_app import app
from mix2fld.deploy.edge.messages import Trained, TrainOrder
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.forms import RECORD, from_record, read
from mix2fld.deploy.server_app import serve
from mix2fld.deploy.settings import Settings, read_settings
from mix2fld.engine.device_turn import receive, settle
from mix2fld.engine.state import RunState
from mix2fld.links import Direction, IdealLink, Memoryless
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.checkpoint import load_checkpoint
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.types import Dataset, Delivery, State
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


class ReplayLink(Memoryless):
    """Delivers to and from the devices that a recorded run delivered to and from.

    Like the server of a deployment it expects that everything arrives.
    """

    slot_seconds = 0.0
    max_slots = 1
    forecast = IdealLink().forecast

    def __init__(self, rounds: list[dict[str, Any]]) -> None:
        self._records = {
            "uplink": iter(
                [info["uploads"]["devices"] for info in rounds if info["uploads"]["attempted"]]
            ),
            "downlink": iter([info["downloads"]["devices"] for info in rounds]),
        }

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = np.isin(np.arange(len(bits)), next(self._records[direction])) | (bits == 0)
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
    (of_engine,) = run(stated, tmp_path, link=link)
    scenario = make_simulation(stated, load_dataset(stated.data)).scenario
    exact = scenario.wire.upload_size(with_seeds=True).exact
    unheard: set[int] = set()
    for mine, theirs in zip(result.rounds, of_engine.rounds, strict=True):
        asked, heard = set(mine["asked"]), set(mine["uploads"]["devices"])
        if mine["uploads"]["attempted"]:
            unheard = (unheard | asked) - heard
        known = Known(unheard, scenario.reference, bits_up=exact or heard == asked)
        assert comparable(mine, known) == comparable(theirs, known)
    deployed, simulated = (
        last_state(folder, result.config, alone)
        for folder, alone in ((path, True), (tmp_path / result.config.run_name, False))
    )
    assert_same_trees(deployed.tree()["server"], simulated.tree()["server"])
    if deployed.server.weights is not None:
        assert_same_trees(result.weights, of_engine.weights)
    np.testing.assert_array_equal(deployed.roster.uploaded, simulated.roster.uploaded)
    np.testing.assert_array_equal(deployed.roster.last_turn, simulated.roster.last_turn)
    for device, state in enumerate(simulated.devices):
        own = state_on_disk(path, devices, result.config, device, deployed)
        if own is not None or deployed.roster.last_turn[device]:
            assert_same_trees(own, state)


def last_state(path: Path, config: Config, devices_are_elsewhere: bool) -> RunState:
    """The state in a run's folder."""
    like = make_simulation(config, load_dataset(config.data)).start()
    if devices_are_elsewhere:
        like = replace(like, devices=np.zeros(config.data.devices, np.bool_))  # who is owed
    return load_checkpoint(path / "checkpoint.safetensors", like).state(like)


def state_on_disk(
    path: Path, devices: Path, config: Config, device: int, state: RunState
) -> State | None:
    """What a device would begin its next round with."""
    run_id = (path / "identity").read_text()
    store = Store(devices / f"device-{device}" / "state", run_id, device)
    own = store.up_to(config.rounds)
    if own is None:
        return None
    assert own.round == state.roster.last_turn[device]
    wire = make_simulation(config, load_dataset(config.data)).scenario.wire
    after = settle(own.state, delivered=own.round == state.roster.uploaded[device])
    if own.download is not None:
        after = receive(wire, after, wire.decode_download(own.download, [after]))
    if state.roster.listened[device] > own.round:  # it comes with the next order
        last = wire.encode_download(state.server, device).data
        after = receive(wire, after, wire.decode_download(last, [after]))
    return after


def assert_same_trees(mine: Any, theirs: Any) -> None:
    """Equal in form and in every bit."""
    assert difference(mine, theirs) is None
    _, tensors = flatten(mine)
    _, others = flatten(theirs)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, others[name], err_msg=name)


class Known(NamedTuple):
    """What a deployed server knows of a round."""

    unheard: set[int]
    """Devices whose last upload it has not heard: it knows an older accuracy of them."""
    reference: int
    bits_up: bool
    """False if it charged an upload that it never got by an upper bound."""


def comparable(info: dict[str, Any], known: Known) -> dict[str, Any]:
    """A round without what only a simulator knows; seconds are stated there and measured here."""
    timed = {"seconds", "slots", "slowest", "joules", "timing", "waiting"}
    kept = {name: value for name, value in info.items() if name not in timed}
    kept["waiting"] = info["waiting"]["policy"]
    accuracies = enumerate(info["scores"]["devices"])
    kept["scores"] = {
        "devices": [accuracy for device, accuracy in accuracies if device not in known.unheard],
        "global": info["scores"]["global"],
    }
    if known.reference in known.unheard:
        kept["curve"] = []
    else:
        kept["scores"]["reference"] = info["scores"]["reference"]
    kept["curve"] = [(p["step"], p["score"], p["event"]) for p in kept["curve"]]
    if not known.bits_up:
        kept["bits"] = {"down": info["bits"]["down"]}
    return kept


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
