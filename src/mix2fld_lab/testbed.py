"""A real asymmetric link on one machine: devices in network namespaces, behind shaped links.

Each device has a namespace of its own and a wire to the server's, whose two ends are shaped with
``tc tbf``. What crosses a wire is read from the interface of the device whenever its SuperNode
logs a line: so every transfer has its bytes and its seconds.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.deploy.settings import Settings
from mix2fld.engine.info import RoundInfo
from mix2fld.native.processor import usable_cores
from mix2fld.protocols.table import single_runs
from mix2fld.runs.link_plan import plan_link
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.types import Dataset
from mix2fld_lab.trials.federation import Federation
from mix2fld_lab.trials.flower import follow_run, node_config
from mix2fld_lab.trials.processes import START_SECONDS
from mix2fld_lab.trials.trial import with_absolute_paths, write_device_files

SERVER = "10.77.0.1"
SETTLE_SECONDS, IDLE_SECONDS = 5.0, 60.0
QUEUE_BYTES = 1 << 20
PACKET_BYTES, LARGEST_BURST = 1600, 4096
"""What ``tc tbf`` lets pass at once: one packet at least, or larger ones are lost."""
# Runs a command and writes its lines with the time and the bytes sent and received so far.
STAMP = """
import subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
def count(name):
    with open("/sys/class/net/uplink/statistics/" + name) as file:
        return file.read().strip()
for line in process.stdout:
    stamp = f"{time.time():.4f} {count('tx_bytes')} {count('rx_bytes')} "
    sys.stdout.buffer.write(stamp.encode() + line)
    sys.stdout.flush()
"""
KIND = re.compile(r"/(flwr|flower)-\w+$")
KILOBYTES = re.compile(r"VmHWM:\s+(\d+)")
LINE = re.compile(r"^(\d+\.\d+) (\d+) (\d+) .*?(Sending|Receiving|Sent|Received)\b(?:: (\S+))?")
TRANSFERS = {
    ("Sending", "train"): "upload",
    ("Receiving", "query.download"): "download",
    ("Receiving", "train"): "order",
}


class Rates(NamedTuple):
    """What a wire carries, in bits a second."""

    up: float
    down: float


class Moved(NamedTuple):
    """One transfer, as the device's interface saw it."""

    transfer: str  # upload, download or order
    round: int
    seconds: float
    wire_bytes: int


def check_possible() -> None:
    """Say what is missing for network namespaces."""
    if sys.platform != "linux":
        raise InputError(field="testbed", hint="needs network namespaces, which only Linux has")
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise InputError(
            field="testbed", hint=f"{' and '.join(missing)} not found: apt-get install iproute2"
        )
    if os.geteuid() != 0:
        raise InputError(
            field="testbed", hint="making network namespaces needs root; run it with sudo"
        )


@contextmanager
def wires(devices: int, rates: Rates) -> Iterator[tuple[str, list[str]]]:
    """Namespaces of the server and of each device, with a shaped wire between; gone afterwards."""
    name = f"mix2fld{os.getpid()}"
    server, nodes = f"{name}s", [f"{name}d{device}" for device in range(devices)]
    try:
        for namespace in (server, *nodes):
            _ip(f"netns add {namespace}")
            _ip(f"-n {namespace} link set lo up")
            _call(f"ip netns exec {namespace} sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
        _ip(f"-n {server} link add hub type bridge")
        _ip(f"-n {server} address add {SERVER}/24 dev hub")
        _ip(f"-n {server} link set hub up")
        for device, node in enumerate(nodes):
            wire = f"wire{device}"
            _ip(f"-n {node} link add uplink type veth peer name {wire} netns {server}")
            _ip(f"-n {node} address add 10.77.0.{10 + device}/24 dev uplink")
            _ip(f"-n {node} link set uplink up")
            _ip(f"-n {server} link set {wire} master hub up")
            _shape(node, "uplink", rates.up)
            _shape(server, wire, rates.down)
        yield server, nodes
    finally:
        for namespace in (server, *nodes):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


class ShapedFederation(Federation):
    """A federation whose SuperLink and nodes are in namespaces; its nodes are Flower's own."""

    node_program = ("flower-supernode",)

    def __init__(self, folder: Path, server: str) -> None:
        super().__init__(folder, host=SERVER, inside=["ip", "netns", "exec", server])

    def start_shaped_node(self, device: int, namespace: str, samples: Path) -> None:
        """A SuperNode in its namespace, with a log that says what crossed the wire when."""
        stamped = [sys.executable, "-I", "-S", "-c", STAMP]
        wrap = ["ip", "netns", "exec", namespace, *stamped]
        self.start_node(device, node_config(samples), wrap)

    def peak_memory_mb(self) -> dict[str, float]:
        """The most memory that each kind of process has had so far, of those that are running."""
        peaks: dict[str, float] = {}
        for entry in self.own_processes():
            with suppress(OSError, StopIteration):
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                kind = next(Path(word).name for word in words if KIND.search(word))
                peak = KILOBYTES.search((entry / "status").read_text())
                found = int(peak.group(1)) / 1024 if peak else 0.0
                peaks[kind] = max(peaks.get(kind, 0.0), found)
        return peaks


class Observer(Watcher):
    """Passes on what it is told, and looks at the memory of all processes from time to time."""

    def __init__(self, federation: ShapedFederation, watcher: Watcher) -> None:
        self._federation, self._watcher = federation, watcher
        self.peaks: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, config: Config, rounds_done: int) -> None:
        """A run starts."""
        self._watcher.begin(config, rounds_done)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """A round is over."""
        self._watcher.round_done(config, info)

    def end(self, result: RunResult) -> None:
        """A run is over."""
        self._watcher.end(result)

    def _look(self) -> None:
        while not self._over.wait(0.3):
            for kind, peak in self._federation.peak_memory_mb().items():
                self.peaks[kind] = max(self.peaks.get(kind, 0.0), peak)


def measure(
    grid: Grid, rates: Rates, folder: Path, dataset: Dataset, watcher: Watcher
) -> dict[str, Any]:
    """Run every protocol of ``grid`` over shaped wires; returns what was measured."""
    check_possible()
    if folder.exists():
        raise InputError(field="out", value=folder, hint="already exists; name another folder")
    singles = single_runs(with_absolute_paths(grid).replace(computing_time="measured"))
    devices = grid.data.devices
    record: dict[str, Any] = {
        "devices": devices,
        "rounds": grid.rounds,
        "kbit_s": {"up": rates.up / 1e3, "down": rates.down / 1e3},
        "samples_per_device": grid.data.samples_per_device,
        "dataset": Path(grid.data.dataset).name,
        "seed_samples": grid.seeding.seed_samples,
        "load_before": {"average": round(os.getloadavg()[0], 2), "cores": usable_cores()},
        "protocols": {},
    }
    with wires(devices, rates) as (server, nodes):
        files = write_device_files(folder / "parts", singles[0], dataset)
        with ShapedFederation(folder / "flower", server) as federation:
            federation.start_superlink()
            federation.register(range(devices))
            for device, (node, file) in enumerate(zip(nodes, files, strict=True)):
                federation.start_shaped_node(device, node, file)
            record["idle_bytes_s"] = _idle(federation, nodes)
            with Observer(federation, watcher) as observer:
                for single in singles:
                    settings = Settings(single, folder.resolve(), timeout_s=600, wait_s=600)
                    measured = _run_one(federation, settings, observer, rates)
                    record["protocols"][single.protocol] = measured
            record["memory_mb"] = {kind: round(mb) for kind, mb in sorted(observer.peaks.items())}
    return record


def _run_one(
    federation: Federation, settings: Settings, watcher: Watcher, rates: Rates
) -> dict[str, Any]:
    names = [f"device-{device}" for device in range(settings.config.data.devices)]
    before = [len(federation.log(name)) for name in names]
    result = follow_run(federation, settings, watcher)
    logs = [federation.log(name)[start:] for name, start in zip(names, before, strict=True)]
    moved = [some for log in logs for some in transfers_in(log)]
    seconds = [info["seconds"] for info in result.rounds]
    return {
        "transfers": _summary(moved, _predicted(settings.config, rates)),
        "round_s": statistics.median(s["communication"] + s["computing"] for s in seconds),
        "computing_s": statistics.median(s["computing"] for s in seconds),
        "uploads": result.summary["uploads"],
        "accuracy": result.summary["scores"]["mean"],
    }


def _idle(federation: Federation, nodes: Sequence[str]) -> dict[str, float]:
    """Bytes a second that a node sends and receives while it is asked for nothing."""
    deadline = time.monotonic() + START_SECONDS
    while any("SuperNode ID" not in federation.log(f"device-{d}") for d in range(len(nodes))):
        if time.monotonic() > deadline:
            raise InputError(field="testbed", hint=f"nodes do not connect; see {federation.logs}")
        time.sleep(0.5)
    time.sleep(SETTLE_SECONDS)
    before = [_counts(node) for node in nodes]
    time.sleep(IDLE_SECONDS)
    after = [_counts(node) for node in nodes]
    moved = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(after, before, strict=True)]
    up, down = (statistics.mean(some) / IDLE_SECONDS for some in zip(*moved, strict=True))
    return {"up": up, "down": down}


def _counts(namespace: str) -> tuple[int, int]:
    """Bytes that a device's interface has sent and received."""
    folder = "/sys/class/net/uplink/statistics"
    command = ["ip", "netns", "exec", namespace, "cat", f"{folder}/tx_bytes", f"{folder}/rx_bytes"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sent, received = map(int, said.split())
    return sent, received


def transfers_in(log: str) -> list[Moved]:
    """Every upload and download that a stamped log tells of.

    A download that did not come by itself came with the next order.
    """
    found = _moved(log)
    alone = {one.round for one in found if one.transfer == "download"}
    carried = [
        one._replace(transfer="download", round=one.round - 1)
        for one in found
        if one.transfer == "order" and one.round > 1 and one.round - 1 not in alone
    ]
    return [one for one in found if one.transfer != "order"] + carried


def _moved(log: str) -> list[Moved]:
    found: list[Moved] = []
    began: tuple[str, float, int, int] | None = None
    rounds = 0
    for line in log.splitlines():
        if mentioned := re.search(r"ROUND (\d+)\]", line):
            rounds = int(mentioned.group(1))
        match = LINE.match(line)
        if match is None:
            continue
        moment, sent, received = float(match[1]), int(match[2]), int(match[3])
        if match[4] in {"Sending", "Receiving"}:
            kind = TRANSFERS.get((match[4], match[5]))
            began = None if kind is None else (kind, moment, sent, received)
        elif began is not None:
            kind, start, *counts = began
            moved = sent - counts[0] if kind == "upload" else received - counts[1]
            found.append(Moved(kind, rounds, moment - start, moved))
            began = None
    return found


def _summary(
    moved: Sequence[Moved], predicted: Mapping[str, tuple[int, float]]
) -> dict[str, dict[str, Any]]:
    """Medians over devices and rounds of each kind of transfer, beside the prediction."""
    kinds: dict[str, list[Moved]] = {name: [] for name in predicted}
    with_seeds = "first upload" in predicted
    for one in moved:
        uploads = "first upload" if one.round == 1 else "later uploads"
        kinds[uploads if with_seeds and one.transfer == "upload" else one.transfer].append(one)
    return {
        name: {
            "payload_bytes": predicted[name][0],
            "predicted_s": predicted[name][1],
            "wire_bytes": statistics.median(one.wire_bytes for one in some),
            "measured_s": statistics.median(one.seconds for one in some),
            "slowest_s": max(one.seconds for one in some),
            "count": len(some),
        }
        for name, some in kinds.items()
        if some
    }


def _predicted(config: Config, rates: Rates) -> dict[str, tuple[int, float]]:
    """What ``mix2fld link`` says of the payloads alone, on a link of these rates, no fading."""
    bits_per_hz = 2.0  # log2(1 + theta) of the default threshold
    bandwidth = rates.down / bits_per_hz
    link = config.replace(
        link="rayleigh",
        bandwidth_hz=bandwidth,
        uplink_channels=rates.up * config.data.devices / rates.down,
        uplink_power_dbm=100,
        downlink_power_dbm=100,
        distance_m=1,
        slot_ms=1,
        max_slots=1_000_000,
    )
    slot = 1e-3
    return {
        plan.transfer: (-(-plan.budget.bits // 8), (plan.budget.slots_needed or 0) * slot)
        for plan in plan_link(link)
    }


def _shape(namespace: str, interface: str, rate: float) -> None:
    tc = f"tc -n {namespace} qdisc add dev {interface} root tbf"
    _call(f"{tc} rate {rate:.0f}bit burst {burst_bytes(rate)} limit {QUEUE_BYTES}")


def burst_bytes(rate: float) -> int:
    """The bucket of a wire: a millisecond of its rate, but room for a packet and for few."""
    return round(min(max(PACKET_BYTES, rate / 8 / 1000), LARGEST_BURST))


def _ip(arguments: str) -> None:
    _call(f"ip {arguments}")


def _call(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(field="testbed", hint=f"{command} failed: {done.stderr.strip()}")
