"""The Ray fleet measured: ``python -m benchmarks.cluster`` measures and writes the page.

Overhead over the fleet of this process on the paper's work, rounds of 100,000 devices, and the
parts from which a model of 1,000 cores is fitted. ``--only NAME ...`` measures some rows, ``page``
only writes the page (``docs/cluster_scaling.md``).
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster_page import PAGE, render
from benchmarks.machine import describe

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "cluster.json"
HOSTS = 2
MANY: dict[str, Any] = {
    "devices": 100_000, "participants": 1000, "reuse_samples": True, "local_steps": 20,
    "server_steps": 20, "curve_points": 1, "link": "ideal",
}  # fmt: skip
ROWS: dict[str, tuple[str, dict[str, Any], int]] = {
    "paper-fl": ("overhead", {"protocols": "fl", "link": "ideal"}, 5),
    "paper-mix2fld": ("overhead", {"protocols": "mix2fld"}, 5),
    "many-fl": ("many", {"protocols": "fl", **MANY}, 10),
    "many-fl8": ("many", {"protocols": "fl8", **MANY}, 10),
    "many-mix2fld": ("many", {"protocols": "mix2fld", **MANY}, 10),
    "parts": ("parts", {}, 0),
    "flower": ("flower", {}, 1),
}


def main(arguments: list[str]) -> None:
    """Measure all rows, or what the arguments say; then write the page."""
    if arguments[:1] == ["row"]:
        print(json.dumps(measure(arguments[1])), flush=True)
        return
    names = arguments[1:] if arguments[:1] == ["--only"] else list(ROWS)
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"rows": {}}
    for name in names if arguments != ["page"] else []:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cluster", "row", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or "no message").splitlines()[-1][:300]
            print(f"{name}: failed: {said}", flush=True)
            continue
        record["rows"][name] = json.loads(done.stdout.strip().splitlines()[-1])
        record["machine"] = describe()
        print(name, record["rows"][name], flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(record))


def measure(name: str) -> dict[str, Any]:
    """One row."""
    kind, changes, rounds = ROWS[name]
    load = round(os.getloadavg()[0], 2)
    if kind == "flower":
        from benchmarks.many_peers import flower

        seconds = flower(MANY["devices"], MANY["participants"], MANY["local_steps"], rounds)
        return {"seconds": statistics.median(seconds), "load_before": load}
    from mix2fld.fleet.cluster import connected
    from mix2fld.fleet.hosts import Hosts

    with connected("", "fleet", HOSTS) as ray:
        hosts = Hosts(ray, HOSTS)
        hosts.ready()
        if kind == "parts":
            return {**measure_parts(hosts), "load_before": load}
        return {**measure_fleets(changes, rounds, hosts), "load_before": load}


def measure_fleets(changes: dict[str, Any], rounds: int, hosts: Any) -> dict[str, Any]:
    """The same rounds by both fleets, in turn, so that both meet the same machine."""
    from mix2fld.config import Config
    from mix2fld.data import load_dataset
    from mix2fld.fleet.local import LocalFleet
    from mix2fld.fleet.ray_fleet import RayFleet
    from mix2fld.round.one_round import run_round, start_run
    from mix2fld.runs.simulation import make_scenario

    config = Config.of(**changes, rounds=rounds + 1)
    dataset = load_dataset(config.data)
    scenario = make_scenario(config, dataset)
    ray_fleet = RayFleet(hosts, scenario, dataset)
    fleets = {"local": LocalFleet(scenario, dataset), "ray": Counting(ray_fleet)}
    states = {name: start_run(scenario, fleet) for name, fleet in fleets.items()}
    seconds: dict[str, list[float]] = {name: [] for name in fleets}
    for _ in range(rounds + 1):
        for name, fleet in fleets.items():
            started = time.perf_counter()
            states[name], _ = run_round(scenario, fleet, states[name])
            seconds[name].append(time.perf_counter() - started)
    found: dict[str, Any] = {}
    for name, values in seconds.items():
        timed = values[1:]  # the first compiles
        found |= {name: statistics.median(timed), f"{name}_range": [min(timed), max(timed)]}
    pids = hosts.ray.get([host.pid.remote() for host in hosts.ready()])
    return {
        **found,
        "driver_gb": peak_gb(os.getpid()),
        "host_gb": max(peak_gb(pid) for pid in pids),
        "bytes": fleets["ray"].bytes // (rounds + 1),
    }


class Counting:
    """A Ray fleet whose bytes between driver and hosts are counted."""

    def __init__(self, inner: Any) -> None:
        from mix2fld.fleet.shard_messages import Known

        self.inner, self.bytes = inner, 0
        dump, load = Known.dump, Known.load

        def counted_dump(known: Any, value: Any) -> bytes:
            data = dump(known, value)
            self.bytes += len(data)
            return data

        def counted_load(known: Any, data: bytes) -> Any:
            self.bytes += len(data)
            return load(known, data)

        Known.dump, Known.load = counted_dump, counted_load  # type: ignore[method-assign]

    def train(self, states: Any, order: Any) -> Any:
        underway, trained = self.inner.train(states, order)
        self.bytes += sum(
            len(p.knowledge.data) + (len(p.seeds.data) if p.seeds else 0)
            for p in trained.packets.values()
        )
        return underway, trained

    def deliver(self, states: Any, outcome: Any) -> Any:
        self.bytes += len(states.shards) * len(outcome.download or b"")
        return self.inner.deliver(states, outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def measure_parts(hosts: Any) -> dict[str, float]:
    """What a message and a byte cost, of which the model of many cores is made."""
    import numpy as np

    ray, handles = hosts.ray, hosts.ready()
    ray.get([host.pid.remote() for host in handles])
    started = time.perf_counter()
    for _ in range(200):
        ray.get([host.pid.remote() for host in handles])
    message = (time.perf_counter() - started) / (200 * len(handles))
    data = np.random.default_rng(0).bytes(64 << 20)

    @ray.remote(num_cpus=0)
    def echo(value: bytes) -> bytes:
        return value

    ray.get(echo.remote(b""))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        ray.get(echo.remote(data))
        times.append(time.perf_counter() - started)
    return {"message_s": message, "bytes_per_s": 2 * len(data) / statistics.median(times)}


def peak_gb(pid: int) -> float:
    """Peak resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024 / 1e9


if __name__ == "__main__":
    main(sys.argv[1:])
