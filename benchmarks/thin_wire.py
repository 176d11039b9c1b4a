"""What a low-rate link costs: bytes, seconds and memory of an MQTT fleet on shaped links.

Devices and broker are in network namespaces, as in ``mix2fld deploy testbed``; bytes are those of
the device's interface, less the 14 bytes that Ethernet adds to every packet.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import relay_cost
from benchmarks.thin_wire_page import render
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.broker import Broker, largest_message
from mix2fld.deploy.keys import make_fleet_certificates
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.link_plan import plan_all
from mix2fld.runs.loop import Watcher
from mix2fld_lab.made_with import made_with
from mix2fld_lab.testbed import SERVER, Rates, check_possible, measure, wires
from mix2fld_lab.trials.mqtt import find_mosquitto
from mix2fld_lab.trials.trial import write_device_files

PORT = 8883
FAST, NARROW = Rates(1e8, 1e8), Rates(60e3, 25e3)
RECORD = Path("results/thin_wire/thin_wire.json")
CASES = ("fd", "fd-100", "murmur", "fl")
"""Protocols; FD also with 100 labels, whose messages are longer than the shaper's bucket."""
PARTS = ("messages", "fast", "narrow", "flower", "start", "many", "relay")


def main() -> None:
    """Measure, and write the record and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle-s", type=float, default=330.0, help="seconds of the idle window")
    parser.add_argument("--clients", type=int, default=1000, help="clients of one broker")
    words = "what is measured; the rest stays as the record has it"
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help=words)
    chosen = parser.parse_args()
    if set(chosen.parts) != {"relay"}:
        check_possible()
    folder = Path("runs/thin_wire")
    shutil.rmtree(folder, ignore_errors=True)
    ways = {
        "messages": lambda: measure_messages(folder / "messages", chosen.idle_s),
        "fast": lambda: measure_runs(folder / "fast", FAST),
        "narrow": lambda: measure_runs(folder / "narrow", NARROW),
        "flower": lambda: measure_flower(folder / "flower"),
        "start": lambda: measure_start(folder / "start"),
        "many": lambda: measure_many(folder / "many", chosen.clients),
        "relay": lambda: relay_cost.measure(folder / "relay"),
    }
    for part in chosen.parts:
        keep(part, ways[part]())
    page = render(json.loads(RECORD.read_text(encoding="utf-8")))
    Path("docs/thin_wire.md").write_text(page, encoding="utf-8")


def keep(part: str, found: dict[str, Any]) -> None:
    """Put one part into the record, with the version that measured it."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    kept = {**known, part: {**found, "made_with": made_with()}}
    text = json.dumps(kept, indent=2) + "\n"
    RECORD.write_text(text, encoding="utf-8")


@contextmanager
def broker_at(
    host: str, folder: Path, config: Config, inside: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A broker with keys for all; ``inside`` is a command that runs it where the host is."""
    keys = (folder / "keys").resolve()
    make_fleet_certificates(keys, [host], config.data.devices)
    broker = Broker(
        keys, keys, largest_message(config), config.data.devices, f"{PORT} {host}", user="root"
    )
    command = [*inside, find_mosquitto(), "-c", str(broker.write(keys))]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def within(namespace: str) -> list[str]:
    """What runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace]


def config_of(protocol: str, devices: int, rounds: int, **fields: Any) -> Config:
    """The paper's network on 500 samples a device, tested on few."""
    return Config.of(
        **fields,
        protocol=protocol, devices=devices, rounds=rounds, samples_per_device=500,
        link="ideal", computing_time="measured", test_samples=500, curve_points=1,
        model="paper-cnn", update_bits=1352,
    )  # fmt: skip


def case_config(case: str, folder: Path) -> Config:
    """A run of three devices; images with 100 labels are made up: what they show is not sent."""
    protocol, _, labels = case.partition("-")
    if not labels:
        return config_of(protocol, 3, 4)
    rng, file = np.random.default_rng(0), folder / "labels.npz"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for kind, count in (("train", 2000), ("test", 500)):
        arrays[f"{kind}_inputs"] = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        arrays[f"{kind}_labels"] = np.arange(count, dtype=np.int32) % int(labels)
    np.savez(file, **arrays)
    return config_of(protocol, 3, 4, dataset=str(file.resolve()), partition="iid")


def measure_messages(folder: Path, idle_s: float) -> dict[str, Any]:
    """Bytes of a connection, of uploads of some sizes, and of nothing at all."""
    config = config_of("fl", 1, 1)
    with wires(1, FAST) as (server, nodes), broker_at(SERVER, folder, config, within(server)):
        command = [*within(nodes[0]), sys.executable, "-m", "benchmarks.thin_wire_probe"]
        command += [f"{SERVER}:{PORT}", str(folder / "keys"), str(idle_s)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def measure_runs(folder: Path, rates: Rates) -> dict[str, Any]:
    """Real runs of three devices: seconds of a round beside computing, and device memory."""
    found: dict[str, Any] = {"kbit_s": {"up": rates.up / 1e3, "down": rates.down / 1e3}}
    for case in CASES:
        here = folder / case
        config = case_config(case, here)
        files = write_device_files(here, config, load_dataset(config.data))
        with wires(3, rates) as (server, nodes), broker_at(SERVER, here, config, within(server)):
            found[case] = _run(here, config, server, list(zip(nodes, files, strict=True)))
        found[case]["predicted"] = predicted_seconds(config, rates)
        found[case]["load"] = os.getloadavg()[0]
    return found


def measure_flower(folder: Path) -> dict[str, Any]:
    """FD and FL over Flower on the narrow link, as ``mix2fld deploy testbed`` measures them."""
    found: dict[str, Any] = {"kbit_s": {"up": NARROW.up / 1e3, "down": NARROW.down / 1e3}}
    for case in ("fd", "fl"):
        config = case_config(case, folder)
        data = load_dataset(config.data)
        measured = measure(config, NARROW, folder / case, data, Watcher())
        found[case] = measured["protocols"][case]
        found |= {name: measured[name] for name in ("idle_bytes_s", "memory_mb")}
        found[case]["predicted"] = predicted_seconds(config, NARROW, "flower")
        found[case]["load"] = measured["load_before"]["average"]
    return found


def _run(
    folder: Path, config: Config, server: str, devices: list[tuple[str, Path]]
) -> dict[str, Any]:
    started = [
        subprocess.Popen(device_command(folder, number, *each))
        for number, each in enumerate(devices)
    ]
    command = server_command(folder, config, server)
    try:
        subprocess.run(command, check=True)
        peaks = [_peak_mb(process.pid) for process in started]
    finally:
        for process in started:
            process.terminate()
            process.wait()
    lines = (folder / "runs" / config.run_name / "rounds.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in lines][1:]  # the first one brings initial weights
    return {
        "communication_s": [info["seconds"]["communication"] for info in rounds],
        "computing_s": [info["seconds"]["computing"] for info in rounds],
        "uploads": [info["uploads"]["delivered"] for info in rounds],
        "device_mb": max(peaks),
    }


def device_command(folder: Path, number: int, node: str, file: Path) -> list[str]:
    """What starts a device in its namespace."""
    command = [*within(node), sys.executable, "-m", "mix2fld.deploy.edge", "--device", str(number)]
    command += ["--broker", f"{SERVER}:{PORT}", "--keys", str(folder / "keys")]
    return [*command, "--data", str(file), "--state", str(file.parent / "state")]


def server_command(folder: Path, config: Config, server: str) -> list[str]:
    """What starts the server in its namespace."""
    (folder / "run.toml").write_text(dump_config(config), encoding="utf-8")
    command = [*within(server), sys.executable, "-m", "mix2fld", "deploy", "server"]
    command += [f"{SERVER}:{PORT}", "--keys", str(folder / "keys")]
    command += ["--config", str(folder / "run.toml"), "--out", str(folder / "runs")]
    return [*command, "--quiet"]


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def predicted_seconds(config: Config, rates: Rates, transport: str = "mqtt") -> dict[str, float]:
    """What ``mix2fld link --transport`` says of the transfers of a later round."""
    found = {}
    for transfer in plan_all(config, transport=transport).transfers:
        if not transfer.only_first:
            rate = rates.up if transfer.budget.direction == "uplink" else rates.down
            found[transfer.budget.direction] = transfer.size.bits / rate
    return found


def measure_start(folder: Path) -> dict[str, Any]:
    """From starting a device's process to the end of its first round: seconds, and of processor."""
    found: dict[str, Any] = {"s": [], "processor_s": [], "load": os.getloadavg()[0]}
    for trial in range(3):
        here, config = folder / str(trial), config_of("fd", 1, 1)
        (file,) = write_device_files(here, config, load_dataset(config.data))
        with wires(1, FAST) as (server, nodes), broker_at(SERVER, here, config, within(server)):
            serving = subprocess.Popen(server_command(here, config, server))
            diary = here / "runs" / config.run_name / "diary.log"
            while not diary.parent.exists():
                time.sleep(0.05)
            time.sleep(5)
            began = time.monotonic()
            device = subprocess.Popen(device_command(here, 0, nodes[0], file))
            rounds = diary.with_name("rounds.jsonl")
            while not rounds.exists():
                time.sleep(0.002)
            found["s"].append(time.monotonic() - began)
            found["processor_s"].append(_processor_seconds(device.pid))
            serving.wait()
            device.terminate()
            device.wait()
    return found


def measure_many(folder: Path, clients: int) -> dict[str, Any]:
    """A round of many clients on one broker, all on loopback."""
    found: dict[str, Any] = {"clients": clients}
    for protocol in ("fd", "murmur"):
        command = [sys.executable, "-m", "benchmarks.thin_wire_load", str(folder / protocol)]
        command += [protocol, str(clients)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        found[protocol] = json.loads(said.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
