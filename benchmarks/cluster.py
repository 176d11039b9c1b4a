"""The Ray fleet measured: ``python -m benchmarks.cluster`` measures and writes the page.

Overhead over the fleet of this process on the paper's work, rounds of 100,000 devices, other
frameworks on the same round, what the driver keeps, and rounds of several sizes, to which a model
of 1,000 cores is fitted. A record begins anew; ``--only NAME ...`` measures some of its rows again,
which the page says, ``page`` only writes the page (``docs/cluster_scaling.md``).
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import usage
from benchmarks.cluster_page import PAGE, render
from benchmarks.cluster_peers import measure_peers, tell
from benchmarks.cluster_sizes import measure_sizes
from benchmarks.cluster_states import measure_states
from benchmarks.machine import describe, percent_busy

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "cluster.json"
HOSTS = 2
PEER_ROUNDS = 3
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
    "memory-fl": ("memory", {"protocols": "fl", **MANY}, 3),
    "memory-fl8": ("memory", {"protocols": "fl8", **MANY}, 3),
    "memory-mix2fld": ("memory", {"protocols": "mix2fld", **MANY}, 3),
    "sizes": ("sizes", {}, 0),
    "states-fd-memory": ("states", {"protocol": "fd", "where": "memory"}, 0),
    "states-fd-disk": ("states", {"protocol": "fd", "where": "disk"}, 0),
    "states-stc-memory": ("states", {"protocol": "stc", "where": "memory"}, 0),
    "states-stc-disk": ("states", {"protocol": "stc", "where": "disk"}, 0),
    "peers": ("peers", {}, 0),
}


def main(arguments: list[str]) -> None:
    """Measure all rows, or what the arguments say; then write the page."""
    if arguments[:1] == ["row"]:
        print(json.dumps(measure(arguments[1])), flush=True)
        return
    if arguments[:1] == ["fl"]:
        tell_rounds(Path(arguments[1]))
        return
    if arguments == ["page"]:
        PAGE.write_text(render(json.loads(RECORD.read_text())))
        return
    only = arguments[:1] == ["--only"]
    record: dict[str, Any] = json.loads(RECORD.read_text()) if only else {"rows": {}, "again": []}
    for name in arguments[1:] if only else ROWS:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cluster", "row", name]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"{name}: failed", flush=True)
            continue
        record["rows"][name] = json.loads(done.stdout.strip().splitlines()[-1])
        record["machine"] = describe()
        record["again"] += [name] if only else []
        print(name, record["rows"][name], flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(record))


def measure(name: str) -> dict[str, Any]:
    """One row."""
    kind, changes, rounds = ROWS[name]
    if kind == "peers":
        return measure_peers()
    busy = {"busy_before": percent_busy()}
    if kind == "sizes":
        return measure_sizes() | busy
    from mix2fld.engine.fleets.cluster import connected
    from mix2fld.engine.fleets.hosts import Hosts

    with connected("", "fleet", HOSTS) as ray:
        hosts = Hosts(ray, HOSTS)
        hosts.ready()
        if kind == "states":
            return measure_states(**changes, hosts=hosts) | busy
        beside = kind != "memory"
        return measure_fleets(changes, rounds, hosts, beside) | busy


def measure_fleets(
    changes: dict[str, Any], rounds: int, hosts: Any, beside: bool
) -> dict[str, Any]:
    """Rounds on the Ray fleet; ``beside``, in turn with those of the fleet of this process."""
    from mix2fld.config.settings import Config
    from mix2fld.data import load_dataset
    from mix2fld.engine.fleets.local import LocalFleet
    from mix2fld.engine.fleets.ray_fleet import RayFleet
    from mix2fld.engine.one_round import run_round, start_run
    from mix2fld.runs.simulation import make_scenario

    config = Config.of(**changes, rounds=rounds + 1)
    dataset = load_dataset(config.data)
    scenario = make_scenario(config, dataset)
    fleets: dict[str, Any] = {"local": LocalFleet(scenario, dataset)} if beside else {}
    fleets["ray"] = Counting(RayFleet(hosts, scenario, dataset))
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
        from mix2fld.engine.fleets import ray_fleet, shard_messages

        self.inner, self.bytes = inner, 0

        def counted_dump(*given: Any) -> bytes:
            data = shard_messages.dump_states(*given)
            self.bytes += len(data)
            return data

        def counted_load(data: bytes, *given: Any) -> Any:
            self.bytes += len(data)
            return shard_messages.load_states(data, *given)

        ray_fleet.dump_states, ray_fleet.load_states = counted_dump, counted_load  # type: ignore[attr-defined]

    def train(self, states: Any, order: Any) -> Any:
        underway, trained = self.inner.train(states, order)
        self.bytes += sum(
            len(message.body.data) + (len(message.once.data) if message.once else 0)
            for message in trained.messages.values()
        )
        return underway, trained

    def deliver(self, states: Any, outcome: Any) -> Any:
        self.bytes += len(states.shards) * len(outcome.download or b"")
        return self.inner.deliver(states, outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def tell_rounds(target: Path) -> None:
    """Seconds of some rounds of FL on the Ray fleet, after one that compiles."""
    from mix2fld.config.settings import Config
    from mix2fld.data import load_dataset
    from mix2fld.engine.fleets.cluster import connected
    from mix2fld.engine.fleets.hosts import Hosts
    from mix2fld.engine.fleets.ray_fleet import RayFleet
    from mix2fld.engine.one_round import run_round, start_run
    from mix2fld.runs.simulation import make_scenario

    config = Config.of(protocols="fl", **MANY, evaluated_devices=1)
    with connected("", "fleet", HOSTS) as ray:
        hosts = Hosts(ray, HOSTS)
        dataset = load_dataset(config.data)
        scenario = make_scenario(config, dataset)
        fleet = RayFleet(hosts, scenario, dataset)
        state, _ = run_round(scenario, fleet, start_run(scenario, fleet))
        for _ in range(PEER_ROUNDS):
            started = time.perf_counter()
            state, _ = run_round(scenario, fleet, state)
            tell(target, round=time.perf_counter() - started)
        hosts.stop()


def peak_gb(pid: int) -> float:
    """Peak resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024 / 1e9


if __name__ == "__main__":
    main(usage.arguments(__doc__, "[page]", "[--only ROW ...]", "[row ROW]", "[fl FILE]"))
