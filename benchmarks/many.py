"""Many devices of which few take part: ``python -m benchmarks.many`` measures and writes the page.

Every row is measured in a separate process and written as it comes; ``row NAME`` measures one here,
``--only NAME ...`` some, ``page`` only writes the page (``docs/many_devices.md``).
"""

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import usage
from benchmarks.machine import describe
from benchmarks.many_page import PAGE, render

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "many.json"
STEPS = 20


class Row(NamedTuple):
    """What one process measures."""

    title: str
    devices: int = 10_000
    participants: int = 100
    protocol: str = ""
    states: str = "memory"
    peer: str = ""
    rounds: int = 15
    update_bits: int | None = None


ROWS = {
    "fl": Row("FL", protocol="fl"),
    "fd": Row("FD", protocol="fd"),
    "mix2fld": Row("Mix2FLD", protocol="mix2fld"),
    "murmur-200": Row("Murmur, 200 bits", protocol="murmur", update_bits=200),
    "murmur-1400": Row("Murmur, 1,400 bits", protocol="murmur", update_bits=1400),
    "flower": Row("Flower simulation on Ray, plain PyTorch client", peer="flower", rounds=3),
    "pfl": Row("pfl under torchrun, one process per core", peer="pfl", rounds=3),
    "fl-100k": Row("FL", 100_000, 1000, "fl", rounds=1),
    "mix2fld-100k": Row("Mix2FLD", 100_000, 1000, "mix2fld", rounds=1),
    "fd-100k": Row("FD", 100_000, 1000, "fd", rounds=5),
    "fd-100k-disk": Row("FD, states on disk", 100_000, 1000, "fd", "disk", rounds=5),
}


def main(arguments: list[str]) -> None:
    """Measure all rows, or what the arguments say; then write the page."""
    if arguments[:1] == ["row"]:
        print(json.dumps(measure(ROWS[arguments[1]])), flush=True)
        return
    names = arguments[1:] if arguments[:1] == ["--only"] else list(ROWS)
    if arguments != ["page"]:
        measure_all(names)
    PAGE.write_text(render(json.loads(RECORD.read_text())))


def measure_all(names: list[str]) -> None:
    """Every row in a process of its own; rows measured before are kept."""
    record: dict[str, Any] = {"steps": STEPS, "rows": {}}
    if RECORD.exists():
        record = json.loads(RECORD.read_text())
    record["machine"] = describe()
    for name in names:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.many", "row", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or "no message").splitlines()[-1][:300]
            print(f"{name}: failed: {said}", flush=True)
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        record["rows"][name] = {**ROWS[name]._asdict(), **found}
        print(name, found, flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


def measure(row: Row) -> dict[str, Any]:
    """Seconds of a round, and peak memory."""
    load = round(os.getloadavg()[0], 2)
    if row.peer:
        from benchmarks import many_peers

        seconds = getattr(many_peers, row.peer)(row.devices, row.participants, STEPS, row.rounds)
        return {**spread("seconds", seconds), "load_before": load}
    return {**measure_engine(row), "load_before": load}


def measure_engine(row: Row) -> dict[str, Any]:
    """Whole rounds of this engine over an ideal link; the first one is not counted in seconds.

    ``share_alone`` is the share of local steps by processor time, as if nothing else ran on the
    machine: that of the steps shared out to all cores, beside that of the main thread.
    """
    from benchmarks.contenders.rounds import PARTS, Stopwatch
    from mix2fld.config.settings import Config
    from mix2fld.data import load_dataset
    from mix2fld.native.processor import usable_cores
    from mix2fld.runs.simulation import make_simulation

    config = Config.of(
        protocol=row.protocol,
        devices=row.devices,
        participants=row.participants,
        device_states=row.states,
        reuse_samples=True,
        local_steps=STEPS,
        server_steps=STEPS,
        curve_points=1,
        link="ideal",
        rounds=row.rounds + 1,
        **({} if row.update_bits is None else {"update_bits": row.update_bits}),
    )
    started = time.perf_counter()
    simulation = make_simulation(config, load_dataset(config.data))
    state = simulation.start()
    prepared = time.perf_counter() - started
    state, _ = simulation.run_round(state)
    gc.freeze()  # as a run does before its rounds
    rounds, shares, alone = [], [], []
    for _ in range(row.rounds):
        watch, of_all, own = Stopwatch(), Stopwatch(time.process_time), Stopwatch(time.thread_time)
        with own.put_around(PARTS), of_all.put_around(PARTS), watch.put_around(PARTS):
            started = time.perf_counter(), time.thread_time()
            state, _ = simulation.run_round(state)
            total, worked = time.perf_counter() - started[0], time.thread_time() - started[1]
        rounds.append(total - watch.seconds("evaluation"))
        shares.append(watch.seconds("local") / rounds[-1])
        steps = of_all.seconds("local") / usable_cores()
        other = worked - own.seconds("local") - own.seconds("evaluation")
        alone.append(steps / (steps + other))
    kept = simulation.fleet.states_of(state.devices)
    states = {id(own) for own in kept.values()}
    return {
        **spread("seconds", rounds),
        **spread("share", shares),
        **spread("share_alone", alone),
        "prepared": prepared,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "states": len(states),
        "state_bytes": sum(tensor.nbytes for tensor in kept[0]["weights"]),
    }


def spread(name: str, values: list[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {
        name: statistics.median(values),
        f"{name}_least": min(values),
        f"{name}_most": max(values),
    }


if __name__ == "__main__":
    main(usage.arguments(__doc__, "[page]", "[--only ROW ...]", "[row ROW]"))
