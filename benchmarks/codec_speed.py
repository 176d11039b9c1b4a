"""How long uploads of 100 devices take to encode and decode, beside a round of the paper.

``python -m benchmarks.codec_speed`` measures, keeps a record and writes the table of
docs/thin_uplink.md; ``--page`` only writes it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import machine
from benchmarks.contenders import engine
from benchmarks.page_tables import PAGE, replace_table
from benchmarks.passes import spread
from mix2fld.codecs import rotation
from mix2fld.config.settings import Config
from mix2fld.engine.messages import Message
from mix2fld.engine.wire import Wire
from mix2fld.protocols.parts import Device, Turn
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Local, SampleFormat, State

RECORD = Path(__file__).parent.parent / "results" / "bench" / "codec.json"
UPLOADS, DEVICES, STEPS, PASSES = 100, 10, 6400, 7
BITS = 200
PATHS: dict[str, Callable[[], Any]] = {
    "machine code": rotation.usable_kernel,
    "NumPy alone": lambda: None,
}


def one_pass(steps: int, uploads: int) -> dict[str, Any]:
    """Seconds of a local phase, and of encoding and decoding what it moved weights by."""
    config = Config.of(protocol="murmur", update_bits=BITS)
    learning = make_learning(config, SampleFormat((28, 28, 1)), Classification(10))
    wire = Wire(get_protocol("murmur"), learning)
    trained = engine.measure(DEVICES, steps)
    local = Local(tuple(trained["weights"]), np.zeros((10, 10), np.float32))
    state = {"base": learning.common_weights}
    found: dict[str, Any] = {"local phase": trained["seconds"]}
    for name, kernel in PATHS.items():
        with mock.patch.object(rotation, "usable_kernel", kernel):
            turns = [Turn(0, 1, device) for device in range(uploads)]
            wire.decode_body(wire.encode_body(_device(state, turns[0]), local).data, turns[0])
            begun = time.perf_counter()
            sent = wire.encode_bodies([_device(state, turn) for turn in turns], [local] * uploads)
            between = time.perf_counter()
            messages = [Message(n, 1, body) for n, body in enumerate(sent)]
            wire.decode_uploads(messages, turns)
            found[name] = {"encode": between - begun, "decode": time.perf_counter() - between}
    return found


def _device(state: State, turn: Turn) -> Device:
    """A device whose upload needs no samples."""
    return Device(state, turn, lambda: (np.zeros(0), np.zeros(0, np.int32)), lambda: None)


def table(record: Mapping[str, Any]) -> str:
    """Milliseconds, and both together as a share of the local phase in the same pass."""
    passes: Sequence[Mapping[str, Any]] = record["passes"]
    lines = [
        f"| {UPLOADS} uploads of {BITS} bits | encode, ms | decode, ms | % of a round |",
        "|---" * 4 + "|",
    ]
    for name in PATHS:
        columns = [
            spread([1e3 * one[name][part] for one in passes]) for part in ("encode", "decode")
        ]
        shares = [100 * sum(one[name].values()) / one["local phase"] for one in passes]
        lines.append(f"| {name} | {' | '.join(columns)} | {spread(shares)} |")
    seconds = spread([one["local phase"] for one in passes], 2)
    found = record["machine"]
    note = (
        f"A round of the paper is the local phase of {DEVICES} devices of {STEPS:,} steps: "
        f"{seconds} s. Median of {len(passes)} passes, least and most in brackets; shares are "
        f"taken within a pass. {found['cpu']}, {found['cores']} cores, load average "
        f"{record['load']:.1f}; uploads are encoded and decoded {record.get('by', 'on one core')}."
    )
    return "\n".join(lines) + "\n\n" + note


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure unless told otherwise, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="measure nothing")
    if not parser.parse_args(arguments).page:
        passes = [one_pass(STEPS, UPLOADS) for _ in range(PASSES)]
        record = {
            "machine": machine.describe(),
            "load": os.getloadavg()[0],
            "by": "together, as in a round, by all cores",
            "passes": passes,
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    replace_table(PAGE, "speed", table(json.loads(RECORD.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
