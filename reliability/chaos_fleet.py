"""A fleet over MQTT in network namespaces, every part of which can be struck.

Broker, front and server are in one namespace, each device in its own, behind a shaped wire. The run
of the server and the states of each device are on small disks of their own, which can be filled.
Server, broker and one device have clocks of their own, which can be set wrong. One device is a
liar: its labels are shifted by one, and now and then it sends what is no upload. One more has a key
and never trains: it floods.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.broker import Broker, largest_message
from mix2fld.engine.attacks import shift_labels
from mix2fld.runs.config_file import dump_config
from mix2fld_lab.testbed import SERVER, Rates, wires
from mix2fld_lab.trials.mqtt import MqttFleet, find_mosquitto
from mix2fld_lab.trials.processes import NamedProcesses
from mix2fld_lab.trials.trial import write_device_files

ROOT = Path(__file__).parent.parent
WIRE = Rates(up=200e3, down=400e3)
LOSS = "-m statistic --mode random --probability 0.2 -j DROP"
DISK = "size=16m"
RESTART_S, END_S, WEEK_S = 2.0, 60.0, 7 * 86400
"""A part that ended by itself is started again, as its unit does (after 15 s there)."""
PORT, BROKER_PORT = 8883, 8884


class Times(NamedTuple):
    """How long the server waits."""

    timeout_s: float = 8.0
    wait_s: float = 5.0


TIMES = Times()


class ChaosFleet(MqttFleet):
    """Devices 0 to n - 3 are honest, n - 2 is the liar, n - 1 the flooder."""

    def __init__(self, folder: Path, config: Config, times: Times = TIMES) -> None:
        data = load_dataset(config.data)
        self.config, self.devices = config, config.data.devices
        self.liar, self.flooder = self.devices - 2, self.devices - 1
        folder = folder.resolve()
        states = {f"device-{n}": folder / f"device-{n}" / "state" for n in range(self.devices)}
        self.disks = {"server": folder / "disk", "broker": folder / "broker", **states}
        files = write_device_files(folder, config, data)
        with np.load(files[self.liar]) as honest:
            false = dict(honest)
        false["train_labels"] = shift_labels(false["train_labels"], data.num_labels)
        np.savez(files[self.liar], **false)
        super().__init__(folder, files, largest_message(config), front=True)
        self.port, self._broker_port = PORT, BROKER_PORT
        self._times, self._inside = times, dict[str, list[str]]()
        self.away = set[str]()
        """Parts that were killed, and are not to be started yet."""
        self.ends: list[tuple[str, int, str]] = []
        """Parts that ended by themselves: name, exit code, last words."""

    @property
    def run_folder(self) -> Path:
        """Where the server keeps its run."""
        return self.disks["server"] / "runs" / self.config.run_name

    def __enter__(self) -> "ChaosFleet":
        self._wires = wires(self.devices, WIRE)
        self.hub, self.nodes = self._wires.__enter__()
        for device, node in enumerate(self.nodes):
            self._inside[f"device-{device}"] = ["ip", "netns", "exec", node]
        for disk in self.disks.values():
            disk.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "chaos", str(disk)], check=True)
        self.logs.mkdir(exist_ok=True)
        build = ["cc", "-O2", "-shared", "-fPIC", "-o", str(self.folder / "clock.so")]
        subprocess.run([*build, str(ROOT / "reliability" / "clock.c")], check=True)
        self.set_clock("keys", -WEEK_S)  # or a clock that is behind would not accept them yet
        keys = [*self._by_clock(self.folder / "clock-keys"), sys.executable, "-P", "-m", "mix2fld"]
        keys += ["deploy", "keys", SERVER, "--transport", "mqtt", "--devices", str(self.devices)]
        keys += ["--protocols", self.config.protocol, "--out", str(self.keys)]
        subprocess.run(keys, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        (self.folder / "run.toml").write_text(dump_config(self.config))
        for part in self.parts:
            self.begin(part)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(KeyError, subprocess.TimeoutExpired):
            self._processes["server"].wait(END_S if error == (None, None, None) else 0)
        self.stop(*list(self._processes))
        for disk in self.disks.values():
            kept = disk.with_name(disk.name + "-kept")
            shutil.copytree(disk, kept, ignore_dangling_symlinks=True)
            subprocess.run(["umount", str(disk)], check=True)
            disk.rmdir()
            kept.rename(disk)
        self._wires.__exit__(None, None, None)

    @property
    def parts(self) -> list[str]:
        """All that a unit would keep running, in the order of their start."""
        return ["broker", "front", *(f"device-{n}" for n in range(self.devices - 1)), "server"]

    def begin(self, part: str) -> None:
        """Start a part; it may end at once."""
        if part == "broker":
            self.start_broker()
        elif part == "front":
            self.start_front()
        elif part == "server":
            command = [sys.executable, "-P", "-m", "mix2fld", "deploy", "server"]
            command += [f"{SERVER}:{PORT}", "--keys", str(self.keys)]
            command += ["--config", str(self.folder / "run.toml")]
            command += ["--out", str(self.run_folder.parent)]
            command += ["--timeout-s", str(self._times.timeout_s)]
            self.start("server", [*command, "--wait-s", str(self._times.wait_s)])
        else:
            self._begin_device(int(part.partition("-")[2]))

    def keep(self) -> None:
        """Start again what has ended by itself, unless it is to stay away or the run is over."""
        for part in self.parts:
            if part in self.away or (part in self._processes and self.alive(part)):
                continue
            if part in self._processes:
                code, said = self._processes[part].returncode, self.log(part).strip().splitlines()
                self.kill(part)
                self.ends.append((part, code, said[-1] if said else ""))
                if part == "server" and code == 0:
                    return
                time.sleep(RESTART_S)
            self.begin(part)

    def start_broker(self) -> None:
        """Mosquitto, without waiting."""
        broker = Broker(
            self.keys, self.disks["broker"], self._largest, self.devices,
            f"{BROKER_PORT} 127.0.0.1", user="root",
        )  # fmt: skip
        self.start("broker", [find_mosquitto(), "-c", str(broker.write(self.keys))])

    def start_front(self) -> None:
        """The front, without waiting."""
        command = [sys.executable, "-P", "-m", "mix2fld.deploy.front", "--listen", str(PORT)]
        command += ["--broker", f"127.0.0.1:{BROKER_PORT}", "--places", str(1000 + self.devices)]
        self.start("front", command)

    def _begin_device(self, device: int) -> None:
        file = self.files[device]
        program = ["-m", "mix2fld.deploy.edge"]
        if device == self.liar:
            program = [str(ROOT / "reliability" / "chaos_liar.py")]
        command = [sys.executable, "-P", *program, "--device", str(device), "--keep-alive-s", "15"]
        command += ["--broker", f"{SERVER}:{PORT}", "--keys", str(self.keys)]
        command += ["--data", str(file.resolve()), "--state", str(self.disks[f"device-{device}"])]
        self.start(f"device-{device}", command)

    def start_flooder(self, seconds: float) -> None:
        """Somebody with the key of the last device sends as much as it can."""
        command = [sys.executable, "-P", str(ROOT / "reliability" / "chaos_flooder.py")]
        command += [f"{SERVER}:{PORT}", str(self.keys), str(self.flooder), str(seconds)]
        self.start(f"device-{self.flooder}", command)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process where it belongs, with a clock of its own."""
        inside = self._inside.get(name, ["ip", "netns", "exec", self.hub])
        clock = self.folder / f"clock-{name}"
        if name in CLOCKS:
            clock.exists() or clock.write_text("+0")
            inside = [*inside, *self._by_clock(clock)]
        NamedProcesses.start(self, name, [*inside, *command])

    def _by_clock(self, clock: Path) -> list[str]:
        return ["env", f"LD_PRELOAD={self.folder / 'clock.so'}", f"MIX2FLD_CLOCK={clock}"]

    def set_clock(self, name: str, seconds: float) -> None:
        """So much off the true time, from now on."""
        part = self.folder / "clock.part"
        part.write_text(f"{seconds:+.0f}")
        part.rename(self.folder / f"clock-{name}")

    def shape(self, device: int, rates: Rates) -> None:
        """What a wire carries from now on."""
        ends = ((self.nodes[device], "uplink", rates.up), (self.hub, f"wire{device}", rates.down))
        for namespace, end, rate in ends:
            command = f"tc -n {namespace} qdisc replace dev {end} root tbf rate {rate:.0f}bit"
            subprocess.run([*command.split(), "burst", "1600", "limit", "1048576"], check=True)

    def lose(self, device: int, change: str) -> None:
        """Begin (``-A``) or end (``-D``) to lose every fifth packet of a device, either way."""
        for way in ("INPUT", "OUTPUT"):
            command = f"ip netns exec {self.nodes[device]} iptables {change} {way} {LOSS}"
            subprocess.run(command.split(), check=True)

    def set_wire(self, device: int, state: str) -> None:
        """Take a wire down, or up; nobody is told."""
        command = f"ip -n {self.hub} link set wire{device} {state}"
        subprocess.run(command.split(), check=True)

    @contextmanager
    def without(self, part: str) -> Iterator[None]:
        """Kill a part with -9; it is started again after the block."""
        self.away.add(part)
        if part in self._processes:
            self.kill(part)
        try:
            yield
        finally:
            self.away.discard(part)

    @contextmanager
    def full_disk(self, part: str) -> Iterator[None]:
        """Nothing fits on the disk of a part any more within the block."""
        ballast = self.disks[part] / "ballast"
        with ballast.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        with suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(1))
        try:
            yield
        finally:
            ballast.unlink()


CLOCKS = ("server", "broker", "device-1")
"""Parts whose clock can be set wrong."""


def toy_file(folder: Path, data: Any) -> Path:
    """A dataset as a file that a config can name."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    np.savez(folder / "toy.npz", **{name: getattr(data, name) for name in names})
    return folder / "toy.npz"


def private_mounts(arguments: Sequence[str]) -> None:
    """Run this command again where its mounts are nobody else's, and gone when it ends."""
    if os.environ.get("MIX2FLD_CHAOS_MOUNTS"):
        return
    os.environ["MIX2FLD_CHAOS_MOUNTS"] = "1"
    os.execvp(
        "unshare", ["unshare", "--mount", sys.executable, "-m", "reliability.chaos", *arguments]
    )
