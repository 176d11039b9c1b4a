"""A process with the code of the small device alone: decodes a relay, and says what that takes."""

import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import usage
from mix2fld.codecs import rotation
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.engine.wire import Wire
from mix2fld.protocols.downlink import KNOWN
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.classification import Classification

TIMES = 10
PATHS = ("kernel", "numpy")


def main() -> None:
    with np.load(sys.argv[1]) as file:
        stored = dict(file)
    asked: dict[str, Any] = json.loads(str(stored["asked"]))
    samples, task = SampleFormat(tuple(asked["shape"])), Classification(asked["labels"])
    learning = small_learning(asked["config"], samples, task)
    if learning is None:
        raise SystemExit("no kernel of this network: not a small device")
    wire = Wire(get_protocol(asked["config"]["protocol"]), learning)
    weights = tuple(stored[f"weights.{n}"] for n in range(len(learning.dims.weight_shapes)))
    state = {KNOWN: {"version": stored["version"], "weights": weights}}
    kernel = rotation.usable_kernel() if sys.argv[2] == "kernel" else None
    if kernel is None and sys.argv[2] == "kernel":
        raise SystemExit("no kernel that decodes")
    with patch.object(rotation, "usable_kernel", lambda: kernel):
        print(json.dumps(measured(wire, stored["data"].tobytes(), state)))


def measured(wire: Wire, data: bytes, state: dict[str, Any]) -> dict[str, Any]:
    """Resident memory before and at the peak of the first time, and the least time of some."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    before = memory_kb("VmRSS")
    version = taken_version(wire, data, state)
    peak, times = memory_kb("VmHWM"), []
    for _ in range(TIMES):
        started = time.perf_counter()
        taken_version(wire, data, state)
        times.append(time.perf_counter() - started)
    heavy = sorted({"jax", "scipy", "pydantic"} & set(sys.modules))
    return {
        "version": version, "bytes": len(data), "s": min(times), "before_kb": before,
        "peak_kb": peak, "heavy": heavy,
    }  # fmt: skip


def taken_version(wire: Wire, data: bytes, state: dict[str, Any]) -> int:
    """The version of the weights that a device has after a download, which a checksum proves."""
    taken = wire.decode_download(data, [state])
    if KNOWN not in taken:
        raise SystemExit("the relay does not lead to the server's weights")
    return int(taken[KNOWN]["version"])


def memory_kb(name: str) -> int:
    """Of this process, as Linux counts it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


if __name__ == "__main__":
    usage.arguments(__doc__, "<FILE kernel|numpy>")
    main()
