"""An hour of runs in one process: memory and open files must stay flat.

Every pass runs all protocols into a folder, interrupts one of them and resumes it, reads the
results back and renders their table.
"""

import argparse
import gc
import io
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.engine.info import RoundInfo
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.tables import results_table
from mix2fld.runs.reader import find_run_folders
from mix2fld.runs.simulation import Watcher, resume_run, run
from reliability.records import write_record
from reliability.toy import small_grid, write_dataset

PAGE_BYTES = 4096
POINTS = 60


class Stopper(Watcher):
    """Ctrl-C after the first round of one protocol."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def round_done(self, config: Config, info: RoundInfo) -> None:
        if config.protocol == self.protocol and info.round == 1:
            raise KeyboardInterrupt


def memory_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_BYTES / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def one_pass(number: int, file: Path, folder: Path) -> int:
    """How many rounds were simulated."""
    names = list(PROTOCOLS)
    config = small_grid(str(file), protocols=tuple(names), seed=number)
    dataset = load_dataset(config.data)
    try:
        run(config, folder, dataset=dataset, watcher=Stopper(names[number % len(names)]))
    except KeyboardInterrupt:
        results = [resume_run(path, dataset) for path in find_run_folders([folder])]
    Console(file=io.StringIO()).print(results_table(results))
    shutil.rmtree(folder)
    return sum(len(result.rounds) for result in results)


def soak(minutes: float, record_every: float = 60.0) -> dict[str, Any]:
    """Run until the time is over; the record is updated meanwhile."""
    started = last = time.monotonic()
    samples: list[tuple[float, float, int]] = []
    passes = rounds = 0
    with tempfile.TemporaryDirectory() as scratch:
        file = write_dataset(Path(scratch) / "toy.npz")
        while time.monotonic() - started < 60 * minutes:
            rounds += one_pass(passes, file, Path(scratch) / "runs")
            passes += 1
            gc.collect()
            samples.append((time.monotonic() - started, memory_mb(), open_files()))
            if time.monotonic() - last > record_every:
                last = time.monotonic()
                write_record("soak", report(samples, passes, rounds))
    return report(samples, passes, rounds)


def report(samples: list[tuple[float, float, int]], passes: int, rounds: int) -> dict[str, Any]:
    """Growth is a straight line through the memory of the second half, and files at its ends."""
    seconds, memory, files = (np.array(column) for column in zip(*samples, strict=True))
    late = seconds >= seconds[-1] / 2
    slope = np.polyfit(seconds[late], memory[late], 1)[0] * 3600 if late.sum() > 1 else 0.0
    shown = np.unique(np.linspace(0, len(samples) - 1, POINTS).astype(int))
    return {
        "minutes": round(float(seconds[-1]) / 60, 1),
        "passes": passes,
        "runs": passes * len(PROTOCOLS),
        "rounds": rounds,
        "memory_mb": {
            "after_first_pass": round(float(memory[0]), 1),
            "half_way": round(float(memory[late][0]), 1),
            "end": round(float(memory[-1]), 1),
            "growth_per_hour": round(float(slope), 2),
        },
        "open_files": {"first": int(files[0]), "most": int(files.max()), "end": int(files[-1])},
        "points": [
            [round(float(seconds[i])), round(float(memory[i]), 1), int(files[i])] for i in shown
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    found = soak(parser.parse_args().minutes)
    write_record("soak", found)
    print({name: found[name] for name in ("minutes", "runs", "memory_mb", "open_files")})


if __name__ == "__main__":
    main()
