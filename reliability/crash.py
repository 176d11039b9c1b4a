"""Kills real ``mix2fld run`` processes at random instants until each run is finished.

About half of the restarts are ``mix2fld resume``. The folder must end with the bytes of an
uninterrupted run.
"""

import argparse
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

from mix2fld.protocols.table import PROTOCOLS
from reliability.faults import contents
from reliability.records import write_record
from reliability.toy import small_flags, write_dataset

ROUNDS = 30
PATIENCE_SECONDS = 600
POLL_SECONDS = 0.002


class Victim:
    """A comparison of some protocols that is killed again and again."""

    def __init__(
        self, protocols: Sequence[str], rounds: int, file: Path, scratch: Path, rng: random.Random
    ) -> None:
        self.whole, self.out, self.rng = scratch / "whole", scratch / "killed", rng
        self.names = [f"{protocol}-s0" for protocol in protocols]
        self.all_rounds = rounds * len(protocols)
        flags = small_flags(str(file), rounds=rounds)
        self._command = ["run", *flags, "--protocols", *protocols, "--out"]
        self.kills: list[str] = []
        self.starts: Counter[str] = Counter()

    def run_uninterrupted(self) -> None:
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
            if self.rounds() >= before + aim and self.out.exists():
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
        """Let it finish."""
        process = self.start()
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said.decode()

    def compare(self) -> int:
        """How many runs there are; fails unless each is identical to the uninterrupted one."""
        for name in self.names:
            found, whole = contents(self.out / name), contents(self.whole / name)
            wrong = [f for f in {*found, *whole} if found.get(f) != whole.get(f)]
            assert not wrong, f"{name}: {', '.join(sorted(wrong))}"
        return len(self.names)

    def start(self) -> "subprocess.Popen[bytes]":
        begun = all((self.out / name / "config.toml").exists() for name in self.names)
        resume = begun and self.rng.random() < 0.5
        self.starts["mix2fld resume" if resume else "the same command"] += 1
        words = ["resume"] if resume else self._command
        return subprocess.Popen(
            self._process([*words, str(self.out)]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def rounds(self) -> int:
        """Rounds recorded so far."""
        return sum(file.read_bytes().count(b"\n") for file in self.out.glob("*/rounds.jsonl"))

    def done(self) -> bool:
        return all((self.out / name / "summary.json").exists() for name in self.names)

    def state(self) -> str:
        """What the kill left behind, in the run that was in progress."""
        folders = [self.out / name for name in self.names]
        if not all((folder / "config.toml").exists() for folder in folders):
            return "while the runs were set up"
        folder = next((f for f in folders if not (f / "summary.json").exists()), None)
        if folder is None:
            return "when all runs were finished"
        if list(folder.glob("*.part")):
            return "while a file was written"
        rounds = folder / "rounds.jsonl"
        if not rounds.exists():
            return "before the first round of a run"
        newest = max((c.stat().st_mtime_ns for c in folder.glob("checkpoint*")), default=0)
        if rounds.stat().st_mtime_ns > newest:
            return "between record and checkpoint"
        return "while a round was simulated"

    def _process(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "mix2fld", *arguments]


def kill_runs(
    groups: Sequence[Sequence[str]],
    kills_each: int,
    seed: int,
    rounds: int = ROUNDS,
    keep: bool = False,
) -> dict[str, Any]:
    """Kill each group's comparison ``kills_each`` times; counts of where the kills hit."""
    where: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    kills: dict[str, int] = {}
    identical = 0
    with tempfile.TemporaryDirectory() as scratch:
        file = write_dataset(Path(scratch) / "toy.npz")
        for protocols in groups:
            title = ", ".join(protocols)
            rng = random.Random(f"{seed} {title}")
            victim = Victim(protocols, rounds, file, Path(scratch) / title, rng)
            victim.run_uninterrupted()
            while len(victim.kills) < kills_each:
                left = victim.all_rounds - victim.rounds()
                share = max(1, left // (kills_each - len(victim.kills)))
                victim.kill_once(rng.randrange(share + 1))
                if victim.done() and len(victim.kills) < kills_each:
                    victim.finish()  # a kill at the very end leaves a lock, for the next start
                    identical += victim.compare()
                    victim.out = victim.out.with_name(f"{victim.out.name}+")  # begin another one
            victim.finish()
            identical += victim.compare()
            where.update(victim.kills)
            starts.update(victim.starts)
            kills[title] = len(victim.kills)
            found = {
                "kills": sum(kills.values()),
                "identical": identical,
                "group": kills,
                "where": dict(where),
                "starts": dict(starts),
                "seed": seed,
            }
            print(f"{title}: {kills[title]} kills survived", flush=True)
            if keep:
                write_record("crash", found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=12, help="for each protocol, and for all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    groups = [*((name,) for name in PROTOCOLS), tuple(PROTOCOLS)]
    print(kill_runs(groups, given.kills, given.seed, keep=True))


if __name__ == "__main__":
    main()
