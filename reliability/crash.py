"""Kills real ``mix2fld run`` processes at random instants until each run is done.

Every other start is ``mix2fld resume``. The folder must end with the bytes of a run that nobody
killed.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mix2fld.protocol import PROTOCOLS
from reliability.faults import contents
from reliability.records import write_record
from reliability.toy import small_flags, write_dataset

ROUNDS = 30
PATIENCE_SECONDS = 600
POLL_SECONDS = 0.002


class Victim:
    """One run that is killed again and again."""

    def __init__(self, protocol: str, file: Path, scratch: Path, rng: random.Random) -> None:
        flags = small_flags(str(file), protocols=protocol, rounds=ROUNDS)
        self.whole, self.out = scratch / "whole", scratch / "killed"
        self.name, self.rng = f"{protocol}-s0", rng
        self._command = ["run", *flags, "--out"]
        self.kills: list[str] = []
        self.starts: Counter[str] = Counter()

    def play_whole(self) -> None:
        """The run to compare with."""
        done = subprocess.run(
            self._process([*self._command, str(self.whole)]), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def kill_once(self, aim: int) -> None:
        """Start it, and kill it soon after it recorded ``aim`` more rounds."""
        before = self.rounds()
        process = self.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self.rounds() >= before + aim and (self.out / self.name).exists():
                time.sleep(self.rng.random() * 0.05)
                break
            time.sleep(POLL_SECONDS)
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        if process.returncode == -signal.SIGKILL:
            self.kills.append(self.state())
        else:
            assert process.returncode == 0, said.decode()

    def finish(self) -> None:
        """Let it come to its end and compare."""
        process = self.start()
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said.decode()
        assert contents(self.out / self.name) == contents(self.whole / self.name), self.name

    def start(self) -> "subprocess.Popen[bytes]":
        resume = (self.out / self.name / "config.toml").exists() and self.rng.random() < 0.5
        self.starts["mix2fld resume" if resume else "the same command"] += 1
        words = ["resume"] if resume else self._command
        return subprocess.Popen(
            self._process([*words, str(self.out)]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def rounds(self) -> int:
        try:
            return (self.out / self.name / "rounds.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0

    def state(self) -> str:
        """What the kill left behind."""
        folder = self.out / self.name
        if not (folder / "config.toml").exists():
            return "before the run was set up"
        if (folder / "summary.json").exists():
            return "when the run was finished"
        if list(folder.glob("*.part")):
            return "while a file was written"
        checkpoints = [
            folder / "checkpoint.safetensors",
            folder / "checkpoint.previous.safetensors",
        ]
        rounds = folder / "rounds.jsonl"
        if not rounds.exists():
            return "before the first round"
        newest = max((c.stat().st_mtime_ns for c in checkpoints if c.exists()), default=0)
        if rounds.stat().st_mtime_ns > newest:
            return "between record and checkpoint"
        return "while a round was played"

    def _process(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "mix2fld", *arguments]


def kill_runs(
    protocols: Sequence[str], kills_each: int, seed: int, keep: bool = False
) -> dict[str, Any]:
    """Kill every protocol's run so often; the counts of where the kills fell."""
    found: dict[str, Any] = {"kills": 0, "identical": 0, "protocol": {}, "where": {}, "starts": {}}
    where: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("MIX2FLD_CACHE", str(Path(scratch) / "cache"))
        file = write_dataset(Path(scratch) / "toy.npz")
        for protocol in protocols:
            victim = Victim(
                protocol, file, Path(scratch) / protocol, random.Random(f"{seed}{protocol}")
            )
            victim.play_whole()
            while len(victim.kills) < kills_each:
                left = max(1, (ROUNDS - victim.rounds()) // (kills_each - len(victim.kills)))
                victim.kill_once(victim.rng.randrange(left + 1))
                if victim.state() == "when the run was finished" and len(victim.kills) < kills_each:
                    victim.out = victim.out.with_name(f"{victim.out.name}+")  # a fresh one
            victim.finish()
            where.update(victim.kills)
            starts.update(victim.starts)
            found["kills"] += len(victim.kills)
            found["identical"] += 1
            found["protocol"][protocol] = len(victim.kills)
            found |= {"where": dict(where), "starts": dict(starts), "seed": seed}
            if keep:
                write_record("crash", found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=14, help="for each protocol")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocols", nargs="+", default=list(PROTOCOLS))
    given = parser.parse_args()
    print(kill_runs(given.protocols, given.kills, given.seed, keep=True))


if __name__ == "__main__":
    main()
