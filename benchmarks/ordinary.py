"""Ordinary networks on one core, beside PyTorch: ``python -m benchmarks.ordinary [--passes 5]``.

Each side is a process of its own on the same core; in every pass each takes its steps in turn, and
processor time is counted. With AVX-512, everything is measured with AVX2 as well. Writes
``results/bench/ordinary.json`` and ``docs/benchmarks.md``.
"""

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

from benchmarks import ordinary_page, report
from benchmarks.instructions import AVX2
from benchmarks.machine import cpu_flags, describe
from benchmarks.ordinary_page import ROWS, SIDES

Times = dict[str, list[float]]
STEPS = {"usual-10": 60, "resnet-32": 16, "cifar-32": 32}


class Side:
    """A process that measures when it is asked."""

    def __init__(self, name: str, row: str, environment: dict[str, str]) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ordinary_side", name, row]
        self._process = subprocess.Popen(
            [*command, str(STEPS[row])],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> None:
        """Until it has compiled and warmed up."""
        self._answer()

    def measure(self) -> float:
        """Milliseconds of a step, or GFLOP/s of the core."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """No more is asked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args} ended without an answer")
        return line.strip()


def measure_row(row: str, instructions: str, left_out: list[str], passes: int) -> Times:
    """Every side of a row, pass by pass."""
    environment = AVX2 if instructions == "avx2" else {}
    names = [name for name in ("peak", *SIDES) if name not in left_out]
    if environment:  # the compiler of PyTorch 2.13 mixes vectors of both widths, and its code fails
        names = [name for name in names if name != "torch-compiled"]
    found: Times = {name: [] for name in names}
    with ExitStack() as stack:
        sides = {}
        for name in found:
            sides[name] = Side(name, row, environment)
            stack.callback(sides[name].close)
        for side in sides.values():
            side.wait()
        for number in range(1, passes + 1):
            for name, side in sides.items():
                found[name].append(side.measure())
            told = ", ".join(f"{name} {values[-1]:.2f}" for name, values in found.items())
            print(f"{row} {instructions} pass {number}: {told}", flush=True)
    return found


def main() -> None:
    """Measure, record as it grows, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--without", nargs="+", choices=SIDES, default=[], metavar="SIDE")
    options = parser.parse_args()
    record: dict[str, Any] = ordinary_page.load_record()
    known = ["avx512", "avx2"] if "avx512f" in cpu_flags() else ["avx2"]
    for instructions in reversed(known):
        for row in options.rows:
            name = f"{row} {instructions}"
            record["rows"][name] = measure_row(row, instructions, options.without, options.passes)
            record |= {"machine": describe(), "load": round(os.getloadavg()[0], 1)}
            ordinary_page.RECORD.write_text(json.dumps(record, indent=1) + "\n")
    report.write_page()


if __name__ == "__main__":
    main()
