"""What the driver of 100,000 devices needs when each keeps something: memory, disk, time."""

import os
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

ROUNDS = 5


def measure_states(protocol: str, where: str, hosts: Any) -> dict[str, Any]:
    """A run with its folder on the Ray fleet; after each round, memory and what is written."""
    import mix2fld
    from mix2fld.config.settings import Config
    from mix2fld.engine.fleets.ray_fleet import RayFleet
    from mix2fld.runs.loop import Watcher

    class Looking(Watcher):
        def __init__(self) -> None:
            self.rounds: list[dict[str, float]] = []
            self._last, self._began = time.perf_counter(), 0.0

        def note(self, line: str) -> None:
            """Nothing is learned in so few steps."""

        def round_done(self, config: Any, info: Any) -> None:
            del config, info
            now = time.perf_counter()
            files = [path.stat() for path in Path(folder).rglob("*") if path.is_file()]
            found = {
                "seconds": now - self._last,
                "driver_bytes": resident_bytes(os.getpid()),
                "written_bytes": sum(f.st_size for f in files if f.st_mtime > self._began),
                "folder_bytes": sum(f.st_size for f in files),
            }
            self.rounds.append(found)
            self._last, self._began = time.perf_counter(), time.time()

    config = Config.of(
        protocol=protocol, devices=100_000, participants=1000, reuse_samples=True,
        local_steps=20, curve_points=1, evaluated_devices=1, link="ideal", rounds=ROUNDS,
        device_states=where,
    )  # fmt: skip
    looking = Looking()
    with tempfile.TemporaryDirectory() as folder:
        mix2fld.run(config, Path(folder), fleet=partial(RayFleet, hosts), watcher=looking)
    pids = hosts.ray.get([host.pid.remote() for host in hosts.ready()])
    return {
        "rounds": looking.rounds,
        "driver_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "host_bytes": max(resident_bytes(pid) for pid in pids),
    }


def resident_bytes(pid: int) -> int:
    """Memory of a process that is resident, without files that it has mapped."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(found) * 1024
