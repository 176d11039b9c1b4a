"""Rounds of several sizes on the Ray fleet, and a model of many cores fitted to them.

Wall time of a machine that others use says little, so the seconds of processors are fitted: those
of the driver with Ray's own processes, and those of the hosts. Each is a sum of parts whose costs
cannot be negative, found by least squares of relative errors.
"""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROUNDS = 5
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
DRIVER_PARTS = ("round", "host", "device", "byte", "rounded")
HOST_PARTS = ("round", "host", "device", "step")


class Size(NamedTuple):
    """A round that is measured."""

    hosts: int
    participants: int
    steps: int
    protocol: str
    model: str = "paper-cnn"


SIZES = [
    Size(1, 100, 20, "fl"), Size(2, 100, 20, "fl"), Size(4, 100, 20, "fl"),
    Size(2, 300, 20, "fl"), Size(2, 1000, 20, "fl"), Size(4, 1000, 20, "fl"),
    Size(2, 1000, 1, "fl"), Size(2, 300, 200, "fl"), Size(2, 1000, 20, "fl8"),
    Size(4, 300, 20, "fl8"), Size(2, 2000, 20, "fl"), Size(4, 2000, 20, "fl8"),
    Size(2, 100, 20, "fl", "mlp"), Size(2, 300, 20, "fl", "mlp"), Size(4, 300, 20, "fl", "mlp"),
]  # fmt: skip


def measure_sizes() -> dict[str, Any]:
    """Every size on as many hosts as it names, all on the cores of this machine."""
    from mix2fld.engine.fleets.cluster import connected
    from mix2fld.engine.fleets.hosts import Hosts

    found = []
    for count in sorted({size.hosts for size in SIZES}):
        with connected("", "fleet", count) as ray:
            hosts = Hosts(ray, count)
            hosts.ready()
            found += [_measure(size, hosts) for size in SIZES if size.hosts == count]
            hosts.stop()
    return {"rounds": found}


def _measure(size: Size, hosts: Any) -> dict[str, Any]:
    from benchmarks.cluster import Counting
    from mix2fld.config.settings import Config
    from mix2fld.data import load_dataset
    from mix2fld.engine.fleets.ray_fleet import RayFleet
    from mix2fld.engine.one_round import run_round, start_run
    from mix2fld.runs.simulation import make_scenario

    config = Config.of(
        protocol=size.protocol, model=size.model, devices=20_000, participants=size.participants,
        local_steps=size.steps, reuse_samples=True, curve_points=1, evaluated_devices=1,
        link="ideal", rounds=ROUNDS + 1,
    )  # fmt: skip
    dataset = load_dataset(config.data)
    scenario = make_scenario(config, dataset)
    fleet = Counting(RayFleet(hosts, scenario, dataset))
    state, _ = run_round(scenario, fleet, start_run(scenario, fleet))
    pids = hosts.ray.get([host.pid.remote() for host in hosts.ready()])
    others = [os.getpid(), *_ray_processes()]
    before, wall, fleet.bytes = (_cpu_s(others), _cpu_s(pids)), time.perf_counter(), 0
    for _ in range(ROUNDS):
        state, _ = run_round(scenario, fleet, state)
    return {
        **size._asdict(),
        "driver_s": (_cpu_s(others) - before[0]) / ROUNDS,
        "hosts_s": (_cpu_s(pids) - before[1]) / ROUNDS,
        "wall_s": (time.perf_counter() - wall) / ROUNDS,
        "bytes": fleet.bytes / ROUNDS,
    }


def _ray_processes() -> list[int]:
    """The raylet and the control store that this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if words else 0
        except OSError:
            continue
        named = words and words[0].endswith((b"/raylet", b"/gcs_server"))
        if named and parent == os.getpid():
            found.append(int(entry.name))
    return found


def _cpu_s(pids: list[int]) -> float:
    """Seconds of processors that some processes have used."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total * TICK_S


class Fit(NamedTuple):
    """Costs by part, and the seconds of each round that is measured, as fitted."""

    driver: dict[str, float]
    hosts: dict[str, float]
    driver_s: list[float]
    hosts_s: list[float]


def fit(rounds: list[dict[str, Any]]) -> Fit:
    """Both sums: the driver's of all sizes, the hosts' of those with the paper's network."""
    driver, driver_s = _least_squares(
        DRIVER_PARTS,
        [[1, r["hosts"], r["participants"], r["bytes"], _rounded(r)] for r in rounds],
        [r["driver_s"] for r in rounds],
    )
    own = [r for r in rounds if r["model"] == "paper-cnn"]
    hosts, hosts_s = _least_squares(
        HOST_PARTS,
        [[1, r["hosts"], r["participants"], r["participants"] * r["steps"]] for r in own],
        [r["hosts_s"] for r in own],
    )
    return Fit(driver, hosts, driver_s, hosts_s)


def _rounded(row: dict[str, Any]) -> int:
    """Devices whose upload the driver must turn back into full weights."""
    return int(row["participants"]) if row["protocol"] == "fl8" else 0


def _least_squares(
    names: tuple[str, ...], rows: list[list[float]], seconds: list[float]
) -> tuple[dict[str, float], list[float]]:
    from scipy.optimize import nnls

    counts, wanted = np.array(rows, float), np.array(seconds)
    scale: NDArray[np.float64] = counts.max(axis=0)
    costs, _ = nnls(counts / scale / wanted[:, None], np.ones(len(wanted)))
    return dict(zip(names, (costs / scale).tolist(), strict=True)), (
        counts / scale @ costs
    ).tolist()
