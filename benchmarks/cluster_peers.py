"""The round of 100,000 devices by other frameworks, in turn with this one: all meet the same load.

Each is a process of its own. Frameworks run in the environment of the peers, where Flower has the
version of Ray that it asks for. What is not over after ``LIMIT_S`` is stopped, and what it had done
by then is kept.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import usage
from benchmarks.machine import percent_busy

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
LIMIT_S = 180.0
DEVICES, PARTICIPANTS, FEW, STEPS, ROUNDS = 100_000, 1000, 10, 20, 2
TURNS = ("fl", "pfl 1000", "fl", "flower 10", "fl", "flower 1000", "fl")
"""Who is measured after whom, and how many devices take part."""


def measure_peers() -> dict[str, Any]:
    """All turns; a framework is compared with this one just before and after it."""
    turns: list[dict[str, Any]] = []
    for turn in TURNS:
        name, _, participants = turn.partition(" ")
        busy = percent_busy()
        if name == "fl":
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cluster", "fl"]
        else:
            command = [
                str(PYTHON),
                "-W",
                "ignore",
                "-m",
                "benchmarks.cluster_peers",
                name,
                participants,
            ]
        found = _bounded(command)
        turns.append(
            {
                "name": name,
                "participants": int(participants or PARTICIPANTS),
                "busy_before": busy,
                **found,
            }
        )
        print(json.dumps(turns[-1]), file=sys.stderr, flush=True)
    return {"turns": turns, "limit_s": LIMIT_S}


def _bounded(command: list[str]) -> dict[str, Any]:
    """What a process told within the limit, and whether it was stopped."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.jsonl"
        started = time.monotonic()
        process = subprocess.Popen(
            [*command, str(told)], cwd=ROOT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code: int | None = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - started
        lines = told.read_text().splitlines() if told.exists() else []
    events = [json.loads(line) for line in lines]
    return {
        "rounds": [event["round"] for event in events if "round" in event],
        "ready_s": next((event["ready"] for event in events if "ready" in event), None),
        "stopped_after_s": seconds if code is None else None,
        "failed": bool(code),
    }


def tell(target: Path, **event: float) -> None:
    """Write down what happened, for the process that waits."""
    with target.open("a") as file:
        file.write(json.dumps(event) + "\n")


def main(name: str, participants: int, target: Path) -> None:
    """One framework, in this process."""
    from benchmarks import many_peers

    started = time.perf_counter()

    def ready() -> None:
        tell(target, ready=time.perf_counter() - started)

    def over(seconds: float) -> None:
        tell(target, round=seconds)

    if name == "flower":
        many_peers.flower(DEVICES, participants, STEPS, ROUNDS, many_peers.Listener(ready, over))
        return
    many_peers.pfl(DEVICES, participants, STEPS, ROUNDS, target)


if __name__ == "__main__":
    peer, count, file = usage.arguments(__doc__, "<PEER PARTICIPANTS FILE>")
    main(peer, int(count), Path(file))
